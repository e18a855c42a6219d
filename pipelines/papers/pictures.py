"""Draws the pictures of the documents from results, each for light and for dark pages."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtmt_tf.evaluation import probing, probing_plot
from dtmt_tf.files import write_atomically
from pipelines.papers import records, tables
from pipelines.papers.panels import Panel, all_panels, figure_panel
from pipelines.papers.paper import Paper
from pipelines.papers.probes import Systems
from pipelines.papers.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES = Path(__file__).resolve().parent / "pictures"
ATTENTION = PICTURES / "attention.json"  # what a trained model attended to, see `attend`
TEXT = "Tuesday, March 5, 2024"
DIGEST = "data sha256:"
MARKED = 10  # points of a line that are marked at most; more make it a chain
THEMES: dict[str, dict[str, Any]] = {
    "light": {
        "ink": "#1f2328",
        "grid": "#d1d9e0",
        "map": ("#ffffff", "#0969da"),
        "lines": ("#0969da", "#cf222e", "#1a7f37", "#8250df", "#bc4c00", "#57606a"),
    },
    "dark": {
        "ink": "#e6edf3",
        "grid": "#3d444d",
        "map": ("#0d1117", "#79c0ff"),
        "lines": ("#58a6ff", "#ff7b72", "#3fb950", "#bc8cff", "#f0883e", "#9198a1"),
    },
}


def draw(found: Sequence[Record], speeds: Sequence[Record], folder: Path) -> list[Path]:
    """Draws the pictures of the documents that the results fill; returns the files."""
    paths = []
    for name, panels in all_panels(found, speeds).items():
        paths += draw_panels(folder / name, panels)
    if ATTENTION.exists():
        paths += draw_attention(folder / "attention", json.loads(ATTENTION.read_text("utf-8")))
    return paths


def draw_figures(paper: Paper, found: Sequence[Record], folder: Path) -> list[Path]:
    """Draws a paper's figures for each budget, such as `<folder>/<task>/dtmt-figure3-dark.svg`."""
    paths = []
    of = [record for record in found if records.is_of(record, paper)]
    for name, table in paper.figures.items():
        drawn: dict[str, int] = {}
        for (task, budget), group in tables.budgets(of, table).items():
            drawn[task] = drawn.get(task, 0) + 1
            number = f"-{drawn[task]}" if drawn[task] > 1 else ""
            panel = figure_panel(f"{task}, {budget}", table, group)
            if panel.lines:
                paths += draw_panels(folder / task / f"{paper.name}-figure{name}{number}", [panel])
    return paths


def draw_panels(path: Path, panels: Sequence[Panel]) -> list[Path]:
    """Draws panels in a row for each name of y, with one scale a row; returns both files.

    Where no two have the name of y in common, all stand in one row, each with its scale.
    """
    by_name: dict[str, list[Panel]] = {}
    for panel in panels:
        by_name.setdefault(panel.y, []).append(panel)
    alone = len(by_name) == len(panels)
    rows = [list(panels)] if alone else list(by_name.values())
    columns = max(map(len, rows))

    def draw(figure: Figure, theme: Mapping[str, Any]) -> None:
        sharey: Any = not alone and "row"
        grid = figure.subplots(len(rows), columns, sharey=sharey, squeeze=False)
        for row, all_axes in zip(rows, grid, strict=True):
            for k, (panel, axes) in enumerate(zip(row, all_axes, strict=False)):
                _panel(axes, panel, theme)
                axes.set_ylabel(panel.y if alone or k == 0 else "")
            for axes in all_axes[len(row) :]:
                axes.set_axis_off()

    return _save(path, content_of(panels), draw, 1.8 + 2.6 * columns, 0.2 + 3.3 * len(rows))


def draw_attention(path: Path, found: Mapping[str, Any]) -> list[Path]:
    """Draws an attention map that `attend` has made; returns the files, light and dark."""
    source, target, weights = content = attention_content(found)

    def draw(figure: Figure, theme: Mapping[str, Any]) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        axes = figure.add_subplot()
        colours = LinearSegmentedColormap.from_list("", theme["map"])
        axes.pcolormesh(weights, cmap=colours, vmin=0, vmax=1, edgecolors=theme["grid"], lw=0.4)
        axes.set_xticks([k + 0.5 for k in range(len(source))], source, rotation=45, ha="left")
        axes.set_yticks([k + 0.5 for k in range(len(target))], target)
        axes.tick_params(length=0, labelsize=10.5)
        axes.xaxis.tick_top()
        axes.invert_yaxis()
        axes.spines[:].set_visible(False)

    size = 1.3 + 0.36 * len(source), 1.0 + 0.27 * len(target)
    return _save(path, content, draw, *size)


