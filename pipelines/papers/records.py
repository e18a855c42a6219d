"""Results: one JSON file for each finished run, from which all tables are made."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtmt_tf.errors import DAMAGED, UserError
from dtmt_tf.evaluation import choose_tokenizer
from dtmt_tf.evaluation.sentences import Counts, count_ngrams, count_sentences
from dtmt_tf.experiment import SECTIONS, Experiment, resolve
from dtmt_tf.languages import has_blanks
from pipelines.papers import signals
from pipelines.papers.paper import Paper

if TYPE_CHECKING:
    from dtmt_tf.runs import Run

RECORDS = Path(__file__).resolve().parents[1] / "results"
BENCHMARK, PROBES = "benchmark-", "probing-"  # how the names begin of what is of no run
WEIGHTS = "weights_sha256"  # of scores
COUNTED = ("hypothesis_length", "reference_length", *(f"matches_{n}" for n in (1, 2, 3, 4)))

logger = logging.getLogger(__name__)

Record = dict[str, Any]
OLDEST = "dtmt"  # the paper of rows that were recorded when there was one


def settings(experiment: Experiment) -> dict[str, Any]:
    """Returns all settings but the seed, as `section.name: value`."""
    values = {
        f"{section}.{name}": value
        for section in SECTIONS
        for name, value in dataclasses.asdict(getattr(experiment, section)).items()
    }
    del values["training.seed"]
    return values


def settings_hash(experiment: Experiment) -> str:
    """Returns a hash of task, architecture and all settings but the seed.

    Settings at their defaults are left out, so that a later version with more settings still finds
    the results of this one.
    """
    defaults = {
        f"{section}.{item.name}": item.default
        for section in SECTIONS
        for item in dataclasses.fields(getattr(experiment, section))
    }
    chosen = {key: v for key, v in settings(experiment).items() if v != defaults[key]}
    named = [experiment.task, type(experiment.model).__name__, chosen]
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:8]


def sizes(experiment: Experiment) -> list[int]:
    """Returns the widths of a model; weights fit into one of other depths, not of other widths."""
    names = "embedding_dim", "units", "model_dim", "filter_dim"
    return [getattr(experiment.model, name, 0) for name in names]


def as_trained(run: Run) -> Experiment:
    """Returns a run's settings with the precision that trained it, whatever it is opened with."""
    training = run.experiment.training
    trained = (run.members or [run])[0].newest().settings["training"]
    precision = trained.get("precision", training.precision)
    return dataclasses.replace(
        run.experiment, training=dataclasses.replace(training, precision=precision)
    )


def make_record(run: Run, row: str = "", series: Mapping[str, Any] | None = None) -> Record:
    """Describes a finished run, scored anew.

    Args:
        run: The run. Updates, tokens and time of an ensemble are the sums over its members.
        row: Key of its row in a paper, if it is one.
        series: The settings it shares with the rows it is compared with; see reproduce.py.

    Raises:
        UserError: If the run is not finished, or has nothing to be scored on.
    """
    from dtmt_tf.data.batch import BatchPlan
    from dtmt_tf.models import MODELS

    scores, settled = _scored_anew(run), _settled(run)
    experiment, parts = run.experiment, run.scored_splits
    data, training = experiment.data, experiment.training
    trained = [member.newest() for member in run.members or [run]]
    pairs = run.training_set()
    slices = trained[0].settings["conditions"]["slices"]
    updates, words = sum(each.step for each in trained), sum(each.tokens for each in trained)
    seconds = sum(each.seconds for each in trained)
    plan = BatchPlan(data, pairs.lengths, slices, training.seed)
    experiment = as_trained(run)
    named = MODELS.get(experiment.model_name, experiment.model)
    task_settings = settings(resolve(run.task, experiment.model_name, named)[0])
    validations = trained[0].history if "validation" in scores and not run.members else []
    validations = [each for each in validations if "bleu" in each]
    left_out = {
        *("checkpoint_steps", "training", "parameters"),
        *("decoding", "evaluation", "translations_sha256"),
    }
    return {
        "name": run.folder.resolve().name,
        "task": experiment.task,
        "members": [member.folder.name for member in run.members],
        "direction": "-".join(filter(None, (data.source_language, data.target_language))),
        "model": experiment.model_name,
        "row": row,
        "series": dict(series or {}),
        "seed": training.seed,
        "settings_hash": settings_hash(experiment),
        "changed_settings": {
            key: value for key, value in settings(experiment).items() if value != task_settings[key]
        },
        "init_from": settled.get("init_from", {}).get("run", ""),
        "parameters": scores[parts[0]]["parameters"],
        "updates": updates,
        "batches_an_update": slices,
        "epochs": round(updates / plan.batches_per_epoch, 2),
        "target_words": words,
        "seconds_in_updates": round(seconds, 1),
        "target_words_per_second": round(words / seconds, 1),
        "machine": settled["machine"],
        "versions": settled["versions"],
        "beam_size": experiment.decoding.beam_size,
        "length_penalty": experiment.decoding.length_penalty,
        "lookahead": experiment.decoding.lookahead,
        "averaged_updates": scores[parts[0]]["checkpoint_steps"],
        "part": parts[0],
        "scores": {
            split: {name: value for name, value in values.items() if name not in left_out}
            for split, values in scores.items()
        },
        "curve": {each["step"]: round(each["bleu"], 2) for each in validations},
        "cross_entropy": {
            each["step"]: round(each["cross_entropy"], 4)
            for each in validations
            if "cross_entropy" in each
        },
        "signals": signals.read(run, [each["step"] for each in validations]),
        "sentences": _sentences(run, parts[0]),
    }


