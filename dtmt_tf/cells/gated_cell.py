"""What the gated cells share: weights, dropout of the candidate, the final interpolation."""

from __future__ import annotations

import abc
from typing import Any

from dtmt_tf.cells.abstract_rnn_cell import AbstractRNNCell, Step
from dtmt_tf.cells.gates import Gates
from dtmt_tf.cells.product import product


class GatedCell(AbstractRNNCell):
    """A cell that moves its state towards a candidate as far as an update gate allows.

        h' = (1 - z) * h + z * dropout(c)

    `z` weighs the candidate, the reverse of `keras.layers.GRUCell`. A subclass says how many gates
    and projections it has and computes gates and candidate in `gate_values`; one whose last step is
    another overrides `next_state`.

    Args:
        units: Size of the state, H. Positive.
        update_offset: What the offsets of the gates that take from the state start from, or stay
            at if the gates have neither norm nor bias; below 0 the cell keeps more of its state.
        use_bias: Whether there are biases: of the gates, where they have no norm, and of the
            candidate (a `GRUCell`'s asks for `use_candidate_bias`, too).
        **kwargs: See `AbstractRNNCell`.
    """

    num_gates: int
    num_input_projections: int
    num_state_projections: int
    taking_gates: tuple[int, ...] = (1,)  # of r, z, ...: those that take from the state

    def __init__(
        self, units: int, *, update_offset: float = 0.0, use_bias: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(units, **kwargs)
        self.update_offset = update_offset
        self.use_bias = use_bias
        self.use_candidate_bias = use_bias
        self.gates = Gates(
            units,
            self.num_gates,
            use_layer_norm=self.use_layer_norm,
            use_bias=use_bias,
            initializer=self.initializer,
            first_offsets=[
                update_offset if gate in self.taking_gates else 0.0
                for gate in range(self.num_gates)
            ],
            name="gates",
            dtype=self.dtype_policy,
        )

    @property
    def projection_size(self) -> int:
        """Features of the input projection."""
        return self.num_input_projections * self.units

    def build(self, inputs_shape: Any) -> None:
        """Creates kernel `[I, P]`, recurrent kernel `[H, R]`, candidate bias `[H]` and norms."""
        if self.num_input_projections:
            self.kernel = self.add_weight(
                name="kernel",
                shape=(inputs_shape[-1], self.projection_size),
                initializer=self.initializer,
            )
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel",
            shape=(self.units, self.num_state_projections * self.units),
            initializer=self.initializer,
        )
        self.candidate_bias: Any = 0.0
        if self.use_candidate_bias:
            self.candidate_bias = self.add_weight(
                name="candidate_bias", shape=(self.units,), initializer=self.initializer
            )
        self.gates.build()

    def project(self, inputs: Any) -> Any:
        """One product for all gates and the candidate; `[..., 0]` for a cell that reads nothing."""
        return product(inputs, self.kernel) if self.projection_size else inputs[..., :0]

    def evaluate(self, projected: Any, masks: Any, states: Any) -> Step:
        """Computes gates and candidate, drops, moves the state; its inner values are the gates."""
        h = states[0]
        values = self.gate_values(projected, h)
        gates = {name: value for name, value in values.items() if name != "c"}
        if masks is not None:
            values["c"] = values["c"] * masks
        h = self.next_state(projected, h, values)
        return Step(h, [h], gates)

    @abc.abstractmethod
    def gate_values(self, projected: Any, h: Any) -> dict[str, Any]:
        """Returns every gate and the candidate `c`, each `[B, H]`, by the paper's letters."""

    def next_state(self, projected: Any, h: Any, values: dict[str, Any]) -> Any:
        """Returns the new state, `[B, H]`, from what `gate_values` returned."""
        return h + values["z"] * (values["c"] - h)  # DTMT (6), (10), (14): (1 - z) * h + z * c

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal cell."""
        return {
            **super().get_config(),
            "update_offset": self.update_offset,
            "use_bias": self.use_bias,
        }
