"""Initial weights."""

from __future__ import annotations

from typing import Any

import keras


@keras.saving.register_keras_serializable("dtmt_tf")
class UniformSeries(keras.initializers.Initializer):
    """Uniform in [-limit, limit], with other numbers at every call.

    Keras's own initialisers give equal weights to tensors of equal shape when they share a seed,
    and a layer uses one initialiser for all its weights.

    Args:
        limit: Largest absolute value.
        seed: Seed of the series.
    """

    def __init__(self, limit: float, seed: int) -> None:
        self.limit = limit
        self.seed = seed
        self.calls = 0

    def __call__(self, shape: Any, dtype: Any = None, **_: Any) -> Any:
        """Returns the next tensor of the series."""
        self.calls += 1
        seed = self.seed * 10_007 + self.calls
        return keras.random.uniform(shape, -self.limit, self.limit, dtype=dtype, seed=seed)

    def get_config(self) -> dict[str, Any]:
        """Limit and seed."""
        return {"limit": self.limit, "seed": self.seed}


@keras.saving.register_keras_serializable("dtmt_tf")
class MatrixSeries(keras.initializers.Initializer):
    """Matrices by one of Keras's initialisers, with other numbers at every call; vectors zero.

    Args:
        initializer: What draws the matrices; its own seed is not used.
        seed: Seed of the series.
        square: What draws those that are square, if anything else.
    """

    def __init__(
        self,
        initializer: keras.initializers.Initializer,
        seed: int,
        square: keras.initializers.Initializer | None = None,
    ) -> None:
        self.initializer = keras.initializers.get(initializer)
        self.seed = seed
        self.square = keras.initializers.get(square)
        self.calls = 0

    def __call__(self, shape: Any, dtype: Any = None, **_: Any) -> Any:
        """Returns the next tensor of the series."""
        if len(shape) < 2:
            return keras.ops.zeros(shape, dtype=dtype)
        self.calls += 1
        is_square = self.square is not None and shape[0] == shape[1]
        drawing = self.square if is_square else self.initializer
        settings = {**drawing.get_config(), "seed": self.seed * 10_007 + self.calls}
        return drawing.from_config(settings)(shape, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        """What draws, and the seed."""
        square = self.square and keras.initializers.serialize(self.square)
        return {
            "initializer": keras.initializers.serialize(self.initializer),
            "seed": self.seed,
            "square": square,
        }
