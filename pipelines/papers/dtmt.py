"""Meng and Zhang (2019), "DTMT", arXiv:1812.07807v2.

BLEU is the paper's: mean of five NIST Chinese-English sets, in Table 5 WMT14 English-German.
"""

from __future__ import annotations

from dtmt_tf.settings import as_override
from dtmt_tf.tasks import TASKS
from pipelines.papers.paper import Paper, Row, Settings, Table

MODULES = ("encoder", "query", "decoder")
# Model and settings by family and preset. The small Transformer has the parameters of the small
# DTMT#4 and rates and dropouts of its own, see EXPERIMENTS.md; the large one is trained as
# Vaswani et al. train it, with the updates and the weights that translate of the other rows.
TRANSFORMER = (
    *("model.model_dim=256", "model.num_heads=8", "model.filter_dim=864", "model.pre_norm=true"),
    *("model.encoder_layers=4", "model.decoder_layers=4", "model.tied_embeddings=target"),
    *("training.learning_rate=2.5e-4", "training.embedding_dropout_rate=0.1"),
    *("training.output_dropout_rate=0", "training.candidate_dropout_rate=0.1"),
)
# What a later and larger search on Multi30k found for it.
SEARCHED = (
    *("training.adam_beta_2=0.98", "training.adam_epsilon=1e-8"),
    "training.schedule_warmup=62",
)
# What that search found later: ahead in half as many updates.
LIGHT = (
    *("model.encoder_layers=3", "model.decoder_layers=3"),
    *("training.embedding_dropout_rate=0", "training.candidate_dropout_rate=0.05"),
)


def _as_vaswani(task: str) -> Settings:
    """Returns rates and dropouts of a task of the Transformer's own."""
    names = (
        *("schedule", "peak_learning_rate", "warmup_updates", "adam_beta_2", "adam_epsilon"),
        *("clip_norm", "embedding_dropout_rate", "output_dropout_rate", "candidate_dropout_rate"),
    )
    training = TASKS[task].training
    return tuple(f"training.{name}={as_override(getattr(training, name))}" for name in names)


BASE, VASWANI = _as_vaswani("wmt14_ende_base"), _as_vaswani("wmt14_ende_big")
# Their Section 6.1: English-French drops less.
FRENCH = ("training.embedding_dropout_rate=0.1", "training.candidate_dropout_rate=0.1")
# What a task's rows train with, where its recommended settings have moved on since their first run.
SHARED: dict[str, Settings] = {
    "multi30k_ende": (
        *("training.max_steps=12360", "training.validation_steps=824"),
        *("training.learning_rate=2e-4", "training.label_smoothing=0.1"),
        *("training.schedule_decay_start=49440", "training.schedule_decay_end=98880"),
        *("training.embedding_dropout_rate=0.3", "training.output_dropout_rate=0.4"),
        *("training.candidate_dropout_rate=0.25", "training.r_drop_alpha=0"),
        *("training.ema_decay=0", "training.average=last", "training.average_count=4"),
    ),
}
# `min23` of "Short budgets" in EXPERIMENTS.md: the rate has come down at its end, and no row is
# judged from the middle of its training.
SHORT: Settings = (
    *("training.max_steps=2700", "training.validation_steps=540"),
    *("training.schedule_decay_start=10800", "training.schedule_decay_end=26150"),
    *("training.embedding_dropout_rate=0.1", "training.output_dropout_rate=0.2"),
    *("training.candidate_dropout_rate=0.05", "training.r_drop_alpha=0"),
)
FAMILIES: dict[str, dict[str, tuple[str, Settings]]] = {
    "dtmt": {"small": ("dtmt_small", ()), "paper": ("dtmt4", ())},
    "transformer": {
        "small": ("transformer_tiny", TRANSFORMER),
        "paper": ("transformer_big", VASWANI),
    },
    "searched": {"small": ("transformer_tiny", (*TRANSFORMER, *SEARCHED))},
    "french": {"paper": ("transformer_big", (*VASWANI, *FRENCH))},
}


