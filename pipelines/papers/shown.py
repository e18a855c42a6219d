"""The results that the documents show: the first table and the learning curves, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A line of the first table of README and RESULTS.

    Args:
        corpus: What is translated.
        task: Name of the task.
        runs: Names of its runs, which differ in seed alone.
        model: What they are.
        cores: What their minutes are of.
    """

    corpus: str
    task: str
    runs: tuple[str, ...]
    model: str
    cores: str = "1 core"


@dataclass(frozen=True)
class Curve:
    """A line of a picture: the mean over the runs of a task, or over the seeds of a paper's row.

    Args:
        label: What the legend says.
        task: Name of the task.
        runs: Names of the runs, or the key of one row.
        change: What `--set` changed in the row, as it was written.
    """

    label: str
    task: str
    runs: tuple[str, ...] | str
    change: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scores:
    """Two lines of a picture: validation and test BLEU, means over seeds with their spread.

    Args:
        label: What the legend says.
        task: Name of the task.
        runs: Names of the runs, which differ in seed alone, by their place on the x axis.
    """

    label: str
    task: str
    runs: Mapping[int, tuple[str, ...]]


# What a system is called, and names of its runs, which differ in seed alone; that of a paper's row
# has its settings and its seed. Those without a result are passed over.
System = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Pair:
    """A comparison of systems; runs of one seed are compared.

    Args:
        task: Name of the task.
        baseline: What the other is compared with.
        system: The other.
        paper: The paper's difference, if it has one.
    """

    task: str
    baseline: System
    system: System
    paper: float | None = None


LONG = ("long1", "long2", "long3")
TAUGHT = ("distilled1", "distilled2", "distilled3")
TOK, CASED = "multi30k_ende_tok", "multi30k_ende"
HEADLINE = (
    Entry("Multi30k English-German, lower-cased", TOK, LONG, "DTMT#1, 352 units"),
    Entry("the same", TOK, ("ensemble",), "these three models together", "1 core, all three"),
    Entry("the same", TOK, TAUGHT, "one model taught by these three", "1 core, after its teachers"),
    Entry("Multi30k English-German, cased", CASED, LONG, "DTMT#1, 352 units"),
    Entry("the same", CASED, ("pair",), "two of 248 units, T-GRUs in the encoder only",
          "1 core, both"),
    Entry("Multi30k English-French, lower-cased", "multi30k_enfr_tok", ("longer1", "longer2"),
          "DTMT#1, 352 units", "1 or 2 cores"),
)  # fmt: skip


SEEDS = 1, 2, 3  # that a system may have been trained with


def _rows(name: str) -> tuple[str, ...]:
    """Returns the names of the results of a row, whose settings are named, by its seeds."""
    return tuple(f"{name}-seed{seed}" for seed in SEEDS)


def _runs(name: str) -> tuple[str, ...]:
    """Returns the names of runs that differ in seed alone; that of seed 1 does not say it."""
    return tuple(f"{name}-{seed}" if seed > 1 else name for seed in SEEDS)


