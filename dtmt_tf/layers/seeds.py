"""Seeds that depend on nothing but where they are drawn."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

SEED_DTYPE = "uint32" if keras.backend.backend() == "jax" else "int64"
SEEDS = 2**32 if SEED_DTYPE == "uint32" else 2**63  # so many there are; Keras folds them to 2**31
GOLDEN_RATIO = 0x9E3779B1  # spreads the ranks of the draws over 32 bits


class SeedStream(keras.random.SeedGenerator):
    """A seed generator without state: its seeds are a function of a base and the draw's rank.

    Keras's own generator counts in a variable, which a resumed run would have to restore and
    replicas would have to share. Here the k-th draw of a stream depends on `(base, k)` alone, so a
    base made of seed, step and micro-batch gives the same masks in whatever process it is used.

    Args:
        base: Two integers or integer scalar tensors.
    """

    def __init__(self, base: tuple[Any, Any]) -> None:  # no variable, so no super().__init__
        self.base = base
        self.draws = 0

    def next(self, ordered: bool = True) -> Any:
        """Returns the next seed, two integers in the backend's seed type."""
        self.draws += 1
        first, second = (ops.cast(part, SEED_DTYPE) for part in self.base)
        rank = ops.cast(self.draws * GOLDEN_RATIO % 2**31, SEED_DTYPE)
        return ops.stack([first + rank, second])


@keras.saving.register_keras_serializable("dtmt_tf")
class SeedSeries(keras.random.SeedGenerator):
    """Seeds of Keras's initialisers: the k-th is a function of a number and of k.

    With a plain integer as its seed an initialiser gives all tensors of a shape the same numbers;
    Keras's own generator keeps its count in a variable of the model.

    Args:
        base: The number.
    """

    def __init__(self, base: int) -> None:  # no variable, so no super().__init__
        self.base = base
        self.draws = 0

    def next(self, ordered: bool = True) -> Any:
        """Returns the next seed, two integers in the backend's seed type."""
        self.draws += 1
        seed = (self.base * 10_007 + self.draws) % SEEDS
        return ops.convert_to_tensor([seed, 0], dtype=SEED_DTYPE)

    def get_config(self) -> dict[str, Any]:
        """The number; a copy begins at the first seed."""
        return {"base": self.base}
