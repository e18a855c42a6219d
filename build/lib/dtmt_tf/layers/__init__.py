"""Cells run over time, embeddings, attention and output."""

from dtmt_tf.layers.affine import Affine
from dtmt_tf.layers.attention import MultiHeadAdditiveAttention
from dtmt_tf.layers.decoder import DecoderCell
from dtmt_tf.layers.dot_attention import MultiHeadDotAttention
from dtmt_tf.layers.embedding import TokenEmbedding, positional_signal
from dtmt_tf.layers.encoder import BidirectionalEncoder
from dtmt_tf.layers.initializers import MatrixSeries, UniformSeries
from dtmt_tf.layers.readout import Readout
from dtmt_tf.layers.seeds import SeedStream
from dtmt_tf.layers.transformer import TransformerLayer, TransformerStack
from dtmt_tf.layers.transition_rnn import TransitionRNN

__all__ = [
    "Affine",
    "BidirectionalEncoder",
    "DecoderCell",
    "MatrixSeries",
    "MultiHeadAdditiveAttention",
    "MultiHeadDotAttention",
    "Readout",
    "SeedStream",
    "TokenEmbedding",
    "TransformerLayer",
    "TransformerStack",
    "TransitionRNN",
    "UniformSeries",
    "positional_signal",
]