AT_0 = {
    1: ("depth 1, offset 0", _rows("lgru1-d38e8c44")),
    2: ("depth 2, offset 0", _rows("lgru2-3df157ad")),
    3: ("depth 3, offset 0", _rows("lgru3-481a390c")),
    4: ("depth 4, offset 0", _rows("lgru4-3caa3214")),
}
AT_1 = "depth 1, offset -1", _runs("depth1-offset1")
AT_2 = "depth 4, offset -2", _runs("depth4-offset2")
AT_3 = {
    1: ("depth 1, offset -3", _runs("depth1-offset3")),
    4: ("depth 4, offset -3", _runs("depth4-offset3")),
    6: ("depth 6, offset -3", _runs("depth6-offset3")),
    8: ("depth 8, offset -3", _runs("depth8-offset3")),
}
SCALED = "depth 4, scale 0.1", _runs("depth4-scale")
DEEPER = 0.63  # DTMT#4 over DTMT#1 in the paper, Table 3
OVER = {1: 1.46, 4: 2.09}  # DTMT#1 and DTMT#4 over the Transformer in the paper, Table 1
OVER_SHALLOW = {1: 2.84, 4: 3.47}  # over ShallowRNMT, Table 1; the Transformer is 1.38 over it
OVER_L_GRU = {1: 0.58, 4: 1.21}  # over the same with L-GRUs, Table 3
SHALLOW_RNMT = "ShallowRNMT", _rows("gru0-a2a2bc3b")
SHALLOW_LAU = "ShallowRNMT + LAU", _rows("lau0-fe3ac9d0")
SHALLOW_L_GRU = "ShallowRNMT + L-GRU", _rows("lgru0-de78b5fb")
TRANSFORMER = "Transformer, searched", _rows("transformer-searched-0ed807e4")
TWICE = "Transformer, searched, twice the updates", _rows("recurrence-base-from_base-0ed807e4")
SHALLOW = "Miceli Barone et al., shallow", _rows("deep-baseline-7b528243")
ENCODER = {
    0: ("their deep transition encoder, offset 0", _rows("deep-encoder_transition4-afb2edf8")),
    -3: ("their deep transition encoder, offset -3", _rows("deep-encoder_transition4-158c1da1")),
}
COMPARED = (
    Pair(CASED, AT_0[1], AT_0[2], 0.25),
    Pair(CASED, AT_0[2], AT_0[3], 0.04),
    Pair(CASED, AT_0[3], AT_0[4], 0.34),
    Pair(CASED, AT_0[2], AT_0[4], DEEPER - 0.25),
    Pair(CASED, AT_0[1], AT_0[4], DEEPER),
    Pair(CASED, AT_0[4], AT_3[4]),
    Pair(CASED, AT_0[4], SCALED),
    Pair(CASED, AT_3[4], AT_2),
    Pair(CASED, AT_3[4], SCALED),
    Pair(CASED, AT_0[1], AT_1),
    Pair(CASED, AT_0[1], AT_3[1]),
    Pair(CASED, AT_0[1], AT_2, DEEPER),
    Pair(CASED, AT_0[1], AT_3[4], DEEPER),
    Pair(CASED, AT_0[1], SCALED, DEEPER),
    Pair(CASED, AT_1, AT_2, DEEPER),
    Pair(CASED, AT_1, AT_3[4], DEEPER),
    Pair(CASED, AT_3[1], AT_3[4], DEEPER),
    Pair(CASED, AT_0[1], AT_3[6]),
    Pair(CASED, AT_0[1], AT_3[8]),
    Pair(CASED, AT_3[4], AT_3[6]),
    Pair(CASED, AT_3[4], AT_3[8]),
    Pair(CASED, SHALLOW_RNMT, AT_0[1], OVER_SHALLOW[1]),
    Pair(CASED, SHALLOW_RNMT, AT_0[4], OVER_SHALLOW[4]),
    Pair(CASED, SHALLOW_RNMT, AT_3[4], OVER_SHALLOW[4]),
    Pair(CASED, SHALLOW_RNMT, SHALLOW_L_GRU, 2.26),
    Pair(CASED, SHALLOW_L_GRU, AT_0[1], OVER_L_GRU[1]),
    Pair(CASED, SHALLOW_L_GRU, AT_0[4], OVER_L_GRU[4]),
    Pair(CASED, SHALLOW_L_GRU, AT_3[4], OVER_L_GRU[4]),
    Pair(CASED, TRANSFORMER, SHALLOW_RNMT, -1.38),
    Pair(CASED, TRANSFORMER, AT_0[1], OVER[1]),
    Pair(CASED, TRANSFORMER, AT_1, OVER[1]),
    Pair(CASED, TRANSFORMER, AT_0[4], OVER[4]),
    Pair(CASED, TRANSFORMER, AT_3[4], OVER[4]),
    Pair(CASED, TWICE, AT_0[1]),
    Pair(CASED, TWICE, AT_3[4]),
    Pair(CASED, ENCODER[0], ENCODER[-3]),
    Pair(CASED, SHALLOW, ENCODER[-3], 0.87),  # the paper's difference at offset 0
)

# The systems whose means EXPERIMENTS.md shows, all of 2,700 updates of one recipe, and those that
# were trained a second time, with more validations.
AGAIN = (AT_0[1][0], _runs("depth1-offset0")), (AT_0[4][0], _runs("depth4-offset0"))
SHALLOW_START = (
    SHALLOW_RNMT,
    SHALLOW_L_GRU,
    SHALLOW_LAU,
    ("depth 1 on GRUs, offset 0", _rows("gru1-4d2a8ecc")),
    ("depth 1 on LAUs, offset 0", _rows("lau1-3dcc6763")),
    AT_0[1],
    AT_1,
    AT_3[1],
    AT_0[2],
    AT_0[3],
    ("depth 4 on GRUs, offset 0", _rows("gru4-f23b9230")),
    ("depth 4 on LAUs, offset 0", _rows("lau4-785d7c67")),
    AT_0[4],
    AT_2,
    AT_3[4],
    ("depth 4, offset -4", _runs("depth4-offset4")),
    ("depth 4, offset -5", _runs("depth4-offset5")),
    ("depth 4, offsets -1 to -4", _runs("depth4-step")),
    SCALED,
    AT_3[6],
    AT_3[8],
)

