"""How fast a model translates, what exporting it takes, and how fast the export starts."""

from __future__ import annotations

import dataclasses
import json
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtmt_tf.config import DecodingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.planning.processes import peak_memory
from pipelines.benchmark import corpora
from pipelines.benchmark.timing import Laps

if TYPE_CHECKING:
    from dtmt_tf.models import TranslationModel
    from dtmt_tf.runs import Run

LATENCIES = 100  # sentences translated one by one
MORE = (2, 4)  # times the lines, to see whether memory grows with them


def weights(run: Run, options: Namespace) -> tuple[TranslationModel, list[int]]:
    """Returns the trained model of `--run`, else one with fresh weights, and its checkpoints."""
    from dtmt_tf.runs import best_model

    return best_model(run) if options.run else (run.build_model(), [])


class Translations:
    """Translating a test split as evaluate.py does it, or through the exported model.

    Args:
        options: The command's.
        began: When the process began.
    """

    def __init__(self, options: Namespace, began: float) -> None:
        from dtmt_tf.runs import translate_function
        from dtmt_tf.translator import Translator

        self.laps = Laps(began)
        self.laps.end("TensorFlow")
        self.run = run = corpora.need_run(options)
        if not run.scored_splits:
            raise UserError(f"{run.folder} has no text to translate: no test split, no validation.")
        self.decoding = run.experiment.decoding
        self.function: Any = None
        self.translator: Translator | None = None
        if options.saved_model:
            self.translator = Translator.load(run.folder, self.decoding.batch_size)
            asked = [text for text in options.set if text.startswith("decoding.")]
            _check_search(run.folder, self.translator.folder, self.decoding, asked)
            self.parameters = None
        else:
            model, _ = weights(run, options)
            self.function = translate_function(run, model)
            self.parameters = model.count_params()
        self.laps.end("model")
        self._translate(["A man ."])
        self.laps.end("first translation")
        self.lines = run.corpus.lines(run.scored_splits[0])[0]
        self.trained = bool(options.run)
        self.memory = options.memory
        self.translations: list[str] = []
        self.window()
        self.warm_traces = self._traces()

    def window(self) -> dict[str, float]:
        """Translates the lines; returns seconds and sentences."""
        start = time.perf_counter()
        self.translations = self._translate(self.lines)
        return {"seconds": time.perf_counter() - start, "amount": len(self.lines)}

    def details(self) -> dict[str, Any]:
        """Returns what windows do not say."""
        traces = {"warm-up": self.warm_traces, "later": self._traces() - self.warm_traces}
        memory = {str(len(self.lines)): peak_memory()}
        for times in MORE if self.memory else ():
            self._translate(self.lines * times)
            memory[str(len(self.lines) * times)] = peak_memory()
        latencies = []
        for line in self.lines[:LATENCIES]:
            start = time.perf_counter()
            self._translate([line])
            latencies.append(time.perf_counter() - start)
        latencies.sort()
        subwords = self.run.vocabulary.target.encode(self.translations)  # with <eos>
        return {
            "parameters": self.parameters,
            "search": dataclasses.asdict(self.decoding),
            "sentences": len(self.lines),
            "subwords_per_sentence": subwords.flat_values.shape[0] / len(self.lines),
            "latency": {
                f"p{percent}": latencies[len(latencies) * percent // 100] for percent in (50, 95)
            },
            "start": self.laps.seconds,
            "traces": traces,
            "peak_memory": memory[str(len(self.lines))],
            "peak_memory_by_lines": memory,
            "bleu": self._bleu() if self.trained else {},
        }

    def _bleu(self) -> dict[str, float]:
        """Returns what validation, and the lines that were measured, score."""
        from dtmt_tf.runs import score

        run, found = self.run, {}
        for split in dict.fromkeys(("validation", run.scored_splits[0])):
            if split not in run.corpus.sizes:
                continue
            source, target = run.corpus.lines(split)
            written = self.translations if source == self.lines else self._translate(source)
            found[split] = score(run, written, target).bleu
        return found

    def profile(self, folder: str) -> None:
        """Writes a profile of one batch for TensorBoard."""
        import tensorflow as tf

        with tf.profiler.experimental.Profile(folder):
            self._translate(self.lines[: self.decoding.batch_size])

    def _translate(self, lines: list[str]) -> list[str]:
        from dtmt_tf.batched_lines import translate_lines

        if self.translator:
            return [translation.text for translation in self.translator(lines)]
        return translate_lines(lines, self.function, self.decoding.batch_size)

    def _traces(self) -> int:
        return self.function.experimental_get_tracing_count() if self.function else 0


def _check_search(run: Path, version: Path, decoding: DecodingConfig, asked: Sequence[str]) -> None:
    """Refuses an exported model that searches in another way than is asked for by `--set`."""
    written = json.loads((version / "experiment.json").read_text("utf-8"))["settings"]["decoding"]
    exported = dataclasses.asdict(DecodingConfig()) | written  # a version may have fewer settings
    differ = [
        f"decoding.{name}={exported[name]}, not {wanted}"
        for name, wanted in dataclasses.asdict(decoding).items()
        if exported[name] != wanted
    ]
    if differ:
        raise UserError(
            f"{version} was exported with {', '.join(differ)}. This makes another:\n"
            f"  python pipelines/export.py {run} --set {' '.join(asked)}"
        )


class Exporting:
    """Exporting a model, with all that goes with it.

    Args:
        options: The command's, and the `folder` to export to.
        began: Not used.
    """

    def __init__(self, options: Namespace, began: float) -> None:
        self.run = run = corpora.need_run(options)
        self.model, self.steps = weights(run, options)
        if not options.run:
            run.write_settings()
        self.folder = options.folder

    def export(self) -> dict[str, Any]:
        """Exports; returns seconds, megabytes and the version's folder."""
        from dtmt_tf.export import release
        from dtmt_tf.runs import endpoints

        run = self.run
        record, samples = run.record(), run.read("samples.json")
        start = time.perf_counter()
        version = release(
            endpoints(run, self.model),
            self.folder,
            record,
            {},
            description=run.task.description,
            checkpoints=self.steps,
            pairs=samples["pairs"],
        )
        seconds = time.perf_counter() - start
        size = sum(path.stat().st_size for path in version.rglob("*") if path.is_file())
        return {
            "parameters": self.model.count_params(),
            "export_seconds": seconds,
            "megabytes": size / 1e6,
            "export_peak_memory": peak_memory(),
            "version": version,
            "line": samples["pairs"][0][0],
        }


class Loading:
    """An exported model in a fresh process, from its start to its first answers.

    Args:
        options: `version`, its folder, and `line`, a sentence.
        began: When the process began.
    """

    def __init__(self, options: Namespace, began: float) -> None:
        from dtmt_tf.translator import Translator

        laps = Laps(began)
        laps.end("TensorFlow")
        translator = Translator.load(options.version)
        laps.end("load")
        for call in ("first translation", "second translation"):
            translator([options.line])
            laps.end(call)
        self.start = laps.seconds

    def details(self) -> dict[str, Any]:
        """Returns seconds from event to event, and peak memory."""
        return {"start": self.start, "peak_memory": peak_memory()}
