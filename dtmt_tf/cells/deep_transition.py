"""A transition module: one cell that reads the input, then T-GRUs that deepen the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from dtmt_tf.cells.abstract_rnn_cell import AbstractRNNCell, Step


@keras.saving.register_keras_serializable("dtmt_tf")
class DeepTransitionCell(AbstractRNNCell):
    """Composes cells within one time step; the last cell's state goes to the next step.

        s_0 = first(x, s_prev),  s_k = transition_k(s_{k-1}) for k = 1 .. N

    (Meng and Zhang, 2019, *DTMT*, the formal description of each transition; Miceli Barone et al.,
    2017, Section 2.2.) N = 0 has the first cell alone.

    Args:
        cells: The cell that reads the input, then any number without one, all of the same `units`:
            `LGRUCell`, `GRUCell` or `LAUCell` and `TGRUCell`s, or `NematusGRUCell`s.

    Call arguments:
        inputs: Input of the first cell, shape `[B, I]`.
        states: One tensor, shape `[B, H]`.
        training: Whether dropout is active.

    Returns:
        `(h', [h'])`, each `[B, H]`.

    Raises:
        ValueError: If there is no cell or the cells' sizes differ.
    """

    def __init__(self, cells: Sequence[AbstractRNNCell], **kwargs: Any) -> None:
        sizes = [cell.units for cell in cells]
        if not sizes or len(set(sizes)) != 1:
            raise ValueError(f"`cells` should be of one size. Received sizes: {sizes}.")
        super().__init__(sizes[0], **kwargs)
        self.cells = list(cells)

    def build(self, inputs_shape: Any) -> None:
        """Builds the cells; all but the first see only the state."""
        for k, cell in enumerate(self.cells):
            if not cell.built:
                cell.build(inputs_shape if k == 0 else (inputs_shape[0], self.units))

    @property
    def parts(self) -> list[AbstractRNNCell]:
        """The cells."""
        return self.cells

    @property
    def projection_size(self) -> int:
        """Features of the first cell's projection; the others read no input."""
        return self.cells[0].projection_size

    def project(self, inputs: Any) -> Any:
        """The first cell's projection."""
        return self.cells[0].project(inputs)

    def evaluate(self, projected: Any, masks: Any, states: Any) -> Step:
        """Runs the cells one after the other on the state."""
        output, inner = None, []
        for cell, mask in zip(self.cells, self.divide(masks), strict=True):
            output, states, found = cell.evaluate(projected, mask, states)
            inner.append(found)
        return Step(output, states, self.joined(inner))

    def depths(self) -> dict[str, list[Any]]:
        """Those of the cells, below this module's name."""
        return {f"{self.name}/{name}": weights for name, weights in super().depths().items()}

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal module."""
        return {
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "cells": [keras.saving.serialize_keras_object(cell) for cell in self.cells],
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> DeepTransitionCell:
        """Rebuilds the cells, then the module."""
        cells = [keras.saving.deserialize_keras_object(cell) for cell in config["cells"]]
        return cls(cells, name=config["name"], dtype=config["dtype"])
