"""Writes tables and pictures of the documents from results, and makes results of runs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from dtmt_tf import startup
from dtmt_tf.commands import common, options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.errors import UserError
from dtmt_tf.files import write_atomically, write_json
from pipelines.benchmark import speed
from pipelines.papers import (
    PAPERS,
    figures,
    pictures,
    probes,
    records,
    recurrence,
    tables,
    transitions,
)
from pipelines.papers.paper import Paper
from pipelines.papers.records import Record

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "RESULTS.md"


def command() -> int:
    """Rewrites tables and pictures; before, with `add` or `attention`, reads runs."""
    args = _parser().parse_args()
    if args.action and not args.runs:
        raise UserError("Name the folder of a run, such as saved_models/multi30k_ende/dtmt_tied.")
    if args.action == "attention" and len(args.runs) > 1:
        raise UserError(f"attention takes one run. Leave out {args.runs[1]}.")
    if args.text and args.action != "attention":
        raise UserError("--text goes with attention.")
    if args.action == "attention" and args.report.resolve() != REPORT:
        raise UserError("attention draws README's picture. Leave out --report.")
    _check_places(args.report, args.records)
    if args.action != "add" and not args.records.is_dir():
        raise UserError(f"There is no folder {args.records} with results.")
    if args.action:
        startup.start_tensorflow()
    if args.action == "add":
        for folder in args.runs:
            _add(args, folder)
    if args.action == "attention":
        pictures.attend(args.runs[0], args.text or pictures.TEXT)
    rewrite(args.report, args.records)
    print(f"Tables: {args.report}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "python pipelines/documents.py",
        "Rewrite the generated parts of RESULTS.md, README.md, EXPERIMENTS.md, SPEED.md and the "
        f"pages of papers ({', '.join(paper.page for paper in PAPERS.values())}), and the "
        "pictures, from the results of finished runs. With add, first make a result of each run "
        "named: settings, seed, scores, size, speed. With attention, first take the attention map "
        "of README.md from an exported run.",
        "python pipelines/documents.py",
        "python pipelines/documents.py add saved_models/multi30k_ende/dtmt_tied",
        "python pipelines/documents.py attention saved_models/cldr_ende/demo",
    )
    parser.add_argument("action", nargs="?", choices=["add", "attention"], help="what to do before")
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="folders of trained runs")
    parser.add_argument("--text", help=f"what attention translates (default: {pictures.TEXT})")
    folders = parser.add_argument_group("where")
    options.add_folders(folders)
    add_files(folders)
    parser.intermixed = True
    return parser


def _add(args: argparse.Namespace, folder: Path) -> None:
    from dtmt_tf.runs import Run

    run = Run.open(folder, *common.places(args))
    path = args.records / f"{run.experiment.task}-{folder.resolve().name}.json"
    known = records.read_record(path) if path.exists() else {}
    records.check_same(path, known, run)
    record = records.make_record(run, known.get("row", ""), known.get("series"))
    # what the run's files do not tell: the weights that a row began with, and, of the same
    # weights, other sets
    same = _bleu(known) == _bleu(record)
    kept = [n for n in known if n.startswith("begins_with") or (same and n.startswith("contrast"))]
    record |= {name: known[name] for name in kept}
    write_json(path, record)
    print(f"Record: {path}")


def _bleu(record: records.Record) -> dict[str, float]:
    return {split: of["bleu"] for split, of in record.get("scores", {}).items()}


def add_files(group: argparse._ActionsContainer) -> None:
    """Adds the places of results and report to a parser."""
    group.add_argument("--records", type=Path, default=records.RECORDS, metavar="DIR",
                       help="one file a run (default: pipelines/results)")  # fmt: skip
    group.add_argument("--report", type=Path, default=REPORT, metavar="FILE",
                       help="where tables are rewritten (default: RESULTS.md, and with it "
                       "the other pages and the pictures)")  # fmt: skip


def rewrite(path: Path, folder: Path) -> None:
    """Rewrites what stands between the markers of a file, from the results in a folder.

    With RESULTS.md the other pages are rewritten and the pictures drawn, too.

    Raises:
        UserError: If a file is not there or lacks a marker, or the repository's own would lose its
            results for those of another folder.
    """
    _check_places(path, folder)
    found = records.read_records(folder)
    if path.resolve() == REPORT:
        speeds, probed = records.read_speeds(folder), probes.read(folder)
        documents = {path: summary(found)} | others(found, speeds, probed)
        pictures.draw(found, speeds, pictures.PICTURES)
        for name, systems in probed.items():
            pictures.draw_probed(pictures.PICTURES / name, systems)
    else:
        paper = _paper_of(path)
        probed = probes.read(folder, probes.SHOWN) if paper is recurrence.PAPER else {}
        documents = {path: sections(found, paper, probed) if paper else summary(found)}
    for document, text in [(path, _replaced(path, parts)) for path, parts in documents.items()]:
        write_atomically(document, text.encode())


def _check_places(path: Path, folder: Path, page: str = "") -> None:
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--records should name a folder. Received: {folder}.")
    if not path.exists():
        raise UserError(
            f"{path} was not found. Its tables stand between <!-- dtmt table 3 --> and "
            "<!-- end -->; DTMT.md is an example."
        )
    own = (REPORT, *(ROOT / paper.page for paper in PAPERS.values()))
    if path.resolve() in own and folder.resolve() != records.RECORDS:
        raise UserError(
            f"{page or path.name} shows the results of {records.RECORDS}, not of {folder}. "
            "Copy the page, such as to mine.md, and add --report mine.md."
        )


def _replaced(document: Path, parts: Mapping[str, str]) -> str:
    try:
        return replace(document.read_text("utf-8"), parts)
    except UserError as error:
        raise UserError(f"{document}: {error}") from error


def replace(text: str, parts: Mapping[str, str]) -> str:
    """Returns a text with other parts between its markers.

    Raises:
        UserError: If the text has no place for a part, or two.
    """
    for name, section in parts.items():
        marker = f"<!-- {name} -->"
        pattern = re.compile(re.escape(marker) + r"\n.*?<!-- end -->", re.DOTALL)
        content = f"{marker}\n\n{section}\n\n<!-- end -->"
        text, count = pattern.subn(lambda _, content=content: content, text)  # type: ignore[misc]
        if count != 1:
            raise UserError(
                f"There should be one part from {marker} to <!-- end -->. Found: {count}."
            )
    return text


def summary(found: Sequence[Record]) -> dict[str, str]:
    """Returns the generated parts of RESULTS.md by the name in their markers."""
    return {
        "headline": tables.headline_table(found),
        "verdicts": tables.verdicts_table(found, PAPERS.values()),
        "runs": tables.runs_table(found),
        "conditions": tables.conditions(found),
    }


def sections(
    found: Sequence[Record], paper: Paper, probed: Mapping[str, probes.Systems] | None = None
) -> dict[str, str]:
    """Returns the generated parts of a paper's page by the name in their markers."""
    of = [record for record in found if records.is_of(record, paper)]
    parts = {
        f"{paper.name} {kind} {name}": tables.each_budget(of, table, write)
        for kind, written, write in (
            ("table", paper.tables, tables.rows_table),
            ("figure", paper.figures, figures.figure_table),
        )
        for name, table in written.items()
    }
    if paper is recurrence.PAPER:
        parts[probes.SHOWN] = tables.NOTHING
        parts |= {name: probes.table(systems) for name, systems in (probed or {}).items()}
    return parts


