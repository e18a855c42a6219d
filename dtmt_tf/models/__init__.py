"""Architectures and their presets."""

from dtmt_tf.config import ModelConfig
from dtmt_tf.models.deep_lau import PRESETS as DEEP_LAU_PRESETS
from dtmt_tf.models.deep_lau import DeepLAU, DeepLAUConfig
from dtmt_tf.models.deep_rnn import PRESETS as DEEP_RNN_PRESETS
from dtmt_tf.models.deep_rnn import DeepRNN, DeepRNNConfig
from dtmt_tf.models.dtmt import DTMT, DTMTConfig
from dtmt_tf.models.ensemble import Ensemble
from dtmt_tf.models.recurrence_transformer import (
    RecurrenceTransformer,
    RecurrenceTransformerConfig,
)
from dtmt_tf.models.recurrence_transformer import presets as with_recurrence
from dtmt_tf.models.transformer import Transformer, TransformerConfig
from dtmt_tf.models.translation_model import TranslationModel


def _deep(depth: int, **settings: float | str) -> DTMTConfig:
    """DTMT with the same depth in all three modules."""
    depths = {f"{module}_depth": depth for module in ("encoder", "query", "decoder")}
    return DTMTConfig(**depths, **settings)  # type: ignore[arg-type]


def _transformer(
    depth: int, dim: int, filter_dim: int, num_heads: int, **settings: int
) -> TransformerConfig:
    """A Transformer with as many layers on both sides."""
    return TransformerConfig(dim, filter_dim, num_heads, depth, depth, **settings)  # type: ignore[arg-type]


TRANSFORMERS: dict[str, ModelConfig] = {
    "transformer_tiny": _transformer(4, 128, 256, 4),
    "transformer_base": _transformer(6, 512, 2048, 8),
    "transformer_big": _transformer(6, 1024, 4096, 16),
    # of Table 4 of Hao et al. (2019)
    "transformer_base_relpos": _transformer(6, 512, 2048, 8, relative_distance=16),
    "transformer_base_disan": _transformer(6, 512, 2048, 8, directional=True),
}
MODELS: dict[str, ModelConfig] = {
    "shallow_rnmt": _deep(0, encoder_cell="gru", query_cell="gru", decoder_cell="gru"),
    "dtmt1": _deep(1),
    "dtmt2": _deep(2),
    "dtmt3": _deep(3),
    "dtmt4": _deep(4),
    # narrow models need larger weights than the paper's 0.08, which is for 1024 units
    "dtmt_tiny": _deep(1, embedding_dim=128, units=128, num_heads=4, initializer_range=0.15),
    "dtmt_small": _deep(
        1,
        embedding_dim=256,
        units=256,
        num_heads=8,
        initializer_range=0.1,
        tied_embeddings="target",
    ),
    "dtmt_tied": _deep(  # one table for all three leaves room for units below 10 M
        1,
        embedding_dim=352,
        units=352,
        context_dim=352,
        num_heads=8,
        initializer_range=0.1,
        tied_embeddings="all",
    ),
    **DEEP_RNN_PRESETS,
    **DEEP_LAU_PRESETS,
    **TRANSFORMERS,
    **with_recurrence(TRANSFORMERS),
}

__all__ = [
    "DTMT",
    "MODELS",
    "DTMTConfig",
    "DeepLAU",
    "DeepLAUConfig",
    "DeepRNN",
    "DeepRNNConfig",
    "Ensemble",
    "ModelConfig",
    "RecurrenceTransformer",
    "RecurrenceTransformerConfig",
    "Transformer",
    "TransformerConfig",
    "TranslationModel",
]
