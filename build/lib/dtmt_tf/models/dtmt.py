"""DTMT: a bidirectional deep-transition encoder and a deep-transition decoder with attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from dtmt_tf.cells import (
    AbstractRNNCell,
    DeepTransitionCell,
    GRUCell,
    LAUCell,
    LGRUCell,
    TGRUCell,
)
from dtmt_tf.config import PAD_ID, ModelConfig, TrainingConfig
from dtmt_tf.layers import (
    BidirectionalEncoder,
    DecoderCell,
    MultiHeadAdditiveAttention,
    Readout,
    TokenEmbedding,
    TransitionRNN,
    UniformSeries,
)
from dtmt_tf.models.diagnostics import gate_means
from dtmt_tf.models.translation_model import TranslationModel
from dtmt_tf.settings import require, setting

CELLS: dict[str, type[AbstractRNNCell]] = {"gru": GRUCell, "lau": LAUCell, "lgru": LGRUCell}


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
    tied_embeddings: str = setting(
        "none",
        "target: its table is the softmax's; all: the source's, too",
        choices=("none", "target", "all"),
    )
    update_offset: float = setting(0.0, "what the update gates' offsets start from")
    transition_offset: float = setting(
        0.0, "added to it in T-GRUs; below 0 transitions start shallow"
    )
    embedding_scale: float = setting(
        1.0, "factor of table row and positional signal", above=0, below=1000
    )
    use_positional_signal: bool = setting(True, "add sines of the position to embeddings")
    use_layer_norm: bool = setting(True, "layer norm inside the cells")
    use_gru_candidate_bias: bool = setting(False, "the paper's counts say no")
    initializer_range: float = setting(
        0.08, "weights start uniform within it, all but the norms", above=0, below=10
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
    def needs_joint_vocabulary(self) -> bool:
        """See the base class."""
        return self.tied_embeddings == "all"

    def build(
        self, source_vocab_size: int, target_vocab_size: int, training: TrainingConfig
    ) -> DTMT:
        """Returns the model with its weights made; dropout rates and seed are `training`'s."""
        model = DTMT(self, source_vocab_size, target_vocab_size, training)
        model.build()
        return model


