"""Samples that a new version translates in a fresh process before it is published."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dtmt_tf.errors import UserError
from dtmt_tf.text.faults import is_repetition

SCRIPT = Path(__file__).with_name("fresh_process.py")
LINES_AT_ONCE = 8
ALLOWED_LOSS = 5.0  # BLEU on few samples, against the version before; more is refused
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}  # memory may be taken

Pair = tuple[str, str]  # a source and its translation


@dataclass(frozen=True)
class Canary:
    """What a version has to show.

    Args:
        score: Gives translations and references a BLEU score.
        min_bleu: Least BLEU on the samples; by default `ALLOWED_LOSS` less than the version
            before has.
        force: Whether a version is published that fails, or that is the same as the one before.
    """

    score: Callable[[list[str], list[str]], float]
    min_bleu: float | None = None
    force: bool = False

    def translate(
        self, folder: Path, pairs: Sequence[Pair], lines_at_once: int = LINES_AT_ONCE
    ) -> list[str]:
        """Returns a version's translations of the sources of samples.

        Raises:
            UserError: If it does not load, does not answer or fails on a warm-up request.
        """
        result = subprocess.run(
            [sys.executable, "-P", SCRIPT, folder, str(lines_at_once)],
            input=json.dumps([source for source, _ in pairs]).encode(),
            capture_output=True,
            env={**os.environ, **ENVIRONMENT},
        )
        if result.returncode:
            told = result.stderr.decode("utf-8", "replace").strip().splitlines()
            # TensorFlow ends with the operations that an error came through
            words = [line for line in told if not line.lstrip().startswith("[[")][-3:]
            if result.returncode < 0:
                words.append(
                    f"{signal.Signals(-result.returncode).name} ended it: memory may have run out. "
                    "The training is saved; dtmt export tries again."
                )
            raise UserError(
                "The exported model does not work in a fresh process:\n  " + "\n  ".join(words)
            )
        translations: list[str] = json.loads(result.stdout)
        return translations

    def bleu(self, translations: list[str], pairs: Sequence[Pair]) -> float:
        """Returns the score of translations of samples."""
        return self.score(translations, [target for _, target in pairs])

    def problems(self, translations: list[str], bleu: float, before: float | None) -> list[str]:
        """Lists what speaks against publishing a version.

        Args:
            translations: Its translations of the samples.
            bleu: Their score.
            before: The score of the version before, if there is one.
        """
        number = len(translations)
        found = []
        empty = sum(not text.strip() for text in translations)
        if 2 * empty > number:
            found.append(f"{empty} of {number} samples are translated as nothing")
        repeated = sum(is_repetition(text) for text in translations)
        if 2 * repeated > number:
            found.append(f"{repeated} of {number} translations repeat one token")
        if self.min_bleu is not None:
            if bleu < self.min_bleu:
                found.append(
                    f"BLEU {bleu:.2f} on {number} samples; --min-bleu asks for {self.min_bleu:g}"
                )
        elif before is not None and bleu < before - ALLOWED_LOSS:
            found.append(
                f"BLEU {bleu:.2f} on {number} samples; the version before has {before:.2f}, and at "
                f"most {ALLOWED_LOSS:g} less is published (--min-bleu sets another bound)"
            )
        return found
