"""Miceli Barone et al. (2017), "Deep Architectures for NMT", arXiv:1707.07631.

BLEU is the mean of the paper's newstest2014, 2015 and 2016. Its cross entropy (CE) is of a sentence
of newstest2013, ours of a token of the validation files; only their order can be compared.
"""

from __future__ import annotations

from pipelines.papers import dtmt
from pipelines.papers.paper import Paper, Row, Settings, Table

# Short recipes of Multi30k and of the largest corpus here.
SHARED: dict[str, Settings] = {
    "multi30k_ende": dtmt.SHORT,
    "general_ende": (
        *("data.source_vocab_size=8000", "data.max_tokens_per_batch=1280"),
        *("training.max_steps=2700", "training.validation_steps=2700"),
        *("training.schedule_decay_start=10800", "training.schedule_decay_end=26150"),
        *("training.embedding_dropout_rate=0.1", "training.output_dropout_rate=0.1"),
        *("training.candidate_dropout_rate=0", "training.ema_decay=0.999"),
        *("training.average=none", "training.average_count=1"),
    ),
}
FAMILIES: dict[str, dict[str, tuple[str, Settings]]] = {
    "deep_rnn": {
        "small": ("rnn_baseline", ("model.embedding_dim=256", "model.units=256")),
        "paper": ("rnn_baseline", ()),
    },
    "dtmt": dtmt.FAMILIES["dtmt"],  # beside them, in Figure 5
}
# CE, then BLEU of newstest2014, 2015 and 2016, as printed
PRINTED: dict[str, tuple[float, float, float, float]] = {
    "baseline_no_norm": (49.98, 21.2, 23.8, 28.4),
    "baseline": (47.53, 21.9, 24.7, 29.3),
    "alternating4_no_norm": (49.25, 21.8, 24.6, 28.9),
    "alternating4": (46.29, 22.6, 25.2, 30.5),
    "biunidirectional4": (46.79, 22.4, 25.4, 30.0),
    "encoder_transition4": (46.54, 22.9, 25.4, 30.2),
    "decoder_gru4": (46.73, 21.8, 24.6, 29.5),
    "decoder_rgru4": (46.72, 22.1, 25.0, 29.4),
    "decoder_cgru4": (44.76, 22.8, 25.5, 29.6),
    "decoder_crgru4": (45.88, 22.5, 24.7, 29.7),
    "decoder_transition8": (45.98, 22.4, 24.9, 30.0),
    "deep_output4": (47.21, 21.5, 24.2, 28.7),
    "alternating4_gru4": (45.89, 22.9, 25.3, 30.1),
    "biunidirectional4_rgru4": (46.15, 22.4, 24.7, 29.6),
    "alternating4_rgru4": (46.00, 23.0, 25.7, 30.5),
    "alternating4_cgru4": (44.32, 22.9, 25.7, 29.8),
    "transition4_8": (45.52, 22.7, 25.7, 30.1),
    "bideep2x2": (43.52, 23.1, 25.5, 30.6),
    "bideep4x2": (43.26, 23.4, 26.0, 31.0),
    "alternating8_rgru8": (44.32, 22.9, 25.5, 30.5),
}
ROWS: dict[str, Row] = {
    **{row: Row(model=f"rnn_{row}") for row in PRINTED},
    "alternating2": Row(("model.encoder_depth=2",)),  # not in the paper
    "dtmt1": Row(dtmt.DEEP["lgru1"], "dtmt"),
    "dtmt4": Row((*dtmt.DEEP["lgru4"], "model.transition_offset=-3"), "dtmt"),
}


def _table(title: str, labels: dict[str, str], *pairs: tuple[str, str]) -> Table:
    """Returns a table of systems; unless pairs are given, all are compared with the first."""
    bleu = {row: round(sum(PRINTED[row][1:]) / 3, 2) if row in PRINTED else None for row in labels}
    first, *others = labels
    return Table(
        title,
        {row: (label, bleu[row]) for row, label in labels.items()},
        pairs or tuple((first, other) for other in others),
        {row: PRINTED[row][0] for row in labels if row in PRINTED},
        lists_all=True,
    )


TABLES: dict[str, Table] = {
    "1": _table(
        "Layer normalisation",
        {
            "baseline_no_norm": "baseline",
            "baseline": "+ layer normalisation",
            "alternating4_no_norm": "alternating (depth 4)",
            "alternating4": "+ layer normalisation (depth 4)",
        },
        ("baseline_no_norm", "baseline"),
        ("alternating4_no_norm", "alternating4"),
        ("baseline", "alternating4"),
    ),
    "2": _table(
        "Deep encoders",
        {
            "baseline": "shallow",
            "alternating2": "alternating, depth 2",
            "alternating4": "alternating, depth 4",
            "biunidirectional4": "biunidirectional, depth 1 + 3",
            "encoder_transition4": "deep transition, depth 4",
        },
    ),
    "3": _table(
        "Deep decoders",
        {
            "baseline": "shallow",
            "decoder_gru4": "stacked GRU, depth 4",
            "decoder_rgru4": "stacked rGRU, depth 4",
            "decoder_cgru4": "stacked cGRU, depth 4",
            "decoder_crgru4": "stacked crGRU, depth 4",
            "decoder_transition8": "deep transition, depth 8",
            "deep_output4": "deep output, depth 4",
        },
    ),
    "4": _table(
        "Deep encoders and decoders",
        {
            "baseline": "shallow",
            "encoder_transition4": "deep transition encoder, depth 4",
            "alternating4_gru4": "alternating + stacked GRU, depth 4 + 4",
            "biunidirectional4_rgru4": "biunidirectional + stacked rGRU, depth 4 + 4",
            "alternating4_rgru4": "alternating + stacked rGRU, depth 4 + 4",
            "alternating4_cgru4": "alternating + stacked cGRU, depth 4 + 4",
            "transition4_8": "deep transition, depth 4 + 8",
            "bideep2x2": "BiDeep, depth 2 x 2",
            "bideep4x2": "BiDeep, depth 4 x 2",
            "alternating8_rgru8": "alternating + stacked rGRU, depth 8 + 8",
        },
        ("baseline", "bideep4x2"),
        *(("encoder_transition4", row) for row in ("alternating4_rgru4", "transition4_8")),
        *(("encoder_transition4", row) for row in ("bideep2x2", "bideep4x2")),
        *(("alternating4_rgru4", row) for row in ("bideep2x2", "bideep4x2")),
        *(("transition4_8", row) for row in ("bideep2x2", "bideep4x2")),
        ("alternating8_rgru8", "bideep4x2"),
    ),
}
FIGURES: dict[str, Table] = {
    "5": Table(
        "Accuracy of subject-verb agreement by words",
        {
            "baseline": ("shallow GRU", None),
            "alternating4_gru4": ("stacked GRU", None),
            "transition4_8": ("deep transition GRU", None),
            "bideep2x2": ("BiDeep GRU, depth 2 x 2", None),  # not in the paper's figure
            "bideep4x2": ("BiDeep GRU, depth 4 x 2", None),
            "dtmt1": ("DTMT#1", None),
            "dtmt4": ("DTMT#4, T-GRUs at -3", None),
        },
        contrast="subj_verb_agreement",
    ),
}
PAPER = Paper(
    name="deep_architectures",
    title="Miceli Barone et al. (2017), Deep Architectures for NMT",
    task="multi30k_ende",
    families=FAMILIES,
    rows=ROWS,
    tables=TABLES,
    figures=FIGURES,
    shared=SHARED,
    prefix="deep-",
)
