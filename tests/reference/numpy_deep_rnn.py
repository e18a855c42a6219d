"""The float64 twin of the deep recurrent family, sentence by sentence, in plain NumPy.

Written from Miceli Barone et al. (2017) and the notes on Nematus, where the paper is silent. Row
vectors: `y = x @ W`. Weights are nested dicts and lists:

    gru        gate_kernel [i, 2d] and candidate_kernel [i, d] unless the block reads no input;
               gate_recurrent [d, 2d], candidate_recurrent [d, d], gate_bias [2d],
               candidate_bias [d]; norms below "input" and "state", each {gates, candidate}
    norm       (gain, offset), or None where layer norm is off
    attention  query [d, 2d], key [2d, 2d], key_bias, score [2d, 1], query_norm, key_norm
    affine     kernel, bias, norm
    model      source, target: tables; forward, backward, above: lists of lists of gru;
               initial: affine; base, high: {"first": [gru], "second": [gru] or None, "attention"};
               readout: {"word", "state", "context", "further": [affine]}, softmax [E, V], bias

Gates r, u stand side by side; u keeps the old state.
"""

import numpy as np

from .numpy_attention import softmax
from .numpy_cells import layer_norm, sigmoid

PAD_ID = 0


def normed(v, norm):
    """Layer norm with epsilon 1e-5, or nothing."""
    return v if norm is None else layer_norm(v, *norm, eps=1e-5)


def gru_step(x, h, w, after_attention=False):
    """One block; `x` is None where it reads no input."""
    shift = (w["gate_bias"], w["candidate_bias"])
    nothing = (0.0, 0.0)
    on_state, on_input = (shift, nothing) if after_attention else (nothing, shift)
    gates = normed(h @ w["gate_recurrent"] + on_state[0], w["state"]["gates"])
    inner = normed(h @ w["candidate_recurrent"] + on_state[1], w["state"]["candidate"])
    if x is None:
        x_gates, x_inner = on_input
    else:
        x_gates = normed(x @ w["gate_kernel"] + on_input[0], w["input"]["gates"])
        x_inner = normed(x @ w["candidate_kernel"] + on_input[1], w["input"]["candidate"])
    r, u = np.split(sigmoid(x_gates + gates), 2, axis=-1)
    c = np.tanh(x_inner + r * inner)
    return u * h + (1 - u) * c


def transition(x, h, blocks, after_attention=False):
    """A block that reads x, then blocks that read nothing."""
    for k, w in enumerate(blocks):
        h = gru_step(x if k == 0 else None, h, w, after_attention)
    return h


def run(xs, blocks, backwards):
    """A level of the encoder over one sentence `[S, i]`; the states `[S, d]`."""
    h = np.zeros(blocks[0]["gate_recurrent"].shape[0])
    states = [None] * len(xs)
    for j in reversed(range(len(xs))) if backwards else range(len(xs)):
        h = states[j] = transition(xs[j], h, blocks)
    return np.stack(states)


def encode(xs, weights):
    """Annotations `[S, 2d]` of one sentence's embeddings."""
    tops = {}
    for side in ("forward", "backward"):
        w = xs
        for k, blocks in enumerate(weights[side]):
            backwards = (k % 2 == 0) == (side == "backward")
            h = run(w, blocks, backwards)
            w = h if k == 0 else h + w
        tops[backwards] = w
    annotations = np.concatenate([tops[False], tops[True]], axis=-1)
    for blocks in weights["above"]:
        annotations = annotations + run(annotations, blocks, False)
    return annotations


def attend(query, annotations, w):
    """Context `[2d]` and weights `[S]`."""
    keys = normed(annotations @ w["key"] + w["key_bias"], w["key_norm"])
    mixed = np.tanh(normed(query @ w["query"], w["query_norm"]) + keys)
    shares = softmax((mixed @ w["score"])[:, 0])
    return shares @ annotations, shares


def affine(x, w):
    """LN(x W + b)."""
    return normed(x @ w["kernel"] + w["bias"], w["norm"])


def decode_step(y, states, annotations, weights, kind):
    """The states after a word, the top of the stack and the base level's context."""
    base = weights["base"]
    s = transition(y, states[0], base["first"])
    context, _ = attend(s, annotations, base["attention"])
    s = transition(context, s, base["second"], after_attention=True)
    after, r = [s], s
    for level, state in zip(weights["high"], states[1:], strict=True):
        x = np.concatenate([r, context]) if kind == "rgru" else r
        s = transition(x, state, level["first"])
        if kind == "cgru":
            own, _ = attend(s, annotations, level["attention"])
            s = transition(own, s, level["second"], after_attention=True)
        elif kind == "crgru":
            s = transition(context, s, level["second"], after_attention=True)
        after.append(s)
        r = s + r
    return after, r, context


def readout(y, r, context, weights):
    """Logits `[V]`."""
    w = weights["readout"]
    h = np.tanh(affine(y, w["word"]) + affine(r, w["state"]) + affine(context, w["context"]))
    for layer in w["further"]:
        h = h + np.tanh(affine(h, layer))
    return h @ weights["softmax"] + weights["bias"]


def forward(weights, source_ids, target_ids, kind):
    """Logits `[B, T, V]` under teacher forcing; past a sentence's end they are zero."""
    source_ids, target_ids = np.asarray(source_ids), np.asarray(target_ids)
    logits = np.zeros((*target_ids.shape, len(weights["bias"])))
    for b, (source, target) in enumerate(zip(source_ids, target_ids, strict=True)):
        annotations = encode(weights["source"][source[source != PAD_ID]], weights)
        first = np.tanh(affine(annotations.mean(axis=0), weights["initial"]))
        states = [first] * (1 + len(weights["high"]))
        y = np.zeros(weights["target"].shape[1])
        for t, word in enumerate(target[target != PAD_ID]):
            states, r, context = decode_step(y, states, annotations, weights, kind)
            logits[b, t] = readout(y, r, context, weights)
            y = weights["target"][word]
    return logits
