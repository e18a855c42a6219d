"""DTMT: a bidirectional deep-transition encoder and a deep-transition decoder with attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras

from dtmt_tf.cells import DeepTransitionCell, GatedCell, GRUCell, LAUCell, LGRUCell, TGRUCell
from dtmt_tf.config import ModelConfig, TrainingConfig
from dtmt_tf.layers import (
    BidirectionalEncoder,
    MultiHeadAdditiveAttention,
    Readout,
    SeedSeries,
    TokenEmbedding,
    TransitionDecoderCell,
)
from dtmt_tf.models.recurrent_model import RecurrentModel
from dtmt_tf.models.translation_model import tying
from dtmt_tf.settings import require, setting

CELLS: dict[str, type[GatedCell]] = {"gru": GRUCell, "lau": LAUCell, "lgru": LGRUCell}


def _depth(default: int, meaning: str) -> Any:
    """Returns the field of a number of T-GRUs."""
    return setting(default, meaning, at_least=0, at_most=1000)


@dataclass(frozen=True)
class DTMTConfig(ModelConfig):
    """Settings of DTMT; the defaults are DTMT#4 of the paper."""

    embedding_dim: int = setting(1024, "width of embeddings", at_least=1, at_most=65_536)
    units: int = setting(1024, "width of every cell's state", at_least=1, at_most=65_536)
    num_heads: int = setting(16, "heads of the attention; they divide units", at_least=1)
    context_dim: int | None = setting(
        None, "width of the attention's result; none: 2 * units", at_least=1, at_most=65_536
    )
    encoder_cell: str = setting("lgru", "first cell of the encoder", choices=sorted(CELLS))
    query_cell: str = setting("lgru", "first cell before the attention", choices=sorted(CELLS))
    decoder_cell: str = setting("lgru", "first cell after the attention", choices=sorted(CELLS))
    encoder_depth: int = _depth(4, "T-GRUs after the encoder's first cell; 0: shallow")
    query_depth: int = _depth(4, "T-GRUs after the query transition's first cell")
    decoder_depth: int = _depth(4, "T-GRUs after the decoder transition's first cell")
    tied_embeddings: str = tying("none")
    update_offset: float = setting(0.0, "first offsets of update gates, and of a LAU's input gate")
    transition_offset: float = setting(
        0.0, "added to update_offset in T-GRUs; below 0: little change at first"
    )
    transition_offset_step: float = setting(0.0, "further offset for each T-GRU before")
    transition_scale: float = setting(
        0.0, "above 0: start of a learnt factor of each T-GRU's step", at_least=0, at_most=10
    )
    embedding_scale: float = setting(
        1.0, "factor of table row and positional signal", above=0, below=1000
    )
    use_positional_signal: bool = setting(True, "add sines of the position to embeddings")
    use_layer_norm: bool = setting(True, "layer norm inside the cells")
    use_gru_candidate_bias: bool = setting(
        False, "a bias in the GRU's candidate; the paper's counts say no"
    )
    initializer_range: float = setting(
        0.08, "weights start uniform within it; not norms, factors, offsets", above=0, below=10
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.units % self.num_heads == 0,
            "`model.units` should be divisible by `model.num_heads`. "
            f"Received: {self.units} and {self.num_heads}.",
        )
        require(
            self.tied_embeddings == "none" or self.embedding_dim == self.units,
            "Tied embeddings need `model.embedding_dim` equal to `model.units`. "
            f"Received: {self.embedding_dim} and {self.units}.",
        )

    @property
    def unread(self) -> dict[str, str]:
        """Settings that change nothing beside the others, each with the reason."""
        found = {}
        if "gru" not in (self.encoder_cell, self.query_cell, self.decoder_cell):
            found["use_gru_candidate_bias"] = "no first cell is a gru"
        deepest = max(self.encoder_depth, self.query_depth, self.decoder_depth)
        if deepest < 2:
            found["transition_offset_step"] = "no transition has two T-GRUs"
        if deepest < 1:
            found |= dict.fromkeys(("transition_offset", "transition_scale"), "there is no T-GRU")
        return found

    def build(
        self, source_vocab_size: int, target_vocab_size: int, training: TrainingConfig
    ) -> DTMT:
        """Returns the model with its weights made; dropout rates and seed are `training`'s."""
        model = DTMT(self, source_vocab_size, target_vocab_size, training)
        model.build()
        return model