GATES = ("model.update_offset=-2",)
# Panels by title, of each picture; those of one picture share a scale.
CURVES: dict[str, dict[str, tuple[Curve, ...]]] = {
    "runs": {
        "multi30k_ende_tok": (
            Curve("352 units (3 seeds)", TOK, LONG),
            Curve("taught by the three (3 seeds)", TOK, TAUGHT),
            Curve("256 units (2 seeds)", TOK, ("gold1", "gold2")),
            Curve("352 units, 75 minutes", TOK, ("min90",)),
            Curve("256 units, word dropout", TOK, ("word",)),
        ),
        "multi30k_ende": (
            Curve("352 units (3 seeds)", CASED, LONG),
            Curve("352 units, 107 minutes", CASED, ("rdrop1",)),
            Curve("256 units, 17 minutes", CASED, ("min23",)),
            Curve("256 units, old rates", CASED, ("min24",)),
        ),
    },
    "tasks": {
        "other tasks": (
            Curve("multi30k_enfr_tok", "multi30k_enfr_tok", ("epochs17",)),
            Curve("general_ende", "general_ende", ("short",)),
            Curve("tatoeba_enzh", "tatoeba_enzh", ("dtmt_small",)),
            Curve("tatoeba_enzh, reversed", "tatoeba_enzh", ("zhen",)),
        ),
    },
    "depth": {
        "Table 6: transition depth": (
            *(Curve(f"depth {depth}", CASED, f"lgru{depth}") for depth in range(5)),
            Curve("depth 4, gates from -2", CASED, "lgru4", GATES),
        ),
        "Table 4: one shallow transition": (
            Curve("depth 4", CASED, "lgru4"),
            *(
                Curve(f"shallow {module}", CASED, f"lgru4-shallow_{module}")
                for module in ("encoder", "query", "decoder")
            ),
        ),
        "Tables 1, 3: cells, Transformer": (
            Curve("GRU, depth 0", CASED, "gru0"),
            Curve("GRU, depth 1", CASED, "gru1"),
            Curve("L-GRU, depth 1", CASED, "lgru1"),
            Curve("GRU, depth 4", CASED, "gru4"),
            Curve("L-GRU, depth 4", CASED, "lgru4"),
            Curve("Transformer", CASED, "transformer"),
        ),
    },
    "short": {
        "recipe short": (
            Curve("depth 0", CASED, SHALLOW_L_GRU[1]),
            *(
                Curve(name.replace(", offset 0", ""), CASED, runs)
                for name, runs in (AT_0[1], AT_0[4], AT_3[4], AT_3[8])
            ),
            Curve("Transformer, searched", CASED, TRANSFORMER[1]),
        ),
    },
}
# Pictures of one panel: its title, its x axis, its lines.
SCORES: dict[str, tuple[str, str, tuple[Scores, ...]]] = {
    "transitions": (
        "multi30k_ende, 2,700 updates",
        "T-GRUs of each transition",
        (
            Scores(
                "gates lower",
                CASED,
                {0: SHALLOW_L_GRU[1], 1: AT_1[1]} | {n: AT_3[n][1] for n in (4, 6, 8)},
            ),
            Scores(
                "half open",
                CASED,
                {0: SHALLOW_L_GRU[1]} | {n: names for n, (_, names) in AT_0.items()},
            ),
        ),
    ),
}
# Runs whose gates and gradients are drawn: what the legend says, task, names.
EXPLAINED = (
    ("depth 1", CASED, ("depth1-offset0-2",)),
    ("depth 4", CASED, ("depth4-offset0-2",)),
    ("depth 4, offset -3", CASED, ("depth4-offset3-3",)),
    ("depth 6, offset -3", CASED, ("depth6-offset3",)),
)
# The run whose searches are drawn, and those that are drawn beside it, by what the legend says.
SEARCHED = f"{TOK}/quickest"
SIZES = {
    "256 units": SEARCHED,
    "192 units": f"{TOK}/quick192",
    "128 units": f"{TOK}/quick128",
}
# Of another program, measured by hand, see SPEED.md: rate and validation BLEU by beam size.
PEERS: dict[str, dict[int, tuple[float, float]]] = {
    "CTranslate2, Transformer, float32": {5: (708, 38.94), 2: (1559, 38.62), 1: (2749, 37.74)},
    "CTranslate2, Transformer, int8": {5: (879, 39.12), 2: (2098, 38.79), 1: (4184, 37.70)},
}
