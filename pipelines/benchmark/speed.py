"""The tables of SPEED.md, made from the results of benchmark.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]
Configuration = dict[str, Any]
CONDITIONS = ("windows", "commit")


def section(found: Sequence[Record]) -> str:
    """Returns all tables that the records fill; nothing of those that are empty."""
    of = {
        action: [record for record in found if record["benchmark"] == action]
        for action in ("train", "decode", "input", "export", "growth")
    }
    parts = [
        _part("Training", _training(of["train"])),
        _part("Where the time of an update goes, in per cent", _parts(of["train"])),
        *(_part(*_growth(record)) for record in of["growth"]),
        _part("Translating", _decoding(of["decode"])),
        _part("One configuration against another, windows in turn", _comparisons(found)),
        _part("The input pipeline alone", _input(of["input"])),
        _part("Export", _export(of["export"])),
        "\n".join(sorted({f"- {_machine(record)}" for record in found})),
    ]
    return "\n\n".join(part for part in parts if part)


def _training(found: Sequence[Record]) -> str:
    head = ("configuration", "parameters", "target tok/s: median", "best", "MFLOP a target token",
            "GFLOP/s", "square product's", "of it", "of its own shape's", "peak memory, GiB",
            "first update after, s", "traced again", *CONDITIONS)  # fmt: skip
    lines = []
    for record, one in _configurations(found):
        square, *_ = (rate["median"] for rate in record["products"].values())
        own = record["products"].get(one["own_shape"])
        lines.append((
            _named(record, one), f"{one['parameters']:,}", f"{one['rate']['median']:,.0f}",
            f"{one['rate']['best']:,.0f}", f"{one['megaflop_per_target_word']:.1f}",
            f"{one['gflops']:.1f}", f"{square:.0f}", f"{one['gflops'] / square:.0%}",
            f"{one['gflops'] / own['median']:.0%}" if own else "",
            f"{one['peak_memory']:.2f}", f"{sum(one['start'].values()):.1f}",
            one["traces"]["later"], *_conditions(record),
        ))  # fmt: skip
    return markdown(head, lines)


def _parts(found: Sequence[Record]) -> str:
    lines: list[Sequence[Any]] = []
    head: tuple[str, ...] = ()
    for record, one in _configurations(found):
        if not one["parts"]:
            continue
        head = ("configuration", *one["parts"], *CONDITIONS)
        total = sum(one["parts"].values())
        shares = (f"{100 * s / total:.1f}" for s in one["parts"].values())
        lines.append((_named(record, one), *shares, *_conditions(record)))
    return markdown(head, lines)


def _growth(record: Record) -> tuple[str, str]:
    table = record["table"]
    title = (f"Milliseconds of an update of {record['name']}, {table['sentences']} sentences, by "
             "transition depth and length of both sides; in brackets, per cent above the fit that "
             f"is linear in each, at most {table['largest_excess']:.1%}; {record['windows']} "
             f"windows, commit {record.get('commit', '')}")  # fmt: skip
    lines = [
        (depth, *(f"{1000 * s:,.0f} ({100 * (s / f - 1):+.0f})" for s, f in zip(*row, strict=True)))
        for depth, *row in zip(table["depths"], table["seconds"], table["fit"], strict=True)
    ]
    return title, markdown(("depth", *table["lengths"]), lines)


def _decoding(found: Sequence[Record]) -> str:
    head = ("configuration", "BLEU: validation", "test", "sentences/s: median", "best",
            "sub-words/s", "one by one, ms: p50", "p95", "first translation after, s",
            "peak memory, GiB", "traced again", *CONDITIONS)  # fmt: skip
    lines = []
    for record, one in _configurations(found):
        memory = one["peak_memory_by_lines"].items()
        scored = one.get("bleu", {})
        parts = "validation", next((part for part in scored if part != "validation"), "")
        bleu = [f"{scored[part]:.2f}" if part in scored else "" for part in parts]
        lines.append((
            _named(record, one), *bleu, f"{one['rate']['median']:,.1f}",
            f"{one['rate']['best']:,.1f}",
            f"{one['rate']['median'] * one['subwords_per_sentence']:,.0f}",
            *(f"{1000 * seconds:.0f}" for seconds in one["latency"].values()),
            f"{sum(one['start'].values()):.1f}",
            ", ".join(f"{gib:.2f} ({int(lines):,} lines)" for lines, gib in memory),
            "" if "SavedModel" in one["name"] else one["traces"]["later"], *_conditions(record),
        ))  # fmt: skip
    return markdown(head, lines)


def _comparisons(found: Sequence[Record]) -> str:
    head = ("what", "this", "against", "rate of this to that: median", "least", "greatest",
            *CONDITIONS)  # fmt: skip
    lines = []
    for record in found:
        if ratio := record.get("ratio"):
            that, this = record["configurations"]
            values = (f"{ratio[name]:.3f}" for name in ("median", "worst", "best"))
            names = (_named(record, one) for one in (this, that))
            lines.append((record["benchmark"], *names, *values, *_conditions(record)))
    return markdown(head, lines)


def _input(found: Sequence[Record]) -> str:
    head = ("configuration", "pairs", "target tok/s: median", "best", "cut into sub-words in, s",
            "peak memory, GiB", *CONDITIONS)  # fmt: skip
    lines = [
        (_named(record, one), f"{one['pairs']:,}", f"{one['rate']['median']:,.0f}",
         f"{one['rate']['best']:,.0f}", f"{one['seconds_to_cut_into_subwords']:.1f}",
         f"{one['peak_memory']:.2f}", *_conditions(record))
        for record, one in _configurations(found)
    ]  # fmt: skip
    return markdown(head, lines)


def _export(found: Sequence[Record]) -> str:
    starts = ("TensorFlow", "load", "first translation", "second translation")
    head = ("configuration", "parameters", "export, s", "MB", "start of process and TensorFlow, s",
            "load, s", "first call, s", "second, s", "peak memory when loaded, GiB",
            *CONDITIONS)  # fmt: skip
    lines = [
        (_named(record, one), f"{one['parameters']:,}", f"{one['export_seconds']:.1f}",
         f"{one['megabytes']:.1f}", *(f"{one['start'][name]:.2f}" for name in starts),
         f"{one['peak_memory']:.2f}", *_conditions(record))
        for record, one in _configurations(found)
    ]  # fmt: skip
    return markdown(head, lines)


def _named(record: Record, one: Configuration) -> str:
    """Returns a configuration's name: of a setting that stands twice, the last one holds.

    It is marked if tf.data tuned itself while it was measured.
    """
    last = {piece.partition("=")[0]: piece for piece in one["name"].split(", ")}
    return ", ".join(last.values()) + " †" * record.get("autotuned", False)


def _conditions(record: Record) -> tuple[str, str]:
    return record["windows"], record.get("commit", "")


def _machine(record: Record) -> str:
    machine = record["machine"]
    gpus = f", {machine['gpus']} GPUs" if machine["gpus"] else ""
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    return f"{machine['processor']}, {machine['threads']} threads{gpus}; {versions}"


def _configurations(found: Iterable[Record]) -> list[tuple[Record, Configuration]]:
    return [(record, one) for record in found for one in record["configurations"]]


def _part(title: str, table: str) -> str:
    return f"{title}.\n\n{table}" if table else ""


def markdown(head: Sequence[Any], lines: Sequence[Sequence[Any]]) -> str:
    """Returns a table, or nothing if it has no line."""
    if not lines:
        return ""
    rows = [head, ["---"] * len(head), *lines]
    cells = ([str(cell).replace("|", r"\|") for cell in row] for row in rows)
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)
