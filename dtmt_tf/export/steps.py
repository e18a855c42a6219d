"""The parts of a search as functions of their own, for searches that run in the caller's process.

An exported search can not change. From these parts `dtmt_tf.translator` builds other searches over
any exported model: sampling, and search under constraints. No server offers these functions: they
are no signatures, and have no limits.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from dtmt_tf.export.endpoints import Endpoints, dense

_TEXT = tf.TensorSpec([None], tf.string)
_IDS = tf.TensorSpec([None, None], tf.int32)


class Steps(tf.Module):
    """Functions of tensors; a state is a flat tuple of tensors, whatever the model.

    `read(text [B])` gives source ids `[P, S]` of parts, the number of the text that each is of,
    `[P]`, and what each says, `[P]`; `encode(ids)` the first `(hidden, memory)` of `beam_search`;
    `step(ids [P, K], (hidden, memory))` the logits `[P, K, V]` and the next state;
    `write(ids [N, T])` text `[N]`; `subwords(text [B])` target ids `[B, T]` without <eos>.

    Products are in float32: a step that stands alone has no place to round its weights once.

    Args:
        endpoints: The model and its sub-words.
    """

    def __init__(self, endpoints: Endpoints) -> None:
        super().__init__(name="steps")
        model, target = endpoints.model, endpoints.target
        nests: list[Any] = []  # how the model nests hidden and memory

        def encode(source_ids: tf.Tensor) -> Any:
            with endpoints.stored.read():
                state = model.encode(source_ids)
            nests[:] = state
            return tuple(tuple(tf.nest.flatten(part)) for part in state)

        self.read = tf.function(endpoints.read, input_signature=[_TEXT], autograph=False)
        self.encode = tf.function(encode, input_signature=[_IDS], autograph=False)
        hidden, memory = self.encode.get_concrete_function().structured_outputs

        def step(ids: tf.Tensor, state: Any) -> Any:
            packed = [tf.nest.pack_sequence_as(*pair) for pair in zip(nests, state, strict=True)]
            with endpoints.stored.read():
                logits, (new, _) = model.decode_step(ids, tuple(packed))
            return logits, (tuple(tf.nest.flatten(new)), state[1])

        specs = tuple(map(_hypotheses, hidden)), tuple(map(_sentences, memory))
        self.step = tf.function(step, input_signature=[_IDS, specs], autograph=False)
        self.write = tf.function(target.decode, input_signature=[_IDS], autograph=False)
        self.subwords = tf.function(
            lambda text: dense(target.tokens(target.read(text))), input_signature=[_TEXT]
        )


def _hypotheses(tensor: Any) -> tf.TensorSpec:
    """Returns the spec of a hidden state `[P, K, ...]`; an axis that is empty may grow."""
    return tf.TensorSpec([None, None, *(size or None for size in tensor.shape[2:])], tensor.dtype)


def _sentences(tensor: Any) -> tf.TensorSpec:
    """Returns the spec of a memory `[P, ...]`."""
    return tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)