def _module(module: str, cell: str, depth: int) -> tuple[str, str]:
    return f"model.{module}_cell={cell}", f"model.{module}_depth={depth}"


def _deep(cell: str, depth: int) -> tuple[str, ...]:
    return tuple(setting for module in MODULES for setting in _module(module, cell, depth))


NO_SIGNAL = ("model.use_positional_signal=false",)
# "Advanced Techniques" in the paper's words; its multi-head attention counts as one of them.
PLAIN = (
    *NO_SIGNAL,
    "model.use_layer_norm=false",
    "model.num_heads=1",
    "training.label_smoothing=0",
    "training.embedding_dropout_rate=0",
    "training.output_dropout_rate=0",
    "training.candidate_dropout_rate=0",
)
DEEP = {
    f"{cell}{depth}": _deep(cell, depth) for cell in ("gru", "lau", "lgru") for depth in (0, 1, 4)
}
BEYOND = (6, 8, 12)  # T-GRUs, more than the paper tries
DEEP |= {f"lgru{depth}": _deep("lgru", depth) for depth in (2, 3, *BEYOND)}
SWEEP = {
    "gru0": ("ShallowRNMT", 41.22, 41.57),
    "lgru0": ("ShallowRNMT + L-GRU", 43.54, 43.83),
    "lgru1": ("DTMT#1", 44.28, 44.41),
    "lgru2": ("DTMT#2", 44.50, 44.66),
    "lgru3": ("DTMT#3", 44.61, 44.70),
    "lgru4": ("DTMT#4", 44.72, 45.04),
}

ROWS: dict[str, Row] = {
    **{key: Row(settings) for key, settings in DEEP.items()},
    **{f"{key}-no_signal": Row((*DEEP[key], *NO_SIGNAL)) for key in SWEEP},
    **{
        f"lgru4-shallow_{module}": Row((*DEEP["lgru4"], *_module(module, "gru", 0)))
        for module in MODULES
    },
    "gru4-plain": Row((*DEEP["gru4"], *PLAIN)),
    "transformer": Row(family="transformer"),
    "transformer-searched": Row(family="searched"),
    "transformer-light": Row(LIGHT, family="searched"),
    "transformer-french": Row(family="french"),
    "transformer-same_time": Row(family="transformer", time_of="lgru4", speed_of="transformer"),
}

WMT14 = {  # English-German and English-French
    "transformer": ("Transformer (Big)", (28.40, 41.00)),
    "gru0": ("ShallowRNMT", (25.66, 39.28)),
    "lgru1": ("DTMT#1", (27.92, 40.75)),
    "lgru4": ("DTMT#4", (28.70, 42.02)),
}


def _wmt14(column: int, task: str, transformer: str) -> Table:
    """Returns one language of Table 2."""
    rows = {"transformer": transformer}
    return Table(
        f"Systems on {TASKS[task].description.partition(',')[0]}",
        {rows.get(row, row): (label, printed[column]) for row, (label, printed) in WMT14.items()},
        (("gru0", "lgru1"), ("lgru1", "lgru4"), (transformer, "lgru4")),
        tasks=(task,),
    )


