"""The cell protocol of `keras.layers.RNN`, with the state-free work split off."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from dtmt_tf.cells.operations import cut


class Step(NamedTuple):
    """What a cell computes in one time step of N rows."""

    output: Any  # [N, O]
    states: list[Any]  # as many as went in
    inner: dict[str, Any]  # gates [N, H] and attention weights [N, S] by name


class AbstractRNNCell(keras.layers.Layer, abc.ABC):
    """Base of every cell: one step of a recurrence, usable in `keras.layers.RNN`.

    Keras 3 has a cell protocol but no base class. This one divides a step in two, so that a layer
    can do the first half for all time steps at once:

    - `prepare(inputs)`: all that does not depend on the state, namely the input projection
      (`project`) and the dropout masks (`masks`), side by side;
    - `step(prepared, states)`: the rest (`evaluate`).

    `call` is their composition, which is what `keras.layers.RNN` runs; `layers.TransitionRNN`
    prepares the whole sequence in one matrix product and runs only `step` in the loop.

    A cell says how large the states are that change from step to step (`hidden_sizes`). Those that
    follow them are what it knows of a sentence, its memory, and never change. Search repeats and
    selects the former for each hypothesis and leaves the latter alone.

    Args:
        units: Size of the state, H. Positive.
        dropout_rate: Fraction of candidate units dropped in training, in [0, 1). The carried state
            is never dropped; masks are fresh at every step and already hold the factor 1/(1-rate).
            A cell that is made of others leaves this, and the two below, to them.
        use_layer_norm: Whether there are layer norms, each cell's docstring says of what.
        initializer: Initialiser of every weight but the norms'; a subclass may draw biases and
            scales otherwise.

    Raises:
        ValueError: If `units` or `dropout_rate` is out of range, naming the value received.
    """

    def __init__(
        self,
        units: int,
        *,
        dropout_rate: float = 0.0,
        use_layer_norm: bool = True,
        initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if units <= 0:
            raise ValueError(f"`units` should be positive. Received: {units}.")
        if not 0 <= dropout_rate < 1:
            raise ValueError(f"`dropout_rate` should be in [0, 1). Received: {dropout_rate}.")
        self.units = units
        self.dropout_rate = dropout_rate
        self.use_layer_norm = use_layer_norm
        self.initializer = keras.initializers.get(initializer)
        # for masks when `prepare` is given no `seeds`
        self.seed_generator = keras.random.SeedGenerator() if dropout_rate else None

    @property
    def hidden_sizes(self) -> list[int]:
        """Sizes of the states that change from step to step; they come first."""
        return [self.units]

    @property
    def state_size(self) -> Any:
        """`hidden_sizes`, or the only one, as `keras.layers.RNN` asks for it."""
        sizes = self.hidden_sizes
        return sizes if len(sizes) > 1 else sizes[0]

    @property
    def output_size(self) -> int:
        """Size of the output."""
        return self.units

    @property
    @abc.abstractmethod
    def projection_size(self) -> int:
        """Features of `project`'s result."""

    @property
    def parts(self) -> Sequence[AbstractRNNCell]:
        """The cells that this one is made of, if it is; they then hold masks and weights."""
        return ()

    @property
    def mask_size(self) -> int:
        """Features of `masks`' result, 0 where nothing is dropped; without parts one mask."""
        if self.parts:
            return sum(part.mask_size for part in self.parts)
        return self.units if self.dropout_rate else 0

    @abc.abstractmethod
    def project(self, inputs: Any) -> Any:
        """Returns the input projection, `[..., projection_size]`, of inputs `[..., I]`."""

    def masks(self, inputs: Any, seeds: Any = None) -> Any:
        """Returns multipliers of the candidates, `[..., mask_size]`, or None if that is 0.

        Those of the parts stand side by side. A cell without parts has one candidate, whose
        multipliers are 0 or 1 / (1 - rate).

        Args:
            inputs: A tensor with the wanted leading shape.
            seeds: A `keras.random.SeedGenerator` to draw from; the cell's own by default.
        """
        if not self.mask_size:
            return None
        if self.parts:
            masks = [part.masks(inputs, seeds) for part in self.parts if part.mask_size]
            return ops.concatenate(masks, axis=-1)
        ones = ops.ones((*ops.shape(inputs)[:-1], self.units), dtype=self.compute_dtype)
        seed = self.seed_generator if seeds is None else seeds
        return keras.random.dropout(ones, self.dropout_rate, seed=seed)

    @abc.abstractmethod
    def evaluate(self, projected: Any, masks: Any, states: Any) -> Step:
        """Computes a step from `project`'s and `masks`' results and the states.

        What it names in `Step.inner` is what inspection shows of the cell; it may name nothing.
        """

    def depths(self) -> dict[str, list[Any]]:
        """Weights by the name of the innermost cell they belong to, for gradient norms by depth."""
        if not self.parts:
            return {self.name: self.trainable_variables}
        return {name: weights for part in self.parts for name, weights in part.depths().items()}

    def prepare(self, inputs: Any, training: bool = False, seeds: Any = None) -> Any:
        """Returns the projection and, in training, the masks behind it, `[..., P]`."""
        projected = self.project(inputs)
        masks = self.masks(inputs, seeds) if training else None
        return projected if masks is None else ops.concatenate([projected, masks], axis=-1)

    def step(self, prepared: Any, states: Any) -> tuple[Any, list[Any]]:
        """Returns `(output, new_states)` from `prepare`'s result and the states."""
        projected, masks = prepared, None
        if prepared.shape[-1] > self.projection_size:
            sizes = self.projection_size, prepared.shape[-1] - self.projection_size
            projected, masks = cut(prepared, sizes)
            masks = ops.stop_gradient(masks)
        return self.evaluate(projected, masks, states)[:2]

    def call(self, inputs: Any, states: Any, training: bool = False) -> tuple[Any, list[Any]]:
        """One step, as `keras.layers.RNN` asks for it: `(output, new_states)`."""
        return self.step(self.prepare(inputs, training=training), states)

    def get_initial_state(self, batch_size: Any = None) -> list[Any]:
        """Zeros, `[B, size]` for each of `hidden_sizes`; of its memory a cell knows nothing."""
        return [
            ops.zeros((batch_size, each), dtype=self.compute_dtype) for each in self.hidden_sizes
        ]

    def divide(self, masks: Any) -> list[Any]:
        """Returns the masks of each part, or None."""
        divided, start = [], 0
        for part in self.parts:
            end = start + part.mask_size
            divided.append(None if masks is None or end == start else masks[..., start:end])
            start = end
        return divided

    def joined(self, values: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Returns what the parts tell by name, each name below its part's."""
        return {
            f"{part.name}/{name}": value
            for part, found in zip(self.parts, values, strict=True)
            for name, value in found.items()
        }

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal cell.

        Raises:
            TypeError: Of a cell that is made of others and does not say how.
        """
        if self.parts:
            raise TypeError(f"{type(self).__name__} is made of cells; make it anew.")
        return {
            **super().get_config(),
            "units": self.units,
            "dropout_rate": self.dropout_rate,
            "use_layer_norm": self.use_layer_norm,
            "initializer": keras.initializers.serialize(self.initializer),
        }
