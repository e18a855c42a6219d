"""The Transformer, with which Meng and Zhang compare DTMT and Hao et al. begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from dtmt_tf.config import PAD_ID, ModelConfig, TrainingConfig
from dtmt_tf.layers import (
    ByShape,
    Fusion,
    MultiHeadDotAttention,
    SeedSeries,
    StateReadout,
    TokenEmbedding,
    TransformerLayer,
    TransformerStack,
)
from dtmt_tf.layers.attention import MASKED_SCORE
from dtmt_tf.models.translation_model import Multiplications, TranslationModel, elements, tying
from dtmt_tf.settings import require, setting


@dataclass(frozen=True)
class TransformerConfig(ModelConfig):
    """Settings of the Transformer; by default the base model of Vaswani et al. (2017), not tied."""

    model_dim: int = setting(
        512, "width of embeddings and states; divisible by num_heads", at_least=1, at_most=65_536
    )
    filter_dim: int = setting(2048, "inside the feed-forward layers", at_least=1, at_most=1_000_000)
    num_heads: int = setting(8, "heads of each attention", at_least=1)
    encoder_layers: int = setting(6, "layers of the encoder", at_least=1, at_most=1000)
    decoder_layers: int = setting(6, "layers of the decoder", at_least=1, at_most=1000)
    pre_norm: bool = setting(False, "Transformer layers: norm before each sub-layer, not after it")
    tied_embeddings: str = tying("none")
    relative_distance: int = setting(
        0,
        "above 0: self-attention knows relative positions, up to this distance",
        at_least=0,
        at_most=10_000,
    )
    directional: bool = setting(
        False, "encoder: half the heads see no later words, half no earlier ones"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.model_dim % self.num_heads == 0,
            "`model.model_dim` should be divisible by `model.num_heads`. "
            f"Received: {self.model_dim} and {self.num_heads}.",
        )
        require(
            not self.directional or self.num_heads % 2 == 0,
            f"`model.directional` needs an even `model.num_heads`. Received: {self.num_heads}.",
        )

    def build(
        self, source_vocab_size: int, target_vocab_size: int, training: TrainingConfig
    ) -> Transformer:
        """Returns the model with its weights made; dropout rates and seed are `training`'s."""
        model = Transformer(self, source_vocab_size, target_vocab_size, training)
        model.build()
        return model


