"""Architectures and their presets."""

from dtmt_tf.config import ModelConfig
from dtmt_tf.models import deep_lau, deep_rnn, dtmt, recurrence_transformer, transformer
from dtmt_tf.models.deep_lau import DeepLAU, DeepLAUConfig
from dtmt_tf.models.deep_rnn import DeepRNN, DeepRNNConfig
from dtmt_tf.models.dtmt import DTMT, DTMTConfig
from dtmt_tf.models.ensemble import Ensemble
from dtmt_tf.models.recurrence_transformer import (
    RecurrenceTransformer,
    RecurrenceTransformerConfig,
)
from dtmt_tf.models.transformer import Transformer, TransformerConfig
from dtmt_tf.models.translation_model import TranslationModel

MODELS: dict[str, ModelConfig] = {
    **dtmt.PRESETS,
    **deep_rnn.PRESETS,
    **deep_lau.PRESETS,
    **transformer.PRESETS,
    **recurrence_transformer.PRESETS,
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
