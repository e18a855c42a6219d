"""Output network of embedding width, with layer norms and perhaps several layers."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.cells import cut
from dtmt_tf.layers.affine import Affine
from dtmt_tf.layers.embedding import TokenEmbedding
from dtmt_tf.layers.normed_affine import NormedAffine


class DeepReadout(keras.layers.Layer):
    """From the previous token, the state and the context to logits.

    As in Nematus; of it Miceli Barone et al. (2017) say, at the end of Section 2.2.2, that it can
    have more layers ("deep output").

        h = tanh(LN(y W_y + b_y) + LN(r W_r + b_r) + LN(c W_c + b_c))
        h <- h + tanh(LN(h W + b))   for each further layer
        logits = dropout(h) W_o + b_o

    Args:
        widths: Of token, state and context, in the order of the features. h is as wide as a token,
            so the softmax can be tied to the table of the tokens.
        vocab_size: Target vocabulary, V.
        depth: Layers before the softmax; 1 is the first line alone.
        use_layer_norm: Whether there are norms.
        dropout_rate: Fraction of h dropped in training; theirs is 0.
        first_initializer: Initialiser of the first line's weights, and of the softmax's.
        initializer: Initialiser of the further layers' weights.
        tied_to: An embedding whose table serves as `W_o`'s transpose; none by default.

    Call arguments:
        features: `[y ; r ; c]`, `[..., F]`.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout mask.

    Returns:
        Logits, `[..., V]`.
    """

    def __init__(
        self,
        widths: tuple[int, int, int],
        vocab_size: int,
        *,
        depth: int,
        use_layer_norm: bool,
        dropout_rate: float,
        first_initializer: Any,
        initializer: Any,
        tied_to: TokenEmbedding | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.widths = widths
        self.dropout_rate = dropout_rate
        self.first = [
            NormedAffine(
                widths[0],
                use_tanh=False,
                use_layer_norm=use_layer_norm,
                initializer=first_initializer,
                name=name,
            )
            for name in ("word", "state", "context")
        ]
        self.further = [
            NormedAffine(
                widths[0],
                use_tanh=True,
                use_layer_norm=use_layer_norm,
                initializer=initializer,
                name=f"layer_{k}",
            )
            for k in range(2, depth + 1)
        ]
        self.logits = Affine(
            vocab_size,
            initializer=first_initializer,
            tied_to=tied_to,
            name="logits",
        )

    def build(self, features_shape: Any) -> None:
        """Builds all layers."""
        units = self.first[0].affine.units
        for first, width in zip(self.first, self.widths, strict=True):
            first.build((None, width))
        for further in self.further:
            further.build((None, units))
        self.logits.build((None, units))

    def modules(self) -> dict[str, list[Any]]:
        """Layers by the module they belong to, for parameter counts."""
        return {"readout": [*self.first, *self.further], "softmax": [self.logits]}

    def call(self, features: Any, training: bool = False, seeds: Any = None) -> Any:
        """Mixes, refines, drops, scores."""
        parts = cut(features, self.widths)
        y, r, c = (layer(part) for layer, part in zip(self.first, parts, strict=True))
        h = ops.tanh(y + r + c)
        for layer in self.further:
            h = h + layer(h)
        if training and self.dropout_rate:
            h = keras.random.dropout(h, self.dropout_rate, seed=seeds)
        return self.logits(h)
