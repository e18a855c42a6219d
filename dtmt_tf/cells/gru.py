"""The GRU of Meng and Zhang (2019), and that of Wang et al. (2017)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.cells.gated_cell import GatedCell
from dtmt_tf.cells.operations import cut
from dtmt_tf.cells.product import product


@keras.saving.register_keras_serializable("dtmt_tf")
class GRUCell(GatedCell):
    """Gated recurrent unit, the plain cell of Meng and Zhang's comparisons.

    Implements Eqs. (6)-(9) of Meng and Zhang (2019), "DTMT", arXiv:1812.07807v2:

        r = sigmoid(LN(W_xr x + W_hr h)),  z = sigmoid(LN(W_xz x + W_hz h))      (8), (9)
        c = tanh(W_xh x + r * (W_hh h + b))                                      (7)
        h' = (1 - z) * h + z * dropout(c)                                        (6)

    The paper prints neither the norms, which its *Advanced Techniques* add, nor `b`, an option.

    Cho et al. (2014) and Wang et al. (2017), Eq. (3), reset before the product instead:

        c = tanh(W_xh x + W_hh (r * h) + b)

    Kernel and recurrent kernel have columns r, z, h: 3 I H + 3 H^2 + 4 H parameters, H more with b.

    Args:
        units: Size of the state, H. Positive.
        use_candidate_bias: Whether `b` exists, if `use_bias`; the paper's parameter counts say it
            does not.
        reset_after: Whether the reset gate stands after the product.
        **kwargs: See `GatedCell`.

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

    def __init__(
        self,
        units: int,
        *,
        use_candidate_bias: bool = False,
        reset_after: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
        self.use_candidate_bias = use_candidate_bias and self.use_bias
        self.reset_after = reset_after

    def gate_values(self, projected: Any, h: Any) -> dict[str, Any]:
        """r, z and c."""
        d = self.units
        x_gates, x_h = cut(projected, [2 * d, d])
        if self.reset_after:
            h_gates, h_h = cut(product(h, self.recurrent_kernel), [2 * d, d])
            r, z = self.gates(x_gates + h_gates)  # (8), (9)
            c = ops.tanh(x_h + r * (h_h + self.candidate_bias))  # (7)
        else:
            kernel = ops.convert_to_tensor(self.recurrent_kernel)
            r, z = self.gates(x_gates + product(h, kernel[:, : 2 * d]))
            c = ops.tanh(x_h + product(r * h, kernel[:, 2 * d :]) + self.candidate_bias)
        return {"r": r, "z": z, "c": c}

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal cell."""
        return {
            **super().get_config(),
            "use_candidate_bias": self.use_candidate_bias,
            "reset_after": self.reset_after,
        }
