"""Deep transition, stacked and BiDeep recurrent models, as in Nematus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras

from dtmt_tf.cells import DeepTransitionCell, NematusGRUCell
from dtmt_tf.config import ModelConfig, TrainingConfig
from dtmt_tf.layers import (
    AdditiveAttention,
    ByShape,
    DecoderLevel,
    DeepReadout,
    NormedAffine,
    SeedSeries,
    StackedDecoderCell,
    StackedEncoder,
    TokenEmbedding,
)
from dtmt_tf.models.recurrent_model import RecurrentModel
from dtmt_tf.models.translation_model import tying
from dtmt_tf.settings import require, setting

HIGH_CELLS = ("gru", "rgru", "cgru", "crgru")


def _depth(default: int, meaning: str, at_least: int = 1) -> Any:
    """Returns the field of a number of levels or blocks."""
    return setting(default, meaning, at_least=at_least, at_most=1000)


@dataclass(frozen=True)
class DeepRNNConfig(ModelConfig):
    """Settings of the deep recurrent family; the defaults are the authors' baseline."""

    embedding_dim: int = setting(512, "width of embeddings", at_least=1, at_most=65_536)
    units: int = setting(1024, "width of a state", at_least=1, at_most=65_536)
    encoder_depth: int = _depth(1, "levels of both directions, which alternate")
    encoder_above: int = _depth(0, "further levels, left to right, 2 * units wide", 0)
    encoder_transition: int = _depth(1, "GRU blocks of each level of the encoder")
    decoder_depth: int = _depth(1, "levels of the decoder, the base included")
    decoder_transition: int = _depth(2, "GRU blocks of the base level; one is before its attention")
    high_cell: str = setting("gru", "levels above the base", choices=HIGH_CELLS)
    high_transition: int = _depth(1, "GRU blocks of each level above the base")
    output_depth: int = _depth(1, "layers before the softmax")
    tied_embeddings: str = tying("target")
    transition_offset: float = setting(
        0.0,
        "how far blocks without input update at first; below 0: shallow start",
    )
    use_layer_norm: bool = setting(
        True, "whether projections are normed; if not, see DEEP_ARCHITECTURES.md"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.decoder_transition >= 2,
            "`model.decoder_transition` should be at least 2, one block before the attention and "
            f"one after it. Received: {self.decoder_transition}.",
        )
        with_context = self.decoder_depth > 1 and self.high_cell in ("cgru", "crgru")
        require(
            not with_context or self.high_transition >= 2,
            f"`model.high_transition` should be at least 2 with {self.high_cell}, one block before "
            f"the context and one after it. Received: {self.high_transition}.",
        )

    @property
    def unread(self) -> dict[str, str]:
        """Settings that change nothing beside the others, each with the reason."""
        found: dict[str, str] = {}
        blocks = [self.encoder_transition, self.decoder_transition - 1]
        if self.decoder_depth < 2:
            reason = "no level stands above the base (model.decoder_depth)"
            found |= {"high_cell": reason, "high_transition": reason}
        else:
            reads_context = self.high_cell in ("cgru", "crgru")  # in the second block
            blocks.append(self.high_transition - reads_context)
        if max(blocks) < 2:
            found["transition_offset"] = "every block has an input"
        return found

    def build(
        self, source_vocab_size: int, target_vocab_size: int, training: TrainingConfig
    ) -> DeepRNN:
        """Returns the model with its weights made; dropout rates and seed are `training`'s."""
        model = DeepRNN(self, source_vocab_size, target_vocab_size, training)
        model.build()
        return model


