"""Writes what became of a run: a page, its learning curve and its validations as a table."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtmt_tf import startup
from dtmt_tf.commands import common, lines, options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.errors import UserError
from dtmt_tf.files import size_and_hash, write_atomically
from dtmt_tf.settings import as_override, is_built_in

if TYPE_CHECKING:
    from dtmt_tf.data.corpus import Corpus
    from dtmt_tf.evaluation.run_report import RunFacts, SplitFacts
    from dtmt_tf.runs import Run

PAGE, CURVE, METRICS = "report.html", "curve.png", "metrics.csv"
ATTENTION_SAMPLES = 3  # translations whose attention is drawn

AT_HAND = "Sizes and sentences are left out, as the text is not at hand: %s"

logger = logging.getLogger(__name__)


def command(arguments: Sequence[str] | None = None) -> int:
    """Opens the run, writes."""
    args = _parser().parse_args(arguments)
    lines.check_page(args.output)
    lines.check_outputs((), {"--output": args.output})
    startup.start_tensorflow()
    run = common.open_run(args)
    with contextlib.nullcontext() if args.output else run.claimed():
        print(write_report(run, args.output, attention(run)))
    return 0


def _parser() -> Parser:
    parser = options.run_parser(
        "dtmt report",
        f"Write what became of a run beside its scores: {PAGE} (curves, scores with intervals, "
        "BLEU by length, best and worst sentences, attention, data findings, settings, cost), "
        f"{CURVE} and {METRICS}. A training writes the same at its end, but for the attention.",
        "dtmt report saved_models/multi30k_ende/dtmt_tied",
        "dtmt report --task multi30k_ende --name mine -o mine.html",
        model=options.OF_PRESET,
    )
    options.add_run(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help=f"where the page goes (default: {PAGE} in the run's train/)",
    )
    return parser


def write_report(run: Run, output: Path | None = None, drawn: Sequence[Any] = ()) -> Path:
    """Writes page, curve and table of a run that has made an update.

    Args:
        run: The run.
        output: Where the page goes, if not beside the scores.
        drawn: What `attention` returns.

    Returns:
        The page.

    Raises:
        UserError: If the run has made no update, or another process has it.
    """
    from dtmt_tf.evaluation import run_report

    facts = run_facts(run, drawn)
    page = run_report.page(facts).encode()
    if output:
        write_atomically(output, page)
        return output
    with run.claimed():
        write_atomically(run.work / PAGE, page)
        if facts.history:
            picture = io.BytesIO()
            figure = run_report.curve(facts.history)
            figure.savefig(picture, format="png", dpi=150, facecolor="white")
            write_atomically(run.work / CURVE, picture.getvalue())
            write_atomically(run.work / METRICS, run_report.metrics(facts.history).encode())
    return run.work / PAGE


def run_facts(run: Run, drawn: Sequence[Any] = ()) -> RunFacts:
    """Returns what the page tells of a run."""
    from dtmt_tf.data.check import format_findings
    from dtmt_tf.data.filtered import format_dropped
    from dtmt_tf.evaluation.run_report import RunFacts

    experiment, record, corpus = run.experiment, run.record(), _corpus(run)
    trained = [member.newest() for member in run.members or [run]]
    scores = run.read("scores.json")
    older = _older(scores, dataclasses.asdict(experiment.decoding))
    seconds, tokens = (
        sum(getattr(each, name) for each in trained) for name in ("seconds", "tokens")
    )
    facts = {
        "task": f"{experiment.task}: {run.description}",
        "languages": f"{experiment.data.source_language} to {experiment.data.target_language}",
        "model": experiment.model_name,
        "updates": f"{sum(each.step for each in trained):,}",
        "target tokens read": f"{tokens:,}",
        "time in updates": f"{seconds / 60:.1f} minutes, {tokens / max(seconds, 1e-9):,.0f} target "
        "tokens a second",
        "seed": str(experiment.training.seed),
        **{name: f"{size:,} pairs" for name, size in (corpus.sizes if corpus else {}).items()},
        **{f"{name} version": text for name, text in record.get("versions", {}).items()},
        **{name: str(value) for name, value in record.get("machine", {}).items()},
    }
    if corpus and corpus.dropped:
        facts["filters"] = format_dropped(corpus.dropped, corpus.sizes["train"])
    if parameters := {found["parameters"] for found in scores.values() if "parameters" in found}:
        facts["parameters"] = f"{max(parameters):,}"
    values = record["settings"]
    settings = [
        (key, as_override(values[section][name]), origin)
        for key, origin in run.origins.items()
        for section, _, name in [key.partition(".")]
        if name and not is_built_in(origin) and name in values.get(section, {})
    ]
    return RunFacts(
        f"{experiment.task} / {run.folder.resolve().name}",
        facts,
        [] if run.members else trained[0].history,
        [
            dataclasses.replace(_split(run, corpus, name, found), is_older=name in older)
            for name, found in scores.items()
        ],
        format_findings(corpus.findings).splitlines() if corpus else [],
        settings,
        drawn,
    )


def _older(scores: Mapping[str, Mapping[str, Any]], decoding: Mapping[str, Any]) -> set[str]:
    """Returns the splits that other weights than the newest translated, or another search.

    The newest are those after most updates; of equally many, those that were written last.

    Args:
        scores: By split.
        decoding: The run's own settings of the search.
    """
    from dtmt_tf.export.model_card import is_of

    last = max([*scores.values()][::-1], key=_updates, default={})
    known = [name for name in ("weights_sha256", "checkpoint_steps") if name in last]
    return {
        split
        for split, found in scores.items()
        if not is_of(found, decoding, {name: last[name] for name in known})
    }


def _updates(scores: Mapping[str, Any]) -> int:
    return int(scores.get("training", {}).get("updates", 0))


def _corpus(run: Run) -> Corpus | None:
    """Returns a run's corpus; none, which is told, if its text is not at hand."""
    try:
        return run.corpus
    except UserError as error:
        logger.warning(AT_HAND, error)
        return None


