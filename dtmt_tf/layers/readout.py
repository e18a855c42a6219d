"""Output network: from the decoder's state to scores over the vocabulary."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.layers.affine import Affine
from dtmt_tf.layers.embedding import TokenEmbedding


class Readout(keras.layers.Layer):
    """`o_t = dropout(tanh(W [y_{t-1} ; s_t ; c_t] + b))`, then `logits = W_o o_t + b_o`.

    The paper leaves `f` of Eq. (1) open; this is the authors' released code, which ties nothing.

    Args:
        units: Width of `o_t`, H.
        vocab_size: Target vocabulary, V.
        dropout_rate: Fraction of `o_t` dropped in training ("the layer before prediction").
        initializer: Initialiser of every weight.
        tied_to: An embedding whose table serves as `W_o`; none by default.

    Call arguments:
        features: `[y ; s ; c]`, embedding of the previous token, state and context, `[..., F]`.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout mask.

    Returns:
        Logits, `[..., V]`.
    """

    def __init__(
        self,
        units: int,
        vocab_size: int,
        *,
        dropout_rate: float = 0.0,
        initializer: Any,
        tied_to: TokenEmbedding | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dropout_rate = dropout_rate
        self.hidden = Affine(units, initializer=initializer, name="hidden")
        self.logits = Affine(vocab_size, initializer=initializer, tied_to=tied_to, name="logits")

    def build(self, features_shape: Any) -> None:
        """Builds both affine maps."""
        self.hidden.build(features_shape)
        self.logits.build((None, self.hidden.units))

    def modules(self) -> dict[str, list[Any]]:
        """Layers by the module they belong to, for parameter counts."""
        return {"readout": [self.hidden], "softmax": [self.logits]}

    def call(self, features: Any, training: bool = False, seeds: Any = None) -> Any:
        """Mixes, drops, scores."""
        mixed = ops.tanh(self.hidden(features))
        if training and self.dropout_rate:
            mixed = keras.random.dropout(mixed, self.dropout_rate, seed=seeds)
        return self.logits(mixed)
