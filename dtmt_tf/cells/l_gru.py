"""L-GRU: a GRU with a gated linear path for its input."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.cells.gated_cell import GatedCell
from dtmt_tf.cells.operations import cut
from dtmt_tf.cells.product import product


@keras.saving.register_keras_serializable("dtmt_tf")
class LGRUCell(GatedCell):
    """Linear transformation enhanced GRU.

    Implements Eqs. (8), (9), (14)-(16) of Meng and Zhang (2019), "DTMT", arXiv:1812.07807v2:

        r = sigmoid(LN(W_xr x + W_hr h))                      (8)   reset gate
        z = sigmoid(LN(W_xz x + W_hz h))                      (9)   update gate
        l = sigmoid(LN(W_xl x + W_hl h))                      (16)  linear transformation gate
        c = tanh(W_xh x + r * (W_hh h + b)) + l * (W_x x)     (15)
        h' = (1 - z) * h + z * dropout(c)                     (14)

    The paper prints neither the norms, which its *Advanced Techniques* add, nor `b`, which is the
    authors' code's. `W_x x` has neither bias nor non-linearity. The kernel's columns are r, z, l,
    h, x, the recurrent kernel's r, z, l, h: 5 I H + 4 H^2 + 7 H parameters.

    Args:
        units: Size of the state, H. Positive.
        **kwargs: See `GatedCell`.

    Call arguments:
        inputs: `x`, shape `[B, I]`.
        states: One tensor `h`, shape `[B, H]`.
        training: Whether dropout is active.

    Returns:
        `(h', [h'])`, each `[B, H]`.
    """

    num_gates = 3
    num_input_projections = 5
    num_state_projections = 4

    def gate_values(self, projected: Any, h: Any) -> dict[str, Any]:
        """r, z, l and c."""
        d = self.units
        x_gates, x_h, x_linear = cut(projected, [3 * d, d, d])
        h_gates, h_h = cut(product(h, self.recurrent_kernel), [3 * d, d])
        r, z, l = self.gates(x_gates + h_gates)  # noqa: E741 - (8), (9), (16), the paper's letter
        c = ops.tanh(x_h + r * (h_h + self.candidate_bias)) + l * x_linear  # (15)
        return {"r": r, "z": z, "l": l, "c": c}
