"""Cells run over time, embeddings, attention and output."""

from dtmt_tf.layers.abstract_decoder_cell import AbstractDecoderCell
from dtmt_tf.layers.additive_attention import AdditiveAttention
from dtmt_tf.layers.affine import Affine
from dtmt_tf.layers.attention import MultiHeadAdditiveAttention
from dtmt_tf.layers.attentive_cell import AttentiveCell
from dtmt_tf.layers.deep_decoder import DeepDecoderCell
from dtmt_tf.layers.deep_encoder import DeepEncoder
from dtmt_tf.layers.deep_readout import DeepReadout
from dtmt_tf.layers.dot_attention import MultiHeadDotAttention
from dtmt_tf.layers.embedding import TokenEmbedding, positional_signal
from dtmt_tf.layers.encoder import BidirectionalEncoder
from dtmt_tf.layers.fusion import FUSIONS, Fusion
from dtmt_tf.layers.initializers import ByShape
from dtmt_tf.layers.masked_mean import masked_mean
from dtmt_tf.layers.normed_affine import NormedAffine
from dtmt_tf.layers.readout import Readout
from dtmt_tf.layers.recurrence_encoder import RecurrenceEncoder, RecurrenceLayer
from dtmt_tf.layers.recurrences import AttentiveRecurrence, WordRecurrence
from dtmt_tf.layers.seeds import SeedSeries, SeedStream
from dtmt_tf.layers.stack_connection import StackConnection
from dtmt_tf.layers.stacked_decoder import DecoderLevel, StackedDecoderCell
from dtmt_tf.layers.stacked_encoder import StackedEncoder
from dtmt_tf.layers.state_readout import StateReadout
from dtmt_tf.layers.transformer import TransformerLayer, TransformerStack
from dtmt_tf.layers.transition_decoder import TransitionDecoderCell
from dtmt_tf.layers.transition_rnn import TransitionRNN
from dtmt_tf.layers.watching import Seen, watching

__all__ = [
    "FUSIONS",
    "AbstractDecoderCell",
    "AdditiveAttention",
    "Affine",
    "AttentiveCell",
    "AttentiveRecurrence",
    "BidirectionalEncoder",
    "ByShape",
    "TransitionDecoderCell",
    "DecoderLevel",
    "DeepDecoderCell",
    "DeepEncoder",
    "DeepReadout",
    "Fusion",
    "MultiHeadAdditiveAttention",
    "MultiHeadDotAttention",
    "NormedAffine",
    "Readout",
    "RecurrenceEncoder",
    "RecurrenceLayer",
    "SeedSeries",
    "SeedStream",
    "Seen",
    "StackConnection",
    "StackedDecoderCell",
    "StackedEncoder",
    "StateReadout",
    "TokenEmbedding",
    "TransformerLayer",
    "TransformerStack",
    "TransitionRNN",
    "WordRecurrence",
    "positional_signal",
    "masked_mean",
    "watching",
]
