"""Output network: from the decoder's state alone to scores over the vocabulary."""

from __future__ import annotations

from typing import Any

import keras

from dtmt_tf.layers.affine import Affine
from dtmt_tf.layers.embedding import TokenEmbedding


class StateReadout(keras.layers.Layer):
    """`logits = W_o dropout(s_t)` (Wang et al., 2017, Eq. (12); Vaswani et al., 2017, 3.4).

    Args:
        state_dim: Width of the state, H.
        vocab_size: Target vocabulary, V.
        dropout_rate: Fraction of `s_t` dropped in training ("on the output layer").
        initializer: Initialiser of `W_o`.
        tied_to: An embedding whose table serves as `W_o`; none by default.

    Call arguments:
        features: They end in the state, `[..., F]`; what stands before it, such as the previous
            token, is not read.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout mask.

    Returns:
        Logits, `[..., V]`.
    """

    def __init__(
        self,
        state_dim: int,
        vocab_size: int,
        *,
        dropout_rate: float,
        initializer: Any,
        tied_to: TokenEmbedding | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.state_dim = state_dim
        self.dropout_rate = dropout_rate
        self.logits = Affine(
            vocab_size, initializer=initializer, use_bias=False, tied_to=tied_to, name="logits"
        )

    def build(self, features_shape: Any) -> None:
        """Builds the kernel."""
        self.logits.build((None, self.state_dim))

    def modules(self) -> dict[str, list[Any]]:
        """Layers by the module they belong to, for parameter counts."""
        return {"softmax": [self.logits]}

    def call(self, features: Any, training: bool = False, seeds: Any = None) -> Any:
        """Drops, scores."""
        state = features[..., -self.state_dim :]
        if training and self.dropout_rate:
            state = keras.random.dropout(state, self.dropout_rate, seed=seeds)
        return self.logits(state)