def _scored_anew(run: Run) -> dict[str, Any]:
    """Scores each split of a finished run; returns what `scores.json` then says of them."""
    from dtmt_tf.runs import evaluate

    if not run.scored_splits:
        raise UserError(f"{run.folder} has no test split. Name its files with data.test_source.")
    for member in run.members or [run]:
        member.check_finished()
    validation = ["validation"] * ("validation" in run.corpus.sizes)
    splits = dict.fromkeys([*validation, *run.scored_splits])
    for split in splits:
        evaluate(run, split)
    found = run.read("scores.json")
    return {split: found[split] for split in splits}


def _settled(run: Run) -> dict[str, Any]:
    """Returns what a run began with: its first member's, as an ensemble's names what scored it."""
    first = (run.members or [run])[0]
    settled = first.record()
    if "machine" not in settled:
        raise UserError(
            f"{first.work / 'experiment.json'} is of an earlier version and names no machine. The "
            "command that trained the run, given once more on that machine, notes it."
        )
    return settled


def copy_run(trained: Path, run: Run) -> None:
    """Gives a run the weights of a finished one, unless it has them; its settings are its own."""
    with run.claimed():
        if _weights(run.folder) != _weights(trained):
            partial = run.folder / ".train.partial"
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(trained / "train", partial, ignore=shutil.ignore_patterns("events.*"))
            shutil.rmtree(run.work, ignore_errors=True)  # that of an earlier training
            partial.rename(run.work)
        run.write_settings(trained=True)


def _weights(folder: Path) -> list[tuple[str, int, int]]:
    """Returns what a run's checkpoint files are: copies keep sizes and times."""
    files = sorted((folder / "train" / "checkpoints").rglob("*"))
    facts = [(path, path.stat()) for path in files if path.is_file()]
    return [(str(path.relative_to(folder)), at.st_size, at.st_mtime_ns) for path, at in facts]


def _sentences(run: Run, part: str) -> dict[str, str]:
    """Returns the length of each source of a split, and BLEU's counts for each translation.

    Lengths are of words, or characters where a language has no blanks.
    """
    from dtmt_tf.runs import translations_of

    sources, references = run.corpus.lines(part)
    translations = translations_of(run, part)
    evaluation = run.experiment.evaluation
    tokenize = choose_tokenizer(evaluation.tokenize, run.experiment.data.target_language)
    counts = count_sentences(
        translations, references, tokenize=tokenize, lowercase=evaluation.lowercase
    )
    language = run.experiment.data.source_language
    words = [source.split() if has_blanks(language) else source for source in sources]
    columns = {"source_words": list(map(len, words))}
    columns |= {name: counts[:, k].tolist() for k, name in enumerate(COUNTED)}
    return {name: " ".join(map(str, values)) for name, values in columns.items()}


def corpus(record: Record) -> tuple[str, str]:
    """Returns the lengths of the scored sentences, which tell one test set from another."""
    sentences = record["sentences"]
    return sentences["source_words"], sentences["reference_length"]


def check_same(path: Path, known: Record, run: Run) -> None:
    """Lets a result be replaced by one of the same training alone.

    Raises:
        UserError: If the run has another seed, other settings or other members.
    """
    present = {
        "seed": run.experiment.training.seed,
        "settings_hash": settings_hash(as_trained(run)),
        "members": [member.folder.name for member in run.members],
    }
    if known and present != {name: known[name] for name in present}:
        raise UserError(
            f"{path} is the record of a run with another seed, or other settings, and of the same "
            "name. Train with --name, or remove the record."
        )