TABLES: dict[str, Table] = {
    "1": Table(
        "DTMT and the Transformer",
        {
            "transformer": ("Transformer, same updates", 42.95),
            "transformer-searched": ("Transformer, searched, same updates", 42.95),
            "transformer-light": ("Transformer, searched, 3 + 3 layers, less dropout", 42.95),
            "transformer-same_time": ("Transformer, same minutes as DTMT#4", None),
            "gru0": ("ShallowRNMT", 41.57),
            "lgru1": ("DTMT#1", 44.41),
            "lgru4": ("DTMT#4", 45.04),
        },
        (
            ("gru0", "lgru1"),
            ("lgru1", "lgru4"),
            ("transformer", "lgru1"),
            ("transformer", "lgru4"),
            ("transformer-searched", "lgru1"),
            ("transformer-searched", "lgru4"),
            ("transformer-light", "lgru1"),
            ("transformer-light", "lgru4"),
            ("transformer", "gru0"),
            ("transformer-searched", "gru0"),
            ("transformer-light", "gru0"),
            ("transformer-same_time", "lgru4"),
        ),
    ),
    "2": _wmt14(0, "wmt14_ende", "transformer"),
    "2-french": _wmt14(1, "wmt14_enfr", "transformer-french"),
    "3": Table(
        "Cells at three depths",
        {
            "gru0": ("ShallowRNMT: GRU", 41.57),
            "lau0": ("ShallowRNMT: LAU", 43.06),
            "lgru0": ("ShallowRNMT: L-GRU", 43.83),
            "gru1": ("DTMT#1: GRU + T-GRU", 43.63),
            "lau1": ("DTMT#1: LAU + T-GRU", 43.79),
            "lgru1": ("DTMT#1: L-GRU + T-GRU", 44.41),
            "gru4": ("DTMT#4: GRU + T-GRUs", 44.16),
            "lau4": ("DTMT#4: LAU + T-GRUs", 44.54),
            "lgru4": ("DTMT#4: L-GRU + T-GRUs", 45.04),
        },
        tuple(
            (f"{baseline}{depth}", f"{system}{depth}")
            for depth in (0, 1, 4)
            for baseline, system in (("gru", "lau"), ("lau", "lgru"), ("gru", "lgru"))
        )
        + tuple(
            (f"{cell}{less}", f"{cell}{more}")
            for cell in ("gru", "lau", "lgru")
            for less, more in ((0, 1), (1, 4))
        ),
        lists_all=True,
    ),
    "4": Table(
        "One transition replaced by its shallow counterpart",
        {
            "lgru4": ("DTMT#4", 45.04),
            "lgru4-shallow_encoder": ("without encoder transition", 43.30),
            "lgru4-shallow_query": ("without query transition", 44.35),
            "lgru4-shallow_decoder": ("without decoder transition", 44.36),
        },
        tuple(("lgru4", f"lgru4-shallow_{module}") for module in MODULES),
    ),
    "5": Table(
        "Without L-GRU and the advanced techniques",
        {
            "lgru4": ("DTMT#4", 28.70),
            "gru4": ("- L-GRU", 27.81),
            "gru4-plain": ("- L-GRU and advanced techniques", 26.27),
        },
        (("lgru4", "gru4"), ("gru4", "gru4-plain")),
        lists_all=True,
    ),
    "6": Table(
        "Transition depth and positional signal",
        {
            row: cell
            for key, (label, without, bleu) in SWEEP.items()
            for row, cell in (
                (f"{key}-no_signal", (f"{label}, no signal", without)),
                (key, (label, bleu)),
            )
        },
        tuple(zip(SWEEP, list(SWEEP)[1:], strict=False))
        + tuple((f"{key}-no_signal", key) for key in SWEEP),
        lists_all=True,
    ),
    "depth": Table(
        "More T-GRUs than the paper has",
        {f"lgru{depth}": (f"DTMT#{depth}", None) for depth in (4, *BEYOND)},
        (("lgru4", "lgru6"), ("lgru6", "lgru8"), ("lgru8", "lgru12")),
        lists_all=True,
    ),
}
FIGURES: dict[str, Table] = {
    "3": Table(
        "BLEU of sentences longer than 0, 10, 20, ... words",
        {
            "lgru4": ("DTMT#4", None),
            "lgru1": ("DTMT#1", None),
            "gru0": ("ShallowRNMT", None),
            "transformer": ("Transformer", None),
            "transformer-searched": ("Transformer, searched", None),
        },
    ),
}
PAPER = Paper(
    name="dtmt",
    title="Meng and Zhang (2019), DTMT",
    task="multi30k_ende",
    families=FAMILIES,
    rows=ROWS,
    tables=TABLES,
    figures=FIGURES,
    shared=SHARED,
    recipes={"short": {"multi30k_ende": SHORT}},
)