class DTMT(TranslationModel):
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
        super().__init__(name="dtmt")
        self.config = config
        self.annotations_dim = 2 * config.units
        initializer = UniformSeries(config.initializer_range, training.seed)

        def transition(name: str, cell: str, depth: int) -> DeepTransitionCell:
            options: dict[str, Any] = {
                "dropout_rate": training.candidate_dropout_rate,
                "use_layer_norm": config.use_layer_norm,
                "update_offset": config.update_offset,
            }
            if cell == "gru":
                first_options = {"use_candidate_bias": config.use_gru_candidate_bias}
            else:
                first_options = {}
            first = CELLS[cell](
                config.units, name=cell, initializer=initializer, **options, **first_options
            )
            options["update_offset"] += config.transition_offset
            others = [
                TGRUCell(config.units, name=f"tgru_{k}", initializer=initializer, **options)
                for k in range(1, depth + 1)
            ]
            return DeepTransitionCell([first, *others], name=name)

        def embedding(
            name: str, vocab_size: int, tied_to: TokenEmbedding | None = None
        ) -> TokenEmbedding:
            return TokenEmbedding(
                vocab_size,
                config.embedding_dim,
                dropout_rate=training.embedding_dropout_rate,
                word_dropout_rate=training.word_dropout_rate,
                use_positional_signal=config.use_positional_signal,
                scale=config.embedding_scale,
                initializer=initializer,
                tied_to=tied_to,
                name=name,
            )

        target = embedding("target_embedding", target_vocab_size)
        self.target_embedding = target
        self.source_embedding = embedding(
            "source_embedding",
            source_vocab_size,
            target if config.tied_embeddings == "all" else None,
        )
        self.encoder = BidirectionalEncoder(
            transition("forward", config.encoder_cell, config.encoder_depth),
            transition("backward", config.encoder_cell, config.encoder_depth),
            name="encoder",
        )
        self.initial_state = keras.layers.Dense(
            config.units,
            activation="tanh",
            kernel_initializer=initializer,
            bias_initializer=initializer,
            name="initial_state",
        )
        attention = MultiHeadAdditiveAttention(
            config.num_heads,
            config.units,
            config.context_dim or self.annotations_dim,
            initializer=initializer,
            name="attention",
        )
        self.cell = DecoderCell(
            transition("query", config.query_cell, config.query_depth),
            attention,
            transition("transition", config.decoder_cell, config.decoder_depth),
            self.annotations_dim,
            name="decoder",
        )
        self.decoder = TransitionRNN(self.cell, return_sequences=True, name="decoder")
        self.readout = Readout(
            config.units,
            target_vocab_size,
            dropout_rate=training.output_dropout_rate,
            initializer=initializer,
            tied_to=None if config.tied_embeddings == "none" else target,
            name="readout",
        )

    def build(self, *_: Any) -> None:
        """Makes all weights."""
        embedded_shape = (None, None, self.config.embedding_dim)
        self.target_embedding.build()
        self.source_embedding.build()
        self.encoder.build(embedded_shape)
        self.initial_state.build((None, self.annotations_dim))
        self.decoder.build(embedded_shape)
        self.readout.build((None, self.config.embedding_dim + self.cell.output_size))

    def annotate(
        self, source_ids: Any, training: bool = False, seeds: Any = None
    ) -> tuple[Any, Any]:
        """Returns annotations of the sources `[B, S, 2H]`, zero where padding is, and the mask."""
        mask = ops.not_equal(source_ids, PAD_ID)
        positions = ops.arange(ops.shape(source_ids)[1])
        embedded = self.source_embedding(source_ids, positions, training=training, seeds=seeds)
        return self.encoder(embedded, mask, training=training, seeds=seeds), mask

    def start(self, annotations: Any, mask: Any) -> tuple[Any, Any]:
        """Returns the decoder's first state `[B, H]` and the attention's memory of the sources."""
        lengths = ops.sum(ops.cast(mask, annotations.dtype), axis=1, keepdims=True)
        mean = ops.sum(annotations, axis=1) / ops.maximum(lengths, 1.0)
        return self.initial_state(mean), self.cell.attention.precompute(annotations, mask)

    def shifted_embeddings(self, target_ids: Any, training: bool = False, seeds: Any = None) -> Any:
        """Embeddings of the previous words: each at its own position, then moved right by one.

        The first word has no predecessor and gets the zero vector: no <bos>, bias or signal.
        """
        positions = ops.arange(ops.shape(target_ids)[1])
        embedded = self.target_embedding(target_ids, positions, training=training, seeds=seeds)
        return ops.concatenate([ops.zeros_like(embedded[:, :1]), embedded[:, :-1]], axis=1)

    def features(
        self, source_ids: Any, target_ids: Any, training: bool = False, seeds: Any = None
    ) -> Any:
        """See the base class: `[y_{t-1} ; s_t ; c_t]`, `[B, T, E + H + C]`."""
        state, memory = self.start(*self.annotate(source_ids, training, seeds))
        embedded = self.shifted_embeddings(target_ids, training, seeds)
        outputs = self.decoder(
            embedded, initial_state=[state, *memory], training=training, seeds=seeds
        )
        return ops.concatenate([embedded, outputs], axis=-1)

    def encode(self, source_ids: Any) -> tuple[Any, Any]:
        """See the base class."""
        state, memory = self.start(*self.annotate(source_ids))
        position = ops.zeros_like(source_ids[:, :1])  # of the word to be predicted
        return {"state": state[:, None], "position": position}, memory

    def decode_step(self, ids: Any, state: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        """See the base class."""
        hidden, memory = state
        position = hidden["position"]
        embedded = self.target_embedding(ids, position - 1)
        embedded = ops.where((position > 0)[..., None], embedded, 0.0)
        batch, beams = ops.shape(ids)

        def rows(tensor: Any) -> Any:  # [B, K, F] -> [B * K, F]
            return ops.reshape(tensor, (-1, tensor.shape[-1]))

        outputs, (new_state, *_) = self.cell(rows(embedded), [rows(hidden["state"]), *memory])
        logits = self.readout(ops.concatenate([rows(embedded), outputs], axis=-1))
        logits = ops.reshape(logits, (batch, beams, logits.shape[-1]))
        new_state = ops.reshape(new_state, (batch, beams, self.config.units))
        return logits, ({"state": new_state, "position": position + 1}, memory)

    def inspect(self, source_ids: Any, target_ids: Any) -> tuple[dict[str, Any], Any]:
        """See the base class."""
        annotations, mask = self.annotate(source_ids)
        forward, backward = ops.split(annotations, 2, axis=-1)
        first, memory = self.start(annotations, mask)
        target_mask = ops.not_equal(target_ids, PAD_ID)
        shifted = self.shifted_embeddings(target_ids)
        outputs = self.decoder(shifted, initial_state=[first, *memory])
        states, context = ops.split(outputs, [self.config.units], axis=-1)
        positions = ops.arange(ops.shape(source_ids)[1])
        embedded = self.source_embedding(source_ids, positions)
        nothing = ops.zeros_like(forward[:, :1])
        before = {
            "forward": ops.concatenate([nothing, forward[:, :-1]], axis=1),
            "backward": ops.concatenate([backward[:, 1:], nothing], axis=1),
            "query": ops.concatenate([first[:, None], states[:, :-1]], axis=1),
        }
        gates: dict[str, Any] = {}

        def look(name: str, module: Any, inputs: Any, previous: Any, real: Any) -> Any:
            means, after = gate_means(module, inputs, previous, real)
            gates.update({f"{name}/{gate}": mean for gate, mean in means.items()})
            return after

        look("forward", self.encoder.forward.transition, embedded, before["forward"], mask)
        look("backward", self.encoder.backward.transition, embedded, before["backward"], mask)
        query = look("query", self.cell.query, shifted, before["query"], target_mask)
        look("transition", self.cell.transition, context, query, target_mask)
        _, weights = self.cell.attention(query, memory)
        return gates, ops.mean(weights, axis=1)

    def largest_tensors(self, sentences: int, length: int) -> dict[str, int]:
        """See the base class."""
        return {
            "logits, gradient": 2 * sentences * length * self.readout.logits.units,
            "attention, all steps": sentences * length**2 * self.config.units,
        }

    def modules(self) -> dict[str, list[Any]]:
        """See the base class."""
        return {
            "source embedding": [self.source_embedding],
            "target embedding": [self.target_embedding],
            "encoder": [self.encoder],
            "initial state": [self.initial_state],
            "query transition": [self.cell.query],
            "attention": [self.cell.attention],
            "decoder transition": [self.cell.transition],
            "readout": [self.readout.hidden],
            "softmax": [self.readout.logits],
        }