def draw_probed(path: Path, systems: Systems) -> list[Path]:
    """Draws what probes found of some encoders; returns both files."""

    def draw(figure: Figure, theme: Mapping[str, Any]) -> None:
        probing_plot.draw_on(figure, systems, columns=3)

    return _save(path, probed_content(systems), draw, 6.4, 3.6)


def attend(run: Path, text: str) -> None:
    """Stores translation and attention of a text, as the newest export of a run aligns them.

    Raises:
        UserError: If the run has no export.
    """
    from dtmt_tf.translator.exported import ExportedModel
    from dtmt_tf.translator.places import latest_version

    version = latest_version(run)
    (answer,) = ExportedModel(version).ask("align", text=[text])
    rows, columns = int(answer["target_length"]), int(answer["source_length"])
    written = json.loads((version / "experiment.json").read_text("utf-8"))
    settings = written["settings"]
    found = {
        "run": run.resolve().name,
        "task": settings["task"],
        "model": settings["model_name"],
        "set": {key: settings[key.split(".")[0]][key.split(".")[1]]
                for key, origin in written["origins"].items() if origin == "--set"},
        "text": text,
        "translation": answer["translation"].decode(),
        "source": [piece.decode() for piece in answer["source_subwords"][:columns]],
        "target": [piece.decode() for piece in answer["target_subwords"][:rows]],
        "weights": [[round(float(x), 3) for x in row] for row in
                    answer["attention"][:rows, :columns]],
    }  # fmt: skip
    text = json.dumps(found, ensure_ascii=False, indent=1)
    write_atomically(ATTENTION, (text + "\n").encode())


def content_of(panels: Sequence[Panel]) -> list[Any]:
    """Returns what a picture of panels shows."""
    return [
        [
            panel.title,
            [
                [line.label, [list(point) for point in line.points], *map(list, line.band)]
                for line in panel.lines
            ],
        ]
        for panel in panels
    ]


def attention_content(found: Mapping[str, Any]) -> list[Any]:
    """Returns what an attention map shows: sub-words of both sides, weights."""
    return [found["source"], found["target"], found["weights"]]


def probed_content(systems: Systems) -> Any:
    """Returns what a picture of probes shows."""
    return {label: probing.plain(tasks) for label, tasks in systems.items()}


def digest(content: Any) -> str:
    """Returns the hash that a picture carries of what it shows."""
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()


def _save(
    path: Path,
    content: Any,
    draw: Callable[[Figure, Mapping[str, Any]], None],
    width: float,
    height: float,
) -> list[Path]:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.rcsetup import cycler

    paths = []
    for name, theme in THEMES.items():
        ink = dict.fromkeys(
            ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"),
            theme["ink"],
        )
        style = {
            "axes.prop_cycle": cycler(color=theme["lines"]),
            "svg.fonttype": "none",  # text stays text: small files, found by a search
            "svg.hashsalt": path.name,
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
            "font.size": 9,
            "axes.grid": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
        with matplotlib.rc_context(style | ink):  # type: ignore[arg-type]
            figure = Figure(figsize=(width, height), layout="constrained")
            draw(figure, theme)
            buffer = io.StringIO()
            metadata = {"Date": None, "Description": DIGEST + digest(content)}
            figure.savefig(buffer, format="svg", transparent=True, metadata=metadata)
        file = path.with_name(f"{path.name}-{name}.svg")
        lines = [line.rstrip() for line in buffer.getvalue().splitlines()]
        write_atomically(file, ("\n".join(lines) + "\n").encode())
        paths.append(file)
    return paths


def _panel(axes: Axes, panel: Panel, theme: Mapping[str, Any]) -> None:
    for line, colour in zip(panel.lines, itertools.cycle(theme["lines"]), strict=False):
        x, y = zip(*line.points, strict=True)
        marker = "o" if len(x) <= MARKED else ""
        style = "--" if line.dashed else "-"
        axes.plot(x, y, style, label=line.label, color=colour, lw=1.6, marker=marker, ms=3)
        if line.band:
            low, high = zip(*line.band, strict=True)
            axes.fill_between(x, low, high, color=colour, alpha=0.12, lw=0)
    if panel.ticks:
        axes.set_xticks(list(panel.ticks), list(panel.ticks.values()))
    else:
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.locator_params(axis="x", nbins=4)
    axes.set_title(panel.title, fontsize="medium")
    axes.set_xlabel(panel.x)
    axes.grid(color=theme["grid"], lw=0.6)
    axes.legend(frameon=False, fontsize="small", loc=panel.legend)  # type: ignore[call-overload]