def _paper_of(path: Path) -> Paper | None:
    """Returns the paper whose page a report is a copy of, None if it is one of RESULTS.md."""
    text = path.read_text("utf-8") if path.exists() else ""
    return next((paper for paper in PAPERS.values() if f"<!-- {paper.name} " in text), None)


def page_of(path: Path, folder: Path, paper: Paper) -> Path:
    """Returns the page that a paper's tables come to be in, where a report is asked for.

    Raises:
        UserError: If it is a copy of another page, or the repository's own for the results of
            another folder.
    """
    _check_places(path, folder, paper.page)
    if path.resolve() == REPORT:
        return ROOT / paper.page
    if path.exists() and f"<!-- {paper.name} " not in path.read_text("utf-8"):
        raise UserError(
            f"{path} has no place for tables of {paper.name}. Make it a copy of {paper.page}."
        )
    return path


def others(
    found: Sequence[Record], speeds: Sequence[Record], probed: Mapping[str, probes.Systems]
) -> dict[Path, dict[str, str]]:
    """Returns the generated parts of the documents beside RESULTS.md."""
    pages = {ROOT / paper.page: sections(found, paper, probed) for paper in PAPERS.values()}
    return {
        **pages,
        ROOT / "README.md": {"headline": tables.headline_table(found)},
        ROOT / "EXPERIMENTS.md": transitions.tables_of(found),
        ROOT / "SPEED.md": {"speed": speed.section(speeds) or tables.NOTHING},
    }
