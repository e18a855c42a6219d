"""DeepLAU, and DeepGRU beside it: stacks of recurrent layers on both sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras

from dtmt_tf.cells import GatedCell, GRUCell, LAUCell, LGRUCell
from dtmt_tf.config import ModelConfig, TrainingConfig
from dtmt_tf.layers import (
    AdditiveAttention,
    ByShape,
    DeepDecoderCell,
    DeepEncoder,
    NormedAffine,
    SeedSeries,
    StackConnection,
    StateReadout,
    TokenEmbedding,
)
from dtmt_tf.layers.stack_connection import CONNECTIONS
from dtmt_tf.models.recurrent_model import RecurrentModel
from dtmt_tf.settings import setting

CELLS: dict[str, tuple[type[GatedCell], dict[str, Any]]] = {
    "gru": (GRUCell, {"reset_after": False}),
    "lau": (LAUCell, {}),
    "lgru": (LGRUCell, {}),
}


@dataclass(frozen=True)
class DeepLAUConfig(ModelConfig):
    """Settings of DeepLAU and DeepGRU; the defaults are Wang et al.'s DeepLAU."""

    embedding_dim: int = setting(512, "width of embeddings", at_least=1, at_most=65_536)
    units: int = setting(512, "width of states and context", at_least=1, at_most=65_536)
    cell: str = setting("lau", "cell of all layers", choices=sorted(CELLS))
    encoder_depth: int = setting(4, "layers of the encoder", at_least=1, at_most=1000)
    decoder_depth: int = setting(4, "layers of the decoder", at_least=1, at_most=1000)
    connection: str = setting(
        "none", "what layers above the first add to their state: x or W x", choices=CONNECTIONS
    )
    gate_offset: float = setting(
        0.0, "constant in update gates, and a LAU's input gate; + lets more in"
    )
    initializer_stddev: float = setting(
        0.04, "deviation of the normal first weights; 0.08 suits 256 units", above=0, at_most=100
    )

    @property
    def unread(self) -> dict[str, str]:
        """Settings that change nothing beside the others, each with the reason."""
        is_deep = max(self.encoder_depth, self.decoder_depth) > 1
        return {} if is_deep else {"connection": "no layer stands above another"}

    def build(
        self, source_vocab_size: int, target_vocab_size: int, training: TrainingConfig
    ) -> DeepLAU:
        """Returns the model with its weights made; dropout rates and seed are `training`'s."""
        model = DeepLAU(self, source_vocab_size, target_vocab_size, training)
        model.build()
        return model


class DeepLAU(RecurrentModel):
    """Wang et al. (2017), "Deep Neural Machine Translation with Linear Associative Unit".

    arXiv:1705.00861. Cells and softmax have neither norms nor biases, as printed, unless
    `gate_offset` shifts update gates, and input gates of LAUs. Not printed is what the decoder
    starts from: all its layers start from tanh(W mean + b) of the annotations, as in the program
    that their attention is taken from (dl4mt-tutorial, session 2).

    With `cell=lgru` the layers are DTMT's L-GRUs, which its authors propose for "the stacked RNMT",
    too (*Introduction*), without norms and biases like the other cells.

    Args:
        config: Sizes and switches.
        source_vocab_size: Source vocabulary, V_s.
        target_vocab_size: Target vocabulary, V_t.
        training: Gives the dropout rates and the initialisers' seed.
    """

    def __init__(
        self,
        config: DeepLAUConfig,
        source_vocab_size: int,
        target_vocab_size: int,
        training: TrainingConfig,
    ) -> None:
        self.config = config
        units, width = config.units, config.embedding_dim
        initializer = ByShape(
            keras.initializers.RandomNormal(
                stddev=config.initializer_stddev, seed=SeedSeries(training.seed)
            )
        )

        def embedding(name: str, size: int) -> TokenEmbedding:
            return TokenEmbedding(
                size,
                width,
                dropout_rate=training.embedding_dropout_rate,
                word_dropout_rate=training.word_dropout_rate,
                use_positional_signal=False,
                use_bias=False,
                initializer=initializer,
                name=name,
            )

        def cells(name: str, depth: int) -> list[GatedCell]:
            kind, options = CELLS[config.cell]
            return [
                kind(
                    units,
                    use_layer_norm=False,
                    use_bias=False,
                    update_offset=config.gate_offset,
                    dropout_rate=training.candidate_dropout_rate,
                    initializer=initializer,
                    name=f"{name}_{k}",
                    **options,
                )
                for k in range(1, depth + 1)
            ]

        def connections(depth: int) -> list[StackConnection]:
            return [
                StackConnection(config.connection, initializer=initializer, name=f"above_{k}")
                for k in range(1, depth)
            ]

        super().__init__(
            name="deep_lau",
            target_embedding=embedding("target_embedding", target_vocab_size),
            source_embedding=embedding("source_embedding", source_vocab_size),
            encoder=DeepEncoder(
                cells("encoder", config.encoder_depth),
                connections(config.encoder_depth),
                name="encoder",
            ),
            initial_state=NormedAffine(
                units,
                use_tanh=True,
                use_layer_norm=False,
                initializer=initializer,
                name="initial_state",
            ),
            cell=DeepDecoderCell(
                cells("decoder", config.decoder_depth),
                AdditiveAttention(
                    units,
                    use_layer_norm=False,
                    use_bias=False,
                    initializer=initializer,
                    name="attention",
                ),
                connections(config.decoder_depth),
                width,
                name="decoder",
            ),
            readout=StateReadout(
                units,
                target_vocab_size,
                dropout_rate=training.output_dropout_rate,
                initializer=initializer,
                name="readout",
            ),
        )


def _presets() -> dict[str, ModelConfig]:
    """The systems of Wang et al.'s Table 4, by their numbers of layers."""
    rows: dict[str, dict[str, Any]] = {
        "gru_2_1": {},
        "gru_2_2_wide": {"units": 1024},
        "gru_2_2": {},
        "gru_4_4": {},
        "gru_4_4_resnet": {"connection": "residual"},
        "gru_4_4_ff": {"connection": "fast_forward"},
        "lau_2_2": {},
        "lau_4_4": {},
        "lau_8_6": {},
        "lau_8_6_narrow": {"units": 256},
    }

    def system(name: str) -> ModelConfig:
        cell, encoder, decoder = name.split("_")[:3]
        depths: dict[str, Any] = {"encoder_depth": int(encoder), "decoder_depth": int(decoder)}
        return DeepLAUConfig(cell=cell, **depths, **rows[name])

    return {f"deep_{name}": system(name) for name in rows}


PRESETS = _presets()
