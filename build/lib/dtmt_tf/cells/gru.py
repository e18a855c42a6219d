"""The GRU in the paper's form."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.cells.gated_cell import GatedCell
from dtmt_tf.cells.product import product


@keras.saving.register_keras_serializable("dtmt_tf")
class GRUCell(GatedCell):
    """Gated recurrent unit, the plain cell of the paper's comparisons.

    Implements Eqs. (6)-(9) of Meng and Zhang (2019), "DTMT", arXiv:1812.07807v2:

        r = sigmoid(LN(W_xr x + W_hr h)),  z = sigmoid(LN(W_xz x + W_hz h))
        c = tanh(W_xh x + r * (W_hh h + b))
        h' = (1 - z) * h + z * dropout(c)

    Kernel and recurrent kernel have columns r, z, h: 3 I H + 3 H^2 + 4 H parameters, H more with b.

    Args:
        units: Size of the state, H. Positive.
        use_candidate_bias: Whether `b` exists; the paper's parameter counts say it does not.
        **kwargs: See `AbstractRNNCell`.

    Call arguments:
        inputs: `x`, shape `[B, I]`.
        states: One tensor `h`, shape `[B, H]`.
        training: Whether dropout is active.

    Returns:
        `(h', [h'])`, each `[B, H]`.
    """

    num_gates = 2
    num_input_projections = 3
    num_state_projections = 3

    def __init__(self, units: int, *, use_candidate_bias: bool = False, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.use_candidate_bias = use_candidate_bias

    def gate_values(self, projected: Any, h: Any) -> dict[str, Any]:
        """Eqs. (7)-(9): r, z and c."""
        d = self.units
        x_gates, x_h = ops.split(projected, [2 * d], axis=-1)
        h_gates, h_h = ops.split(product(h, self.recurrent_kernel), [2 * d], axis=-1)
        r, z = self.gates(x_gates + h_gates)
        return {"r": r, "z": z, "c": ops.tanh(x_h + r * (h_h + self.candidate_bias))}

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal cell."""
        return {**super().get_config(), "use_candidate_bias": self.use_candidate_bias}
