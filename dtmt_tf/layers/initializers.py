"""Initial weights that depend on what a tensor is; the drawing is Keras's."""

from __future__ import annotations

from typing import Any

import keras


@keras.saving.register_keras_serializable("dtmt_tf")
class ByShape(keras.initializers.Initializer):
    """Matrices by other initialisers, vectors zero; a layer has one initialiser for all weights.

    Args:
        matrices: What draws matrices.
        square: What draws those that are square, if anything else.
    """

    def __init__(self, matrices: Any, square: Any = None) -> None:
        self.matrices = keras.initializers.get(matrices)
        self.square = keras.initializers.get(square)

    def __call__(self, shape: Any, dtype: Any = None, **_: Any) -> Any:
        """Returns a tensor of that shape."""
        if len(shape) < 2:
            return keras.ops.zeros(shape, dtype=dtype)
        is_square = self.square is not None and shape[0] == shape[1]
        return (self.square if is_square else self.matrices)(shape, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        """What draws."""
        serialize = keras.initializers.serialize
        square = self.square and serialize(self.square)
        return {"matrices": serialize(self.matrices), "square": square}