class DeepRNN(RecurrentModel):
    """Miceli Barone et al. (2017), "Deep Architectures for NMT", arXiv:1707.07631.

    A cell of an encoder or decoder level is a deep transition of `NematusGRUCell`s. The rest is in
    `layers.StackedEncoder`, `layers.StackedDecoderCell` and `layers.DeepReadout`. Square matrices
    start orthogonal, but for the readout's three projections; others start from N(0, 0.01^2).

    Args:
        config: Sizes and switches.
        source_vocab_size: Source vocabulary, V_s.
        target_vocab_size: Target vocabulary, V_t.
        training: Gives the dropout rates and the initialisers' seed.
    """

    def __init__(
        self,
        config: DeepRNNConfig,
        source_vocab_size: int,
        target_vocab_size: int,
        training: TrainingConfig,
    ) -> None:
        self.config = config
        first, second, third = (SeedSeries(3 * training.seed + k) for k in range(3))
        normal, orthogonal = keras.initializers.RandomNormal, keras.initializers.Orthogonal
        plain = ByShape(normal(stddev=0.01, seed=first))
        matrices = ByShape(normal(stddev=0.01, seed=second), square=orthogonal(seed=third))
        norms = {"use_layer_norm": config.use_layer_norm}

        def transition(
            name: str,
            depth: int,
            units: int = config.units,
            first_block: int = 1,
            after_attention: bool = False,
        ) -> DeepTransitionCell:
            blocks = [
                NematusGRUCell(
                    units,
                    reads_input=k == 0,
                    bias_on_state=after_attention,
                    update_offset=config.transition_offset if k else 0.0,
                    dropout_rate=training.candidate_dropout_rate,
                    initializer=matrices,
                    name=f"gru_{first_block + k}",
                    **norms,
                )
                for k in range(depth)
            ]
            return DeepTransitionCell(blocks, name=name)

        def embedding(name: str, size: int, tied_to: TokenEmbedding | None = None) -> Any:
            return TokenEmbedding(
                size,
                config.embedding_dim,
                dropout_rate=training.embedding_dropout_rate,
                word_dropout_rate=training.word_dropout_rate,
                use_positional_signal=False,
                use_bias=False,
                initializer=plain,
                tied_to=tied_to,
                name=name,
            )

        def stack(name: str) -> list[DeepTransitionCell]:
            levels = range(1, config.encoder_depth + 1)
            return [transition(f"{name}_{k}", config.encoder_transition) for k in levels]

        target = embedding("target_embedding", target_vocab_size)
        tied_source = target if config.tied_embeddings == "all" else None
        first_above = config.encoder_depth + 1
        encoder = StackedEncoder(
            stack("forward"),
            stack("backward"),
            [
                transition(f"above_{k}", config.encoder_transition, 2 * config.units)
                for k in range(first_above, first_above + config.encoder_above)
            ],
            name="encoder",
        )

        def conditional(name: str, depth: int, attends: bool) -> DecoderLevel:
            attention = AdditiveAttention(
                encoder.output_size, initializer=matrices, name="attention", **norms
            )
            return DecoderLevel(
                transition(f"{name}_query", 1),
                attention if attends else None,
                transition(name, depth - 1, first_block=2, after_attention=True),
                name=name,
            )

        def high(k: int) -> DecoderLevel:
            name = f"level_{k}"
            if config.high_cell in ("gru", "rgru"):
                return DecoderLevel(transition(name, config.high_transition), name=name)
            return conditional(name, config.high_transition, attends=config.high_cell == "cgru")

        base = conditional("base", config.decoder_transition, attends=True)
        super().__init__(
            name="deep_rnn",
            target_embedding=target,
            source_embedding=embedding("source_embedding", source_vocab_size, tied_source),
            encoder=encoder,
            initial_state=NormedAffine(
                config.units, use_tanh=True, initializer=matrices, name="initial_state", **norms
            ),
            cell=StackedDecoderCell(
                [base, *(high(k) for k in range(2, config.decoder_depth + 1))],
                encoder.output_size,
                reads_context=config.high_cell == "rgru",
                name="decoder",
            ),
            readout=DeepReadout(
                (config.embedding_dim, config.units, encoder.output_size),
                target_vocab_size,
                depth=config.output_depth,
                dropout_rate=training.output_dropout_rate,
                first_initializer=plain,
                initializer=matrices,
                tied_to=None if config.tied_embeddings == "none" else target,
                name="readout",
                **norms,
            ),
        )


def _presets() -> dict[str, ModelConfig]:
    """The systems of Miceli Barone et al.'s Tables 1 to 4, by what the tables call them."""
    alternating, bidirectional = {"encoder_depth": 4}, {"encoder_above": 3}

    def stacked(cell: str, depth: int = 4, blocks: int = 1) -> dict[str, Any]:
        blocks = max(blocks, 2) if cell in ("cgru", "crgru") else blocks
        return {"decoder_depth": depth, "high_cell": cell, "high_transition": blocks}

    def bideep(depth: int) -> dict[str, Any]:
        encoder = {"encoder_depth": depth, "encoder_transition": 2}
        return {**encoder, "decoder_transition": 4, **stacked("rgru", depth, 2)}

    plain: dict[str, Any] = {"use_layer_norm": False}
    settings: dict[str, dict[str, Any]] = {
        "baseline": {},
        "baseline_no_norm": plain,
        "alternating4": alternating,
        "alternating4_no_norm": alternating | plain,
        "biunidirectional4": bidirectional,
        "encoder_transition4": {"encoder_transition": 4},
        "decoder_gru4": stacked("gru"),
        "decoder_rgru4": stacked("rgru"),
        "decoder_cgru4": stacked("cgru"),
        "decoder_crgru4": stacked("crgru"),
        "decoder_transition8": {"decoder_transition": 8},
        "deep_output4": {"output_depth": 4},
        "alternating4_gru4": alternating | stacked("gru"),
        "biunidirectional4_rgru4": bidirectional | stacked("rgru"),
        "alternating4_rgru4": alternating | stacked("rgru"),
        "alternating4_cgru4": alternating | stacked("cgru"),
        "transition4_8": {"encoder_transition": 4, "decoder_transition": 8},
        "bideep2x2": bideep(2),
        "bideep4x2": bideep(4),
        "alternating8_rgru8": {"encoder_depth": 8} | stacked("rgru", 8),
    }
    return {f"rnn_{name}": DeepRNNConfig(**values) for name, values in settings.items()}


PRESETS = _presets()
