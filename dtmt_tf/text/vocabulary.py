"""The sub-words of two languages: trained together, saved, loaded, known by a fingerprint."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterable
from pathlib import Path

from dtmt_tf.config import DataConfig
from dtmt_tf.errors import UserError
from dtmt_tf.files import write_atomically
from dtmt_tf.text.subword import Sampler, Subwords, train_subwords


class Vocabulary:
    """The sub-words of both languages.

    Args:
        source: Sub-words of the source.
        target: Sub-words of the target; the same object if joint.
    """

    FILES = ("source.spm", "target.spm")

    def __init__(self, source: Subwords, target: Subwords) -> None:
        self.source = source
        self.target = target

    @classmethod
    def train(cls, source: Iterable[str], target: Iterable[str], data: DataConfig) -> Vocabulary:
        """Trains one joint model, or one for each side, on the training text, read once.

        Raises:
            UserError: See `train_subwords`.
        """
        if data.joint_vocabulary:
            lines = itertools.chain(source, target)
            joint = Subwords(train_subwords(lines, data.source_vocab_size, data))
            return cls(joint, joint)
        return cls(
            Subwords(train_subwords(source, data.source_vocab_size, data)),
            Subwords(train_subwords(target, data.target_vocab_size, data, "target_vocab_size")),
        )

    @property
    def fingerprint(self) -> str:
        """Hash of both models, which identifies a vocabulary wherever it lies."""
        hashes = [hashlib.sha256(side.model).digest() for side in (self.source, self.target)]
        return hashlib.sha256(b"".join(hashes)).hexdigest()[:16]

    def samplers(self, dropout_rate: float) -> tuple[Sampler, Sampler] | None:
        """Returns both sides' `sample` at a rate of BPE-dropout; none if it is 0."""
        if not dropout_rate:
            return None
        return (
            functools.partial(self.source.sample, dropout_rate=dropout_rate),
            functools.partial(self.target.sample, dropout_rate=dropout_rate),
        )

    def save(self, folder: Path) -> None:
        """Writes `source.spm` and `target.spm` (equal, if joint)."""
        for name, subwords in zip(self.FILES, (self.source, self.target), strict=True):
            write_atomically(folder / name, subwords.model)

    @classmethod
    def load(cls, folder: Path) -> Vocabulary:
        """Reads what `save` wrote.

        Raises:
            UserError: If a file is missing or damaged, or was made by another program.
        """
        sides: list[Subwords] = []
        for path in (folder / name for name in cls.FILES):
            remedy = (
                "Another run of the same corpus and data.* has the same file: copy it here, or "
                "begin anew with --restart."
            )
            if not path.exists():
                raise UserError(f"{path} is missing. {remedy}")
            model = path.read_bytes()
            if sides and sides[0].model == model:
                return cls(sides[0], sides[0])
            try:
                sides.append(Subwords(model))
            except ValueError as error:
                raise UserError(f"{path} holds no sub-words: {error}. {remedy}") from error
        return cls(*sides)
