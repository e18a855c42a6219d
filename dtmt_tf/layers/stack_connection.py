"""What a layer of a recurrent stack passes on besides its state."""

from __future__ import annotations

from typing import Any

import keras

from dtmt_tf.cells import product

CONNECTIONS = ("none", "residual", "fast_forward")


class StackConnection(keras.layers.Layer):
    """From a layer's input x and its state h to the input of the layer above.

        none          h
        residual      h + x        (He et al., 2016; Wu et al., 2016)
        fast_forward  h + W x      (after Zhou et al., 2016, by Wang et al., 2017: "a parametric
                                   ResNet", "a linear sum")

    Args:
        kind: Which.
        initializer: Initialiser of W.

    Call arguments:
        x: `[..., H]`.
        h: `[..., H]`.

    Returns:
        `[..., H]`.

    Raises:
        ValueError: If there is no such kind.
    """

    def __init__(self, kind: str, *, initializer: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if kind not in CONNECTIONS:
            raise ValueError(f"`kind` should be one of {CONNECTIONS}. Received: {kind!r}.")
        self.supports_masking = True  # what is zero where padding is stays so
        self.kind = kind
        self.initializer = initializer

    def build(self, x_shape: Any) -> None:
        """Creates W `[H, H]`, if there is one."""
        if self.kind == "fast_forward":
            shape = (x_shape[-1], x_shape[-1])
            self.kernel = self.add_weight(name="kernel", shape=shape, initializer=self.initializer)

    def call(self, x: Any, h: Any) -> Any:
        """Adds."""
        if self.kind == "none":
            return h
        return h + (x if self.kind == "residual" else product(x, self.kernel))
