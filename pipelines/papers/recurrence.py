"""Hao et al. (2019), "Modeling Recurrence for Transformer", NAACL-HLT.

BLEU is the paper's on WMT14 English-German; Table 3 has two sizes, and also WMT17 Chinese-English.
The paper adds its new layers to a trained Transformer, as `--begin-with base` does; without that
option a row is trained from fresh weights. All rows make equally many updates.
"""

from __future__ import annotations

from pipelines.papers import deep_architectures, dtmt
from pipelines.papers.paper import Paper, Row, Settings, Table

# The small models have what a search on the base row found on Multi30k, see EXPERIMENTS.md.
FAMILIES: dict[str, dict[str, tuple[str, Settings]]] = {
    "transformer": {
        "small": ("transformer_tiny", dtmt.TRANSFORMER),
        "paper": ("transformer_base", dtmt.BASE),
    },
    "recurrence": {
        "small": ("transformer_tiny_biarn", dtmt.TRANSFORMER),
        "paper": ("transformer_base_biarn", dtmt.BASE),
    },
    "big": {
        "small": ("transformer_tiny", (*dtmt.TRANSFORMER, "model.filter_dim=1728")),
        "paper": ("transformer_big", dtmt.VASWANI),
    },
    "big_recurrence": {
        "small": ("transformer_tiny_biarn", (*dtmt.TRANSFORMER, "model.filter_dim=1728")),
        "paper": ("transformer_big_biarn", dtmt.VASWANI),
    },
}
TRANSFORMER = 27.31  # the paper's BLEU
SHARED: dict[str, Settings] = {
    task: (*settings, *dtmt.SEARCHED) for task, settings in deep_architectures.SHARED.items()
}


def _layers(number: int, recurrence: str = "biarn") -> Settings:
    return f"model.recurrence={recurrence}", f"model.recurrence_layers={number}"


def _fusion(kind: str, layers: str) -> Settings:
    return f"model.fusion={kind}", f"model.fusion_layers={layers}"


def _steps(number: int) -> Settings:
    return (f"model.recurrence_steps={number}",)


RECURRENT: dict[str, Settings] = {
    "birnn6": _layers(6, "birnn"),
    "birnn1": _layers(1, "birnn"),  # not in the paper
    "biarn6": _layers(6),
    "biarn3": _layers(3),
    "biarn1": (),
    "biarn1_zero": ("model.fusion_from_zero=true",),  # the paper does not say how it begins
    "gated_top": _fusion("gated_sum", "top"),
    "gated_all": _fusion("gated_sum", "all"),
    "stack_all": _fusion("stack", "all"),
    "steps1": _steps(1),
    "steps4": _steps(4),
    "steps16": _steps(16),
    "steps_length": _steps(0),
    "columns": (*_layers(6, "birnn"), *_fusion("columns", "all")),
}
ROWS: dict[str, Row] = {
    "base": Row(),
    "relative": Row(("model.relative_distance=16",)),
    "directional": Row(("model.directional=true",)),
    "big": Row(family="big"),
    "big_biarn1": Row(family="big_recurrence"),
    **{key: Row(settings, "recurrence") for key, settings in RECURRENT.items()},
}


def _table(
    title: str,
    rows: dict[str, tuple[str, float | None]],
    axis: str = "",
    more: tuple[tuple[str, str], ...] = (),
) -> Table:
    """Returns a table of systems, all compared with the first, and of what else is compared."""
    first, *others = rows
    pairs = tuple((first, other) for other in others) + more
    return Table(title, rows, pairs, axis=axis, lists_all=True)


def _two_sizes(base: float, biarn1: float, big: float, big_biarn1: float, task: str = "") -> Table:
    """Returns one pair of languages of Table 3."""
    return Table(
        "Two sizes",
        {
            "base": ("Transformer", base),
            "biarn1": ("+ BiARN, 1 layer", biarn1),
            "big": ("larger Transformer", big),
            "big_biarn1": ("+ BiARN, 1 layer (larger)", big_biarn1),
        },
        (("base", "biarn1"), ("big", "big_biarn1"), ("base", "big")),
        lists_all=True,
        tasks=(task,) if task else (),
    )


TABLES: dict[str, Table] = {
    "1": _table(
        "Recurrence encoders",
        {
            "base": ("Transformer", TRANSFORMER),
            "birnn6": ("+ BiRNN, 6 layers", 27.54),
            "birnn1": ("+ BiRNN, 1 layer", None),
            "biarn6": ("+ BiARN, 6 layers", 27.72),
            "biarn3": ("+ BiARN, 3 layers", 28.10),
            "biarn1": ("+ BiARN, 1 layer", 28.21),
            "biarn1_zero": ("+ BiARN, 1 layer, read from zero", 28.21),
        },
    ),
    "2": _table(
        "How the decoder reads them",
        {
            "base": ("Transformer", TRANSFORMER),
            "gated_top": ("gated sum, top layer", 28.12),
            "gated_all": ("gated sum, all layers", 28.02),
            "biarn1": ("stack, top layer", 28.21),
            "stack_all": ("stack, all layers", 27.93),
        },
    ),
    "3": _two_sizes(TRANSFORMER, 28.21, 28.58, 28.98),
    "3-chinese": _two_sizes(24.13, 24.70, 24.56, 25.10, "wmt17_zhen"),
    "4": _table(
        "Other ways to model recurrence",
        {
            "base": ("Transformer", TRANSFORMER),
            "relative": ("+ relative positions", 27.64),
            "directional": ("+ directional heads (DiSAN)", 27.58),
            "columns": ("+ RNN encoder in columns", 27.47),
            "biarn1": ("+ BiARN, 1 layer", 28.21),
        },
        more=(("relative", "biarn1"), ("directional", "biarn1")),
    ),
    "5": Table(
        "The encoders that `dtmt probe` reads",
        {
            "base": ("Transformer", None),
            "birnn6": ("+ BiRNN, 6 layers", None),
            "biarn6": ("+ BiARN, 6 layers", None),
            "biarn3": ("+ BiARN, 3 layers", None),
            "biarn1": ("+ BiARN, 1 layer", None),
        },
        lists_all=True,
        tasks=("general_ende",),
    ),
}
FIGURES: dict[str, Table] = {
    "5": _table(
        "BLEU by steps of BiARN",
        {
            "base": ("none", TRANSFORMER),
            "steps1": ("1", 27.50),
            "steps4": ("4", 27.99),
            "biarn1": ("8", 28.21),
            "steps16": ("16", 27.92),
            "steps_length": ("length", 27.33),
        },
        axis="steps of BiARN",
    ),
    "length": Table(
        "BLEU by length of the source",
        {"base": ("Transformer", None), "biarn1": ("+ BiARN, 1 layer", None)},
        bounds=(15, 30, 45),
    ),
}
PAPER = Paper(
    name="recurrence",
    title="Hao et al. (2019), Modeling Recurrence for Transformer",
    task="multi30k_ende",
    families=FAMILIES,
    rows=ROWS,
    tables=TABLES,
    figures=FIGURES,
    shared=SHARED,
    prefix="recurrence-",
)