def _split(run: Run, corpus: Corpus | None, name: str, scores: Any) -> SplitFacts:
    """What was translated of a split; without the lines if they are no longer there."""
    from dtmt_tf.evaluation import choose_tokenizer
    from dtmt_tf.evaluation.run_report import SplitFacts
    from dtmt_tf.runs import translations_file, translations_of
    from dtmt_tf.runs.noted_texts import warn_of_others

    settings = run.experiment.evaluation
    if "evaluation" in scores:  # as it was scored
        settings = dataclasses.replace(settings, **scores["evaluation"])
    if not corpus or name not in corpus.sizes or not translations_file(run, name).exists():
        return SplitFacts(name, scores)
    noted = scores.get("translations_sha256")
    if noted and noted != size_and_hash(translations_file(run, name))["sha256"]:
        return SplitFacts(name, scores)  # a newer translation whose scores are not there yet
    warn_of_others(run, name)
    translations = translations_of(run, name)
    try:
        sources, references = corpus.lines(name)
    except UserError as error:
        logger.warning(AT_HAND, error)
        return SplitFacts(name, scores)
    if len(translations) != len(sources):
        return SplitFacts(name, scores)
    data = run.experiment.data
    tokenize = choose_tokenizer(settings.tokenize, data.target_language)
    how = tokenize, settings.lowercase, data.source_language
    return SplitFacts(name, scores, sources, references, translations, *how)


def attention(run: Run) -> list[tuple[Sequence[str], Sequence[str], Any]]:
    """Returns source words, words of the translation and weights of some of the run's samples.

    Nothing if no version is exported, or the newest does not tell.
    """
    from dtmt_tf.translator import Translator, live_versions

    if not live_versions(run.folder):
        return []
    texts = [source for source, _ in run.read("samples.json").get("pairs", [])][:ATTENTION_SAMPLES]
    try:
        found = Translator.load(run.folder)(texts, align=True)
    except UserError as error:  # such as a sample above the limits of the export
        logger.warning("Attention is left out: %s", error)
        return []
    return [
        (each.alignment.source, each.alignment.target, each.alignment.attention)
        for each in found
        if each.alignment and each.alignment.target and each.alignment.source
    ]