def is_of(record: Record, paper: Paper) -> bool:
    """Whether a result belongs to one of a paper's rows."""
    name = record["series"].get("paper", OLDEST)
    return name == paper.name and record["row"] in paper.rows


def trained_from(record: Record) -> tuple[int, str]:
    """Returns a row's seed, and a hash of the weights that it began with if it is noted.

    The weights of a row that others begin with may be trained again, elsewhere or with another
    precision; what began with them is compared with what began with the same.
    """
    return record["seed"], record.get("begins_with", "")


def began_with_others(record: Record) -> bool:
    """Whether a training began with the weights of another run."""
    return bool(record.get("init_from") or record.get("series", {}).get("begin_with"))


def scores_of(folder: Path) -> dict[str, Any]:
    """Returns a run's scores by split.

    Raises:
        UserError: If they are damaged.
    """
    path = folder / "train" / "scores.json"
    try:
        return {**json.loads(path.read_text("utf-8"))}
    except DAMAGED as error:
        raise UserError(
            f"{path} is damaged ({error}). Remove it, and score the run anew: python "
            f"pipelines/evaluate.py {folder} --split test"
        ) from error


def weights_hash(folder: Path) -> str:
    """Returns a short hash of the weights that a finished run was scored with.

    Raises:
        UserError: If its scores are damaged, or it was scored by a version that did not note them.
    """
    for found in scores_of(folder).values():
        if WEIGHTS in found:
            return str(found[WEIGHTS])[:8]
    raise UserError(
        f"{folder} was scored by an older version, which did not note the weights. Score it anew: "
        f"python pipelines/evaluate.py {folder} --split test"
    )


def by_row(group: Sequence[Record]) -> dict[str, list[Record]]:
    """Returns the results of a series by row.

    Raises:
        UserError: If two are of the same row and seed, or were scored on different sentences or
            contrasts.
    """
    rows: dict[str, list[Record]] = {}
    for record in group:
        if corpus(record) != corpus(group[0]):
            raise UserError(
                f"{group[0]['name']} and {record['name']} were scored on different sentences. "
                "Remove the records of the older corpus."
            )
        rows.setdefault(record["row"], []).append(record)
    shown = [record for record in group if "contrast" in record]
    for record in shown:
        if record.get("contrast_sets") != shown[0].get("contrast_sets"):
            raise UserError(
                f"{record['name']} has other sets of contrasts than {shown[0]['name']}. Run the "
                "rows again with --contrast and the same sets."
            )
    for row, runs in rows.items():
        if len({trained_from(run) for run in runs}) < len(runs):
            names = ", ".join(run["name"] for run in runs)
            raise UserError(f"{row} has two records of one seed: {names}. Remove an old one.")
    return rows


def series_title(record: Record) -> str:
    """Returns the settings that the rows of a series share, as the head of a table."""
    series = record["series"]
    shared = f"; {' '.join(series['set'])}" if series["set"] else ""
    budget = f"preset {series['preset']}, {series['max_steps']:,} updates"
    if (batches := record["batches_an_update"]) > 1:
        budget += f" of {batches} batches"
    budget += f", {series['max_steps'] * record['epochs'] / record['updates']:.1f} epochs"
    if recipe := series.get("recipe"):
        budget += f", recipe `{recipe}`"
    if begun := series.get("begin_with"):
        budget += f", on top of a trained `{begun}`"
    return f"{budget}{shared} (settings {series['hash']})"


def counts_of(record: Record) -> Counts:
    """Returns BLEU's counts for each sentence of the compared split, `[N, 10]`."""
    import numpy as np

    columns = [record["sentences"][name].split() for name in COUNTED]
    return count_ngrams(np.array(columns, np.int64).T)


def read_record(path: Path) -> Record:
    """Reads a result.

    Raises:
        UserError: If it is damaged.
    """
    try:
        record: Record = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}). Remove it and run its row again.") from error
    return record


def read_records(folder: Path) -> list[Record]:
    """Reads the results of all runs in a folder, by name.

    Raises:
        UserError: If one is damaged, or of something else.
    """
    found = {
        path: read_record(path)
        for path in sorted(folder.glob("*.json"))
        if not path.name.startswith((BENCHMARK, PROBES))
    }
    for path, record in found.items():
        if "settings_hash" not in record:
            raise UserError(f"{path} is no record of a run. Move it elsewhere.")
    return list(found.values())


def read_speeds(folder: Path) -> list[Record]:
    """Reads all results of benchmark.py in a folder, by name."""
    return [read_record(path) for path in sorted(folder.glob(f"{BENCHMARK}*.json"))]
