"""The frame of every recurrent model: an encoder, a decoder cell run over time, a readout."""

from __future__ import annotations

import math
from typing import Any

from keras import ops

from dtmt_tf.config import PAD_ID
from dtmt_tf.layers import (
    AbstractDecoderCell,
    Seen,
    TokenEmbedding,
    TransitionRNN,
    masked_mean,
    watching,
)
from dtmt_tf.models.translation_model import Multiplications, TranslationModel, elements

ATTENTION = "attention"  # how the names of weights end in what a cell tells


class RecurrentModel(TranslationModel):
    """Encoder, decoder cell and readout joined into what training and search ask for.

        A = encoder(x),   s_0 = start(mean of A),   o_t = cell(y_{t-1}, s_{t-1}, A)
        logits = readout([y_{t-1} ; o_t])

    The token before the first is the zero vector. A model is made of:

    Args:
        name: First component of every weight's path.
        target_embedding: Embedding of target tokens, E.
        source_embedding: Embedding of source tokens.
        encoder: `encoder(embedded [B, S, E], mask [B, S], training, seeds)` gives the annotations
            `[B, S, A]`, zero where padding is. It tells `output_size`, A, and its `depths`.
        initial_state: From the mean of a sentence's annotations `[B, A]` to `[B, H]`.
        cell: One decode step; it says which of its states follow hypotheses.
        readout: From `[y_{t-1} ; o_t]` to logits. It tells its `modules`, "softmax" the last.
    """

    def __init__(
        self,
        *,
        name: str,
        target_embedding: TokenEmbedding,
        source_embedding: TokenEmbedding,
        encoder: Any,
        initial_state: Any,
        cell: AbstractDecoderCell,
        readout: Any,
    ) -> None:
        super().__init__(name=name)
        # in this order initial weights are drawn and the optimiser keeps its moments
        self.target_embedding = target_embedding
        self.source_embedding = source_embedding
        self.encoder = encoder
        self.initial_state = initial_state
        self.cell = cell
        self.decoder = TransitionRNN(cell, return_sequences=True, name="decoder")
        self.readout = readout

    def build(self, *_: Any) -> None:
        """Makes all weights."""
        self.target_embedding.build()
        self.source_embedding.build()
        self.encoder.build((None, None, self.source_embedding.dim))
        self.initial_state.build((None, self.encoder.output_size))
        self.decoder.build((None, None, self.target_embedding.dim))
        self.readout.build((None, self.target_embedding.dim + self.cell.output_size))

    def annotate(
        self, source_ids: Any, training: bool = False, seeds: Any = None
    ) -> tuple[Any, Any]:
        """Returns annotations of the sources `[B, S, A]`, zero where padding is, and the mask."""
        mask = ops.not_equal(source_ids, PAD_ID)
        positions = ops.arange(ops.shape(source_ids)[1])
        embedded = self.source_embedding(source_ids, positions, training=training, seeds=seeds)
        return self.encoder(embedded, mask, training=training, seeds=seeds), mask

    def encodings(self, source_ids: Any) -> list[tuple[Any, Any]]:
        """See the base class."""
        return [self.annotate(source_ids)]

    def start(self, annotations: Any, mask: Any) -> tuple[list[Any], list[Any]]:
        """Returns the decoder's first states, `[B, H]` each, and its memory of the sources."""
        first = self.initial_state(masked_mean(annotations, mask))
        return [first for _ in self.cell.hidden_sizes], self.cell.precompute(annotations, mask)

    def shifted_embeddings(self, target_ids: Any, training: bool = False, seeds: Any = None) -> Any:
        """Embeddings of the previous tokens: each at its own position, then moved right by one.

        The first token has no predecessor and gets the zero vector: no <bos>, bias or signal.
        """
        positions = ops.arange(ops.shape(target_ids)[1])
        embedded = self.target_embedding(target_ids, positions, training=training, seeds=seeds)
        return ops.concatenate([ops.zeros_like(embedded[:, :1]), embedded[:, :-1]], axis=1)

    def features(
        self, source_ids: Any, target_ids: Any, training: bool = False, seeds: Any = None
    ) -> Any:
        """See the base class: `[y_{t-1} ; o_t]`, `[B, T, E + O]`."""
        first, memory = self.start(*self.annotate(source_ids, training, seeds))
        embedded = self.shifted_embeddings(target_ids, training, seeds)
        outputs = self.decoder(
            embedded, initial_state=[*first, *memory], training=training, seeds=seeds
        )
        return ops.concatenate([embedded, outputs], axis=-1)

    def encode(self, source_ids: Any) -> tuple[Any, Any]:
        """See the base class."""
        first, memory = self.start(*self.annotate(source_ids))
        position = ops.zeros_like(source_ids[:, :1])  # of the token to be predicted
        return {"states": [state[:, None] for state in first], "position": position}, memory

    def decode_step(self, ids: Any, state: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        """See the base class."""
        hidden, memory = state
        position = hidden["position"]
        now = position[:1, :1]  # that of all hypotheses
        embedded = self.target_embedding(ids, now - 1)
        embedded = ops.where(ops.expand_dims(now > 0, -1), embedded, 0.0)
        beams = ids.shape[1] or ops.shape(ids)[1]

        def rows(tensor: Any) -> Any:  # [B, K, F] -> [B * K, F]
            return ops.reshape(tensor, (-1, tensor.shape[-1]))

        def hypotheses(tensor: Any) -> Any:  # [B * K, F] -> [B, K, F]
            return ops.reshape(tensor, (-1, beams, tensor.shape[-1] or ops.shape(tensor)[-1]))

        states = [rows(tensor) for tensor in hidden["states"]]
        outputs, states = self.cell(rows(embedded), [*states, *memory])
        logits = self.readout(ops.concatenate([rows(embedded), outputs], axis=-1))
        after = [hypotheses(tensor) for tensor in states[: len(self.cell.hidden_sizes)]]
        return hypotheses(logits), ({"states": after, "position": position + 1}, memory)

    def inspect(self, source_ids: Any, target_ids: Any) -> tuple[dict[str, Any], Any]:
        """See the base class; the weights are the mean over all attentions and their heads."""
        with watching() as seen:
            self.features(source_ids, target_ids)
        target_mask = ops.not_equal(target_ids, PAD_ID)
        gates: dict[str, Any] = {}
        for each in seen:
            prefix = "" if each.layer is self.decoder else f"{each.layer.name}/"
            gates |= mean_gates(each, target_mask, prefix)
        return gates, _mean_attention(seen)

    def attention(self, source_ids: Any, target_ids: Any) -> Any:
        """See the base class; only the decoder is watched."""
        with watching(self.decoder) as seen:
            self.features(source_ids, target_ids)
        return _mean_attention(seen)

    def depths(self) -> dict[str, list[Any]]:
        """See the base class."""
        return {**self.encoder.depths(), **self.cell.depths()}

    def largest_tensors(self, sentences: int, length: int) -> dict[str, int]:
        """See the base class."""
        widths = sum(attention.units for attention in self.cell.attentions)
        return {
            "logits, gradient": 2 * sentences * length * self.readout.logits.units,
            "attention, all steps": sentences * length**2 * widths,
        }

    def modules(self) -> dict[str, list[Any]]:
        """See the base class."""
        return {
            "source embedding": [self.source_embedding],
            "target embedding": [self.target_embedding],
            "encoder": [self.encoder],
            "initial state": [self.initial_state],
            **self.cell.modules(),
            **self.readout.modules(),
        }

    def multiplications(self) -> Multiplications:
        """See the base class; a softmax with a table of another's costs what its own would."""
        *inner, softmax = self.readout.modules().values()
        keys = sum(math.prod(each.key_kernel.shape) for each in self.cell.attentions)
        return Multiplications(
            sentence=elements([self.initial_state]),
            source=elements([self.encoder]) + keys,
            target=elements([self.cell, *(layer for layers in inner for layer in layers)])
            - keys
            + sum(layer.input_dim * layer.units for layer in softmax),
            pair=sum(sum(each.key_kernel.shape) for each in self.cell.attentions),
        )


def _mean_attention(seen: list[Seen]) -> Any:
    """Returns the mean over all attentions and their heads, `[B, T, S]`."""
    weights = [value for each in seen for name, value in each.inner.items()
               if name.endswith(ATTENTION)]  # fmt: skip
    return ops.mean(ops.stack(weights), axis=0)


def mean_gates(seen: Seen, mask: Any, prefix: str) -> dict[str, Any]:
    """Returns the mean of each gate over the steps that count.

    Args:
        seen: What a layer computed.
        mask: Bool `[B, T]`, which steps count where the layer has no mask; None: all.
        prefix: What the gates' names begin with.
    """
    mask = mask if seen.mask is None else seen.mask

    def mean(values: Any) -> Any:
        values = ops.cast(values, "float32")
        if mask is None:
            return ops.mean(values)
        weights = ops.cast(mask, "float32")[..., None]
        return ops.sum(values * weights) / (ops.sum(weights) * values.shape[-1])

    gates = {name: gate for name, gate in seen.inner.items() if not name.endswith(ATTENTION)}
    return {prefix + name: mean(gate) for name, gate in gates.items()}
