"""LAU: the linear associative unit, from which the L-GRU descends."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.cells.gated_cell import GatedCell
from dtmt_tf.cells.operations import cut
from dtmt_tf.cells.product import product


@keras.saving.register_keras_serializable("dtmt_tf")
class LAUCell(GatedCell):
    """Linear associative unit, compared with the L-GRU in Table 3 of Meng and Zhang (2019).

    Implements Eqs. (4)-(8) of Wang et al. (2017), "Deep Neural Machine Translation with Linear
    Associative Unit", arXiv:1705.00861, with the layer norms of Meng and Zhang (2019):

        r = sigmoid(LN(W_xr x + W_hr h))                                (4)   reset gate
        z = sigmoid(LN(W_xz x + W_hz h))                                (5)   update gate
        g = sigmoid(LN(W_xg x + W_hg h))                                (8)   input gate
        c = tanh((1 - r) * (W_xh x) + r * (W_hh h + b))                 (7)
        h' = ((1 - z) * h + z * dropout(c)) * (1 - g) + g * (W_x x)     (6)

    The linear term joins the state, not the candidate: `z` and dropout do not reach it, and what it
    adds is taken from the state. Wang et al. print neither norm nor bias
    (`use_layer_norm=False, use_bias=False`); `b` is the L-GRU's, because DTMT's paper counts the
    two cells alike. The kernel's columns are r, z, g, h, x, the recurrent kernel's
    r, z, g, h: 5 I H + 4 H^2 + 7 H parameters.

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
    taking_gates = (1, 2)

    def gate_values(self, projected: Any, h: Any) -> dict[str, Any]:
        """r, z, g and c."""
        d = self.units
        x_gates, x_h, _ = cut(projected, [3 * d, d, d])
        h_gates, h_h = cut(product(h, self.recurrent_kernel), [3 * d, d])
        r, z, g = self.gates(x_gates + h_gates)  # (4), (5), (8)
        c = ops.tanh((1 - r) * x_h + r * (h_h + self.candidate_bias))  # (7)
        return {"r": r, "z": z, "g": g, "c": c}

    def next_state(self, projected: Any, h: Any, values: dict[str, Any]) -> Any:
        """(6): interpolates with the candidate, then with the linear term."""
        h = super().next_state(projected, h, values)
        return h + values["g"] * (projected[..., 4 * self.units :] - h)
