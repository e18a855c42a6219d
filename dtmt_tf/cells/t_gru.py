"""T-GRU: a GRU that reads nothing but the state."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.cells.gated_cell import GatedCell
from dtmt_tf.cells.operations import cut
from dtmt_tf.cells.product import product


@keras.saving.register_keras_serializable("dtmt_tf")
class TGRUCell(GatedCell):
    """Transition GRU: one step of state-to-state refinement.

    Implements Eqs. (10)-(13) of Meng and Zhang (2019), "DTMT", arXiv:1812.07807v2:

        r = sigmoid(LN(W_hr h)),  z = sigmoid(LN(W_hz h))      (12), (13)
        c = tanh(r * (W_hh h + b))                             (11)
        h' = (1 - z) * h + z * dropout(c)                      (10)

    The paper prints neither the norms, which its *Advanced Techniques* add, nor `b`, which is the
    authors' code's. The recurrent kernel's columns are r, z, h: 3 H^2 + 5 H parameters. Not in the
    paper is a scale `s` that is learnt, one for each unit: `h' = h + s * z * (dropout(c) - h)`.

    Args:
        units: Size of the state, H. Positive.
        scale: What `s` starts from; 0: there is none.
        **kwargs: See `GatedCell`.

    Call arguments:
        inputs: Ignored but for the leading shape; present for the cell protocol. `[B, any]`.
        states: One tensor `h`, shape `[B, H]`.
        training: Whether dropout is active.

    Returns:
        `(h', [h'])`, each `[B, H]`.
    """

    num_gates = 2
    num_input_projections = 0
    num_state_projections = 3

    def __init__(self, units: int, *, scale: float = 0.0, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.first_scale = scale

    def build(self, inputs_shape: Any) -> None:
        """Creates the weights of every gated cell, and the scale `[H]`, if any."""
        super().build(inputs_shape)
        if self.first_scale:
            first = keras.initializers.Constant(self.first_scale)
            self.scale = self.add_weight(name="scale", shape=(self.units,), initializer=first)

    def gate_values(self, projected: Any, h: Any) -> dict[str, Any]:
        """r, z (with the scale, if any) and c."""
        d = self.units
        h_gates, h_h = cut(product(h, self.recurrent_kernel), [2 * d, d])
        r, z = self.gates(h_gates)  # (12), (13)
        c = ops.tanh(r * (h_h + self.candidate_bias))  # (11)
        return {"r": r, "z": self.scale * z if self.first_scale else z, "c": c}

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal cell."""
        return {**super().get_config(), "scale": self.first_scale}
