"""What probes found of encoders: RECURRENCE.md's table, from files that `dtmt probe` wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from dtmt_tf.errors import UserError
from dtmt_tf.evaluation.probing import Probed, from_plain
from pipelines.benchmark.speed import markdown
from pipelines.papers import deep_architectures, recurrence
from pipelines.papers.figures import accuracy_cell
from pipelines.papers.records import PROBES, read_record

LABELS = {  # of systems, by how the names of their runs begin, and row
    deep_architectures.PAPER.prefix: deep_architectures.FIGURES["5"].rows,
    recurrence.PAPER.prefix: recurrence.TABLES["1"].rows,
}
SHOWN = "probing-general_ende"  # the table of RECURRENCE.md
RUN = re.compile(r"([a-z]+-)(\w+)-[0-9a-f]{8}-seed\d+")

Systems = Mapping[str, Mapping[str, Probed]]  # by label and task


def read(folder: Path, name: str = f"{PROBES}*") -> dict[str, Systems]:
    """Returns what was found, by the name of the file in a folder of results; of all, or one.

    Raises:
        UserError: If a system lacks a task that the first has: `dtmt probe` was stopped.
    """
    found: dict[str, Systems] = {}
    for path in sorted(folder.glob(f"{name}.json")):
        record = read_record(path)
        tasks = set(next(iter(record.values())))
        for run, of in record.items():
            if lacking := sorted(tasks - set(of)):
                raise UserError(
                    f"{path}: {run} was not probed for {', '.join(lacking)}. Run the dtmt probe "
                    "that writes this file again."
                )
        systems = map(from_plain, record.values())
        found[path.stem] = dict(zip(_labels(record), systems, strict=True))
    return found


def _labels(runs: Iterable[str]) -> list[str]:
    """Returns what tables call each run: its name, too, where two are of one row."""
    names = [Path(run).name for run in runs]
    labels = [label_of(name) for name in names]
    return [
        label if labels.count(label) == 1 else f"{label}, `{name}`"
        for label, name in zip(labels, names, strict=True)
    ]


def label_of(run: str) -> str:
    """Returns what the tables of its paper call a run, or its name."""
    found = RUN.fullmatch(run)
    rows = LABELS.get(found[1], {}) if found else {}
    return rows[found[2]][0] if found and found[2] in rows else run


def table(systems: Systems) -> str:
    """Returns a table of accuracies and what the control remembers, a line for each system."""
    tasks = next(iter(systems.values()))
    most = [cell for task in tasks.values() for cell in (f"{task.majority:.1f}", "")]
    rows = [["most frequent label", *most]]
    for label, found in systems.items():
        rows.append([label])
        for each in found.values():
            control = f"{each.control.percent:.1f}" if each.control else ""
            rows[-1] += accuracy_cell(each.accuracy), control
    return markdown(["encoder", *(head for name in tasks for head in (name, "control"))], rows)
