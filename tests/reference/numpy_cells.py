"""One time step of every recurrent cell, in float64, as the equations print it.

Written from Meng and Zhang (2019), Eqs. (6)-(16), and the notes on the authors' release; the LAU
from Wang et al. (2017), Eqs. (4)-(8). Row vectors: `y = x @ W`, so a matrix has shape [in, out].
Arrays may have any leading axes; the last one is the feature axis. i is the width of the input x, d
that of the state h. A cell is a dict:

    key               GRU      L-GRU    T-GRU    columns or rows, in this order
    kernel            [i, 3d]  [i, 5d]  -        r, z, h; L-GRU: r, z, l, h, x
    recurrent_kernel  [d, 3d]  [d, 4d]  [d, 3d]  r, z, h; L-GRU: r, z, l, h
    candidate_bias    [d]      [d]      [d]      in the reset-gated projection; may be absent
    gain, offset      [2, d]   [3, d]   [2, d]   layer norm of the gates r, z; L-GRU: r, z, l
    gate_bias         [2, d]   [3, d]   [2, d]   replaces gain, offset when layer norm is off;
                                                 may be absent

An LAU has the L-GRU's shapes, with its gate g in the place of l.

Here h is the candidate and x the linear map H(x), which has neither bias nor non-linearity.

In every cell z weighs the candidate: z -> 1 takes the new value.
"""

import numpy as np


def sigmoid(v):
    """Logistic function, stable for large arguments of either sign."""
    return 0.5 * (1.0 + np.tanh(0.5 * v))


def layer_norm(v, gain, offset, eps=1e-6):
    """Normalise the last axis by its mean and biased variance; `eps` is inside the root."""
    mean = v.mean(axis=-1, keepdims=True)
    variance = ((v - mean) ** 2).mean(axis=-1, keepdims=True)
    return gain * (v - mean) / np.sqrt(variance + eps) + offset


def gate(total, index, w, use_layer_norm):
    """Sigmoid of one gate's summed projections, normalised per gate or shifted by a plain bias."""
    if use_layer_norm:
        return sigmoid(layer_norm(total, w["gain"][index], w["offset"][index]))
    return sigmoid(total + w["gate_bias"][index] if "gate_bias" in w else total)


def interpolate(h, candidate, z, mask):
    """`(1 - z) * h + z * candidate`; the dropout multiplier reaches the candidate alone."""
    if mask is not None:
        candidate = candidate * mask
    return (1.0 - z) * h + z * candidate


def candidate_projection(h_projected, w):
    """State projection of the candidate plus its bias, if the cell has one."""
    return h_projected + w["candidate_bias"] if "candidate_bias" in w else h_projected


def gru_step(x, h, w, *, use_layer_norm=True, mask=None):
    """Plain GRU, Eqs. (6)-(9), with the reset gate acting after the matrix product.

    Args:
        x: Input, [..., i].
        h: Previous state, [..., d].
        w: GRU dict.
        use_layer_norm: Normalise each gate; otherwise add `gate_bias`.
        mask: Dropout multiplier of the candidate, already scaled by 1 / (1 - p), or None.

    Returns:
        New state, [..., d].
    """
    x_r, x_z, x_h = np.split(x @ w["kernel"], 3, axis=-1)
    h_r, h_z, h_h = np.split(h @ w["recurrent_kernel"], 3, axis=-1)
    r = gate(x_r + h_r, 0, w, use_layer_norm)
    z = gate(x_z + h_z, 1, w, use_layer_norm)
    c = np.tanh(x_h + r * candidate_projection(h_h, w))
    return interpolate(h, c, z, mask)


def early_reset_gru_step(x, h, w, *, use_layer_norm=True, mask=None):
    """The GRU of Wang et al. (2017), Eqs. (2)-(5): resets the state before the product."""
    x_r, x_z, x_h = np.split(x @ w["kernel"], 3, axis=-1)
    kernel_r, kernel_z, kernel_h = np.split(w["recurrent_kernel"], 3, axis=-1)
    r = gate(x_r + h @ kernel_r, 0, w, use_layer_norm)
    z = gate(x_z + h @ kernel_z, 1, w, use_layer_norm)
    c = np.tanh(x_h + candidate_projection((r * h) @ kernel_h, w))
    return interpolate(h, c, z, mask)


def l_gru_step(x, h, w, *, use_layer_norm=True, mask=None):
    """Linear-transformation-enhanced GRU, Eqs. (8), (9), (14)-(16); arguments as `gru_step`.

    Dropout acts on the whole candidate, after the linear term was added.
    """
    x_r, x_z, x_l, x_h, linear = np.split(x @ w["kernel"], 5, axis=-1)
    h_r, h_z, h_l, h_h = np.split(h @ w["recurrent_kernel"], 4, axis=-1)
    r = gate(x_r + h_r, 0, w, use_layer_norm)
    z = gate(x_z + h_z, 1, w, use_layer_norm)
    l_gate = gate(x_l + h_l, 2, w, use_layer_norm)
    c = np.tanh(x_h + r * candidate_projection(h_h, w)) + l_gate * linear
    return interpolate(h, c, z, mask)


def lau_step(x, h, w, *, use_layer_norm=True, mask=None):
    """Linear associative unit, Eqs. (4)-(8) of Wang et al. (2017); arguments as `gru_step`.

    Dropout acts on the tanh candidate; the linear term joins after the interpolation.
    """
    x_r, x_z, x_g, x_h, linear = np.split(x @ w["kernel"], 5, axis=-1)
    h_r, h_z, h_g, h_h = np.split(h @ w["recurrent_kernel"], 4, axis=-1)
    r = gate(x_r + h_r, 0, w, use_layer_norm)
    z = gate(x_z + h_z, 1, w, use_layer_norm)
    g = gate(x_g + h_g, 2, w, use_layer_norm)
    c = np.tanh((1.0 - r) * x_h + r * candidate_projection(h_h, w))
    return interpolate(h, c, z, mask) * (1.0 - g) + g * linear


def t_gru_step(h, w, *, use_layer_norm=True, mask=None):
    """Transition GRU, Eqs. (10)-(13): reads the state only; arguments as `gru_step`."""
    h_r, h_z, h_h = np.split(h @ w["recurrent_kernel"], 3, axis=-1)
    r = gate(h_r, 0, w, use_layer_norm)
    z = gate(h_z, 1, w, use_layer_norm) * w.get("scale", 1.0)
    c = np.tanh(r * candidate_projection(h_h, w))
    return interpolate(h, c, z, mask)


FIRST_STEPS = {"gru": gru_step, "lau": lau_step, "lgru": l_gru_step}


def deep_transition_step(x, h, cells, masks=None, kind="lgru", *, use_layer_norm=True):
    """One time step of a deep transition: a cell that reads x, then T-GRUs on its state.

    Args:
        x: Input, [..., i].
        h: State left by the previous time step, [..., d].
        cells: `[first cell dict, T-GRU dict, ...]`.
        masks: One dropout multiplier or None per cell, or None for no dropout at all.
        kind: "lgru", "lau" or "gru", the kind of the first cell.
        use_layer_norm: As in `gru_step`, for all cells.

    Returns:
        Output of the last cell, which is also the state of the next time step.
    """
    masks = [None] * len(cells) if masks is None else masks
    h = FIRST_STEPS[kind](x, h, cells[0], use_layer_norm=use_layer_norm, mask=masks[0])
    for w, mask in zip(cells[1:], masks[1:], strict=True):
        h = t_gru_step(h, w, use_layer_norm=use_layer_norm, mask=mask)
    return h