class Transformer(TranslationModel):
    """Vaswani et al. (2017), "Attention Is All You Need", arXiv:1706.03762.

    What that paper leaves open is as in THUMT, whose big model DTMT is compared with: every map but
    the softmax has a bias, the source embeddings have one too, and nothing is tied by default.
    Matrices start by Glorot's rule (those of keys and values as the one that they are here),
    tables and softmax normal with deviation d^-1/2, biases at zero. The row of <pad> is the token
    before the first; it is read for nothing else, unless tied.

    Dropout: `embedding_dropout_rate` on embeddings with their signal; `candidate_dropout_rate`, for
    what a step adds to its state, on each part's result before it is added (Vaswani et al.'s
    residual dropout); `output_dropout_rate` before the softmax (theirs is 0). Attention weights and
    the feed-forward parts' inner units are not dropped, as in their paper.

    Args:
        config: Sizes and switches.
        source_vocab_size: Source vocabulary, V_s.
        target_vocab_size: Target vocabulary, V_t.
        training: Gives the dropout rates and the initialisers' seed.
    """

    def __init__(
        self,
        config: TransformerConfig,
        source_vocab_size: int,
        target_vocab_size: int,
        training: TrainingConfig,
    ) -> None:
        super().__init__(name="transformer")
        self.config = config
        dim = config.model_dim
        seeds = [SeedSeries(2 * training.seed), SeedSeries(2 * training.seed + 1)]
        tables = ByShape(keras.initializers.RandomNormal(stddev=dim**-0.5, seed=seeds[0]))
        matrices = ByShape(keras.initializers.GlorotUniform(seed=seeds[1]))

        def embedding(
            name: str, vocab_size: int, use_bias: bool, tied_to: TokenEmbedding | None = None
        ) -> TokenEmbedding:
            return TokenEmbedding(
                vocab_size,
                dim,
                dropout_rate=training.embedding_dropout_rate,
                word_dropout_rate=training.word_dropout_rate,
                use_bias=use_bias,
                scale=dim**0.5,
                initializer=tables,
                tied_to=tied_to,
                name=name,
            )

        norm = {"pre_norm": config.pre_norm, "dropout_rate": training.candidate_dropout_rate}

        def stack(name: str, num_layers: int, reads_sources: bool) -> TransformerStack:
            layers = [
                TransformerLayer(
                    dim,
                    config.filter_dim,
                    config.num_heads,
                    reads_sources=reads_sources,
                    norm=norm,
                    initializer=matrices,
                    relative_distance=config.relative_distance,
                    fusion=self.make_fusion(k, norm, matrices) if reads_sources else None,
                    name=f"layer_{k}",
                )
                for k in range(1, num_layers + 1)
            ]
            return TransformerStack(layers, name=name)

        target = embedding("target_embedding", target_vocab_size, use_bias=False)
        self.target_embedding = target
        self.source_embedding = embedding(
            "source_embedding",
            source_vocab_size,
            use_bias=True,
            tied_to=target if config.tied_embeddings == "all" else None,
        )
        self.encoder = stack("encoder", config.encoder_layers, reads_sources=False)
        self.decoder = stack("decoder", config.decoder_layers, reads_sources=True)
        self.readout = StateReadout(
            dim,
            target_vocab_size,
            dropout_rate=training.output_dropout_rate,
            initializer=tables,
            tied_to=None if config.tied_embeddings == "none" else target,
            name="readout",
        )

    @property
    def annotations_dim(self) -> int:
        """Width of the encoder's states."""
        return self.config.model_dim

    def build(self, *_: Any) -> None:
        """Makes all weights."""
        states_shape = (None, None, self.config.model_dim)
        self.target_embedding.build()
        self.source_embedding.build()
        self.encoder.build(states_shape)
        self.decoder.build(states_shape, (None, None, self.annotations_dim))
        self.readout.build(states_shape)

    def make_fusion(self, layer: int, norm: dict[str, Any], initializer: Any) -> Fusion | None:
        """Makes what else a decoder layer, counted from 1, attends to: here nothing."""
        return None

    def annotate(
        self, source_ids: Any, training: bool = False, seeds: Any = None
    ) -> tuple[Any, Any]:
        """Returns the encoder's states, `[B, S, d]`, and the bias of scores, `[B, S]`."""
        options = {"training": training, "seeds": seeds}
        positions = ops.arange(ops.shape(source_ids)[1])
        embedded = self.source_embedding(source_ids, positions, **options)
        bias = ops.where(ops.not_equal(source_ids, PAD_ID), 0.0, MASKED_SCORE)
        scores = bias[:, None, None]
        if self.config.directional:
            scores = scores + self.directions(positions)
        annotations, _, _ = self.encoder(embedded, scores, **options)
        return annotations, bias

    def directions(self, positions: Any) -> Any:
        """Returns the bias `[N, S, S]` of heads that look back, and of as many that look ahead.

        All see the token itself, so that none is without tokens. (Hao et al., 2019, "DiSAN", after
        Shen et al., 2018.)
        """
        back = ops.where(positions[None] <= positions[:, None], 0.0, MASKED_SCORE)
        both = ops.stack([back, ops.transpose(back)])
        return ops.repeat(both, self.config.num_heads // 2, axis=0)

    def source_memory(
        self, source_ids: Any, training: bool = False, seeds: Any = None
    ) -> list[Any]:
        """Returns the decoder's memory of the sources: keys and values of each layer, the mask."""
        return self.decoder.precompute(*self.annotate(source_ids, training, seeds))

    def decode(
        self, source_ids: Any, target_ids: Any, training: bool = False, seeds: Any = None
    ) -> tuple[Any, list[Any]]:
        """Returns the decoder's states `[B, T, d]` and attention, a layer's `[B, heads, T, S]`."""
        memory = self.source_memory(source_ids, training, seeds)
        previous = ops.pad(target_ids[:, :-1], [[0, 0], [1, 0]], constant_values=PAD_ID)
        positions = ops.arange(ops.shape(target_ids)[1])
        embedded = self.target_embedding(previous, positions, training=training, seeds=seeds)
        causal = ops.where(positions[None] <= positions[:, None], 0.0, MASKED_SCORE)
        states, weights, _ = self.decoder(embedded, causal, memory, training=training, seeds=seeds)
        return states, weights

    def features(
        self, source_ids: Any, target_ids: Any, training: bool = False, seeds: Any = None
    ) -> Any:
        """See the base class: the decoder's last states, `[B, T, d]`."""
        return self.decode(source_ids, target_ids, training, seeds)[0]

    def encode(self, source_ids: Any) -> tuple[Any, Any]:
        """See the base class; the keys and values of no tokens are empty."""
        heads, layers = self.config.num_heads, self.config.decoder_layers
        memory = self.source_memory(source_ids)
        shape = (ops.shape(source_ids)[0], 1, heads, 0, self.config.model_dim // heads)
        empty = ops.zeros(shape, dtype=self.compute_dtype)
        position = ops.zeros_like(source_ids[:, :1])  # of the token to be predicted
        return {"past": [[empty, empty] for _ in range(layers)], "position": position}, memory

    def encodings(self, source_ids: Any) -> list[tuple[Any, Any]]:
        """See the base class."""
        return [(self.annotate(source_ids)[0], ops.not_equal(source_ids, PAD_ID))]

    def decode_step(self, ids: Any, state: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        """See the base class; projects one token and attends to the keys and values of the past."""
        hidden, memory = state
        position = hidden["position"]
        previous = ops.where(position > 0, ids, PAD_ID)
        embedded = self.target_embedding(previous, position)
        states, _, past = self.decoder(embedded, memory=memory, past=hidden["past"])
        return self.readout(states), ({"past": past, "position": position + 1}, memory)

    def inspect(self, source_ids: Any, target_ids: Any) -> tuple[dict[str, Any], Any]:
        """See the base class: no gates; the weights are the mean over layers and heads."""
        _, weights = self.decode(source_ids, target_ids)
        return {}, ops.mean(ops.stack(weights), axis=(0, 2))

    def multiplications(self) -> Multiplications:
        """See the base class."""
        softmax = self.readout.logits.input_dim * self.readout.logits.units
        return Multiplications.total(
            [
                *(self.of_encoder_layer(layer) for layer in self.encoder.layers),
                *(self.of_decoder_layer(layer) for layer in self.decoder.layers),
                Multiplications(target=softmax),
            ]
        )

    def of_encoder_layer(self, layer: TransformerLayer) -> Multiplications:
        """Returns the arithmetic of an encoder's layer."""
        pair = _of_pair(layer.self_attention)
        return Multiplications(source=elements([layer]), source_pair=pair)

    def of_decoder_layer(self, layer: TransformerLayer) -> Multiplications:
        """Returns the arithmetic of a decoder's layer, but for what reads another encoder."""
        attention = layer.source_attention
        keys = elements([attention.key_value])
        own = [layer.self_attention, attention, layer.inner, layer.outer]
        return Multiplications(
            source=keys,
            target=elements(own) - keys,
            pair=_of_pair(attention),
            target_pair=_of_pair(layer.self_attention),
        )

    def largest_tensors(self, sentences: int, length: int) -> dict[str, int]:
        """See the base class."""
        config = self.config
        of_self = config.encoder_layers + config.decoder_layers
        attentions = of_self + config.decoder_layers
        found = {
            "logits, gradient": 2 * sentences * length * self.readout.logits.units,
            "attention weights": attentions * config.num_heads * sentences * length**2,
        }
        if config.relative_distance:
            found["relative positions"] = of_self * 2 * length**2 * config.model_dim
        return found

    def depths(self) -> dict[str, list[Any]]:
        """See the base class: a layer is a depth."""
        return {
            f"{stack.name}/{layer.name}": layer.trainable_variables
            for stack in (self.encoder, self.decoder)
            for layer in stack.layers
        }

    def modules(self) -> dict[str, list[Any]]:
        """See the base class."""
        return {
            "source embedding": [self.source_embedding],
            "target embedding": [self.target_embedding],
            "encoder": [self.encoder],
            "decoder": [self.decoder],
            "softmax": [self.readout],
        }


def _of_pair(attention: MultiHeadDotAttention) -> int:
    """Returns the multiplications for a query and a key: the score's and the value's.

    With relative positions each has a vector of its own besides.
    """
    return (4 if attention.relative_distance else 2) * attention.units


def _preset(
    depth: int, dim: int, filter_dim: int, num_heads: int, **settings: Any
) -> TransformerConfig:
    """A Transformer with as many layers on both sides."""
    return TransformerConfig(dim, filter_dim, num_heads, depth, depth, **settings)


PRESETS: dict[str, ModelConfig] = {
    "transformer_tiny": _preset(4, 128, 256, 4),
    "transformer_base": _preset(6, 512, 2048, 8),
    "transformer_big": _preset(6, 1024, 4096, 16),
    # of Table 4 of Hao et al. (2019)
    "transformer_base_relpos": _preset(6, 512, 2048, 8, relative_distance=16),
    "transformer_base_disan": _preset(6, 512, 2048, 8, directional=True),
}
