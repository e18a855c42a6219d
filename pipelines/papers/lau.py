"""Wang et al. (2017), "Deep Neural Machine Translation with Linear Associative Unit".

BLEU is the paper's: in Tables 1 and 4 the mean of four NIST Chinese-English sets, in Table 2 WMT14
English-German, in Table 3 English-French. Here the rows read the words of tokenised captions.
"""

from __future__ import annotations

import dataclasses

from pipelines.papers import deep_architectures
from pipelines.papers.paper import Paper, Row, Settings, Table

WORDS = "data.vocabulary_kind=word", "data.joint_vocabulary=false"
# what is left of 10,211 and 18,724 different words is <unk>
FEW = "data.source_vocab_size=6000", "data.target_vocab_size=6000"
RECIPE = deep_architectures.SHARED["multi30k_ende"]
SHARED: dict[str, Settings] = {"multi30k_ende_tok": RECIPE, "multi30k_enfr_tok": RECIPE}


def _family(small: int, paper: int) -> dict[str, tuple[str, Settings]]:
    """Returns model and settings by preset, for a width of states.

    The paper's first weights, N(0, 0.04^2), are for its width. They learn late in narrower layers,
    see LAU.md, so here products of all widths begin equally large.
    """
    stddev = round(0.08 * (256 / small) ** 0.5, 3)
    sizes = "model.embedding_dim=256", f"model.units={small}", f"model.initializer_stddev={stddev}"
    return {
        "small": ("deep_lau_4_4", (*WORDS, *FEW, *sizes)),
        "paper": ("deep_lau_4_4", (*WORDS, f"model.units={paper}")),
    }


FAMILIES: dict[str, dict[str, tuple[str, Settings]]] = {
    "deep_lau": _family(256, 512),
    "wide": _family(512, 1024),
    "narrow": _family(128, 256),
}
WIDTHS = {"gru_2_2_wide": "wide", "lau_8_6_narrow": "narrow"}  # of the others: the first family
# of Table 4: label and the paper's BLEU, by the names of the presets less their `deep_`
SYSTEMS: dict[str, tuple[str, float | None]] = {
    "gru_2_1": ("DeepGRU, depth 2 + 1", 33.59),
    "gru_2_2_wide": ("DeepGRU, depth 2 + 2, twice as wide", 34.68),
    "gru_2_2": ("DeepGRU, depth 2 + 2", 34.91),
    "gru_4_4": ("DeepGRU, depth 4 + 4", 34.08),
    "gru_4_4_resnet": ("DeepGRU, depth 4 + 4, ResNet", 36.40),
    "gru_4_4_ff": ("DeepGRU, depth 4 + 4, fast-forward", 37.62),
    "lau_2_2": ("DeepLAU, depth 2 + 2", 37.65),
    "lau_4_4": ("DeepLAU, depth 4 + 4", 38.97),
    "lau_8_6": ("DeepLAU, depth 8 + 6", 39.01),
    "lau_8_6_narrow": ("DeepLAU, depth 8 + 6, half as wide", 38.91),
}
ROWS: dict[str, Row] = {
    row: Row(family=WIDTHS.get(row, ""), model=f"deep_{row}") for row in SYSTEMS
}
ROWS |= {  # the paper prints no DeepGRU with PosUnk
    f"{row}-posunk": dataclasses.replace(
        ROWS[row], settings=("decoding.replace_unknown=true",), weights_of=row
    )
    for row in ("gru_4_4", "lau_4_4")
}
ROWS["lau_4_4-ensemble"] = dataclasses.replace(ROWS["lau_4_4-posunk"], together=8)
POSUNK = ("lau_4_4", "lau_4_4-posunk"), ("lau_4_4-posunk", "lau_4_4-ensemble")
TABLES: dict[str, Table] = {
    "1": Table(
        "DeepGRU and DeepLAU",
        {
            "gru_4_4": ("DeepGRU", 34.08),
            "gru_4_4-posunk": ("DeepGRU, PosUnk", None),
            "lau_4_4": ("DeepLAU", 38.97),
            "lau_4_4-posunk": ("DeepLAU, PosUnk", None),
            "lau_4_4-ensemble": ("DeepLAU, PosUnk, ensemble of 8", 43.35),
        },
        (("gru_4_4", "lau_4_4"), *POSUNK),
        lists_all=True,
    ),
    "2": Table(
        "Unknown words replaced",
        {
            "lau_4_4": ("DeepLAU", 22.1),
            "lau_4_4-posunk": ("DeepLAU, PosUnk", 23.8),
            "lau_4_4-ensemble": ("DeepLAU, PosUnk, ensemble of 8", 26.1),
        },
        POSUNK,
        lists_all=True,
    ),
    "3": Table(
        "English-French",
        {"lau_4_4": ("DeepLAU", 35.1)},
        lists_all=True,
        tasks=("multi30k_enfr_tok", "wmt14_enfr_lau"),
    ),
    "4": Table(
        "Depth, width and connections",
        SYSTEMS,
        (
            *(("gru_2_2", row) for row in ("gru_2_2_wide", "gru_4_4", "lau_2_2")),
            *(("gru_4_4", row) for row in ("gru_4_4_resnet", "gru_4_4_ff", "lau_4_4")),
            *((row, "lau_4_4") for row in ("gru_4_4_resnet", "gru_4_4_ff", "lau_2_2")),
            ("lau_4_4", "lau_8_6"),
            ("lau_8_6", "lau_8_6_narrow"),
        ),
        lists_all=True,
    ),
}
FIGURES: dict[str, Table] = {
    "2": Table(
        "BLEU of sentences longer than 0, 10, 20, ... words",
        {
            "lau_4_4": ("DeepLAU, depth 4 + 4", None),
            "lau_2_2": ("DeepLAU, depth 2 + 2", None),
            "gru_4_4": ("DeepGRU, depth 4 + 4", None),
        },
    ),
}
PAPER = Paper(
    name="lau",
    title="Wang et al. (2017), Deep NMT with Linear Associative Unit",
    task="multi30k_ende_tok",
    families=FAMILIES,
    rows=ROWS,
    tables=TABLES,
    figures=FIGURES,
    shared=SHARED,
    prefix="lau-",
)