class DTMT(RecurrentModel):
    """Meng and Zhang (2019), "DTMT", arXiv:1812.07807v2.

    Three transition modules, each one cell that reads an input and then T-GRUs: the encoder's (one
    in each direction), the query transition before the attention, the decoder transition after it.

    Args:
        config: Sizes and switches.
        source_vocab_size: Source vocabulary, V_s.
        target_vocab_size: Target vocabulary, V_t.
        training: Gives the dropout rates and the initialiser's seed.
    """

    def __init__(
        self,
        config: DTMTConfig,
        source_vocab_size: int,
        target_vocab_size: int,
        training: TrainingConfig,
    ) -> None:
        self.config = config
        limit, seeds = config.initializer_range, SeedSeries(training.seed)
        initializer = keras.initializers.RandomUniform(-limit, limit, seed=seeds)
        tied_softmax, tied_source = (
            config.tied_embeddings != "none",
            config.tied_embeddings == "all",
        )

        def transition(name: str, kind: str, depth: int) -> DeepTransitionCell:
            options: dict[str, Any] = {
                "dropout_rate": training.candidate_dropout_rate,
                "use_layer_norm": config.use_layer_norm,
                "initializer": initializer,
            }
            own = {"use_candidate_bias": config.use_gru_candidate_bias} if kind == "gru" else {}
            first = CELLS[kind](
                config.units, name=kind, update_offset=config.update_offset, **options, **own
            )
            offset, step = config.transition_offset, config.transition_offset_step
            others = [
                TGRUCell(
                    config.units,
                    scale=config.transition_scale,
                    name=f"tgru_{k + 1}",
                    update_offset=config.update_offset + offset + k * step,
                    **options,
                )
                for k in range(depth)
            ]
            return DeepTransitionCell([first, *others], name=name)

        def embedding(name: str, vocab_size: int, **options: Any) -> TokenEmbedding:
            return TokenEmbedding(
                vocab_size,
                config.embedding_dim,
                dropout_rate=training.embedding_dropout_rate,
                word_dropout_rate=training.word_dropout_rate,
                use_positional_signal=config.use_positional_signal,
                scale=config.embedding_scale,
                initializer=initializer,
                name=name,
                **options,
            )

        target = embedding("target_embedding", target_vocab_size)
        encoder = BidirectionalEncoder(
            transition("forward", config.encoder_cell, config.encoder_depth),
            transition("backward", config.encoder_cell, config.encoder_depth),
            name="encoder",
        )
        super().__init__(
            name="dtmt",
            target_embedding=target,
            source_embedding=embedding(
                "source_embedding", source_vocab_size, tied_to=target if tied_source else None
            ),
            encoder=encoder,
            initial_state=keras.layers.Dense(
                config.units,
                activation="tanh",
                kernel_initializer=initializer,
                bias_initializer=initializer,
                name="initial_state",
            ),
            cell=TransitionDecoderCell(
                transition("query", config.query_cell, config.query_depth),
                MultiHeadAdditiveAttention(
                    config.num_heads,
                    config.units,
                    encoder.output_size,
                    config.context_dim or encoder.output_size,
                    initializer=initializer,
                    name="attention",
                ),
                transition("transition", config.decoder_cell, config.decoder_depth),
                name="decoder",
            ),
            readout=Readout(
                config.units,
                target_vocab_size,
                dropout_rate=training.output_dropout_rate,
                initializer=initializer,
                tied_to=target if tied_softmax else None,
                name="readout",
            ),
        )


def _deep(depth: int, **settings: float | str) -> DTMTConfig:
    """DTMT with the same depth in all three modules."""
    depths: dict[str, Any] = {f"{name}_depth": depth for name in ("encoder", "query", "decoder")}
    return DTMTConfig(**depths | settings)


SMALL: dict[str, Any] = {
    "embedding_dim": 256,
    "units": 256,
    "num_heads": 8,
    "initializer_range": 0.1,
    "tied_embeddings": "target",
}
PRESETS: dict[str, ModelConfig] = {
    "shallow_rnmt": _deep(0, encoder_cell="gru", query_cell="gru", decoder_cell="gru"),
    "dtmt1": _deep(1),
    "dtmt2": _deep(2),
    "dtmt3": _deep(3),
    "dtmt4": _deep(4),
    # narrow models need larger weights than the paper's 0.08, which is for 1024 units
    "dtmt_tiny": _deep(1, embedding_dim=128, units=128, num_heads=4, initializer_range=0.15),
    "dtmt_small": _deep(1, **SMALL),
    "dtmt_small4": _deep(4, **SMALL, transition_offset=-3.0),
    "dtmt_tied": _deep(  # one table for all three leaves room for units below 10 M
        1,
        embedding_dim=352,
        units=352,
        context_dim=352,
        num_heads=8,
        initializer_range=0.1,
        tied_embeddings="all",
    ),
}
