"""The Transformer in float64, from Vaswani et al. (2017), with plain loops over heads and words.

Row vectors: `y = x @ W`. Shape letters: d width of a state, F inside the feed-forward part, N
heads, S and T source and target length, V words. A sentence is run alone, without padding. The
weights of a model are one nested dict:

    weights = {
        "source": {"table": [Vs, d], "bias": [d]},
        "target": {"table": [Vt, d]},
        "encoder": [layer, ...], "decoder": [layer, ...],
        "encoder_norm": norm, "decoder_norm": norm,        # with pre-norm alone
        "softmax": [d, Vt],
    }
    layer = {"self": attention, "self_norm": norm,
             "source": attention, "source_norm": norm,     # in a decoder alone
             "fusion": what `fuse` reads,                  # where a decoder reads more, alone
             "inner": affine [d, F], "outer": affine [F, d], "outer_norm": norm}
    attention = {"query": affine, "key": affine, "value": affine, "output": affine}, [d, d] each,
                 and perhaps "relative": (keys [2D + 1, d], values [2D + 1, d])
    affine = (kernel, bias);  norm = (gain, offset)
"""

import math

import numpy as np

from .numpy_attention import softmax
from .numpy_cells import layer_norm


def timing(length, d):
    """Sines of all frequencies, then cosines, [length, d]; frequencies fall from 1 to 1/10000."""
    half = d // 2
    signal = np.zeros((length, d))
    for position in range(length):
        for i in range(half):
            angle = position / 10000.0 ** (i / (half - 1))
            signal[position, i] = math.sin(angle)
            signal[position, half + i] = math.cos(angle)
    return signal


def affine(x, weights):
    """`x W + b`."""
    kernel, bias = weights
    return x @ kernel + bias


def attend(x, memory, w, heads, causal=False, directional=False):
    """Scaled dot-product attention of x [T, d] to memory [S, d], head by head, word by word.

    Returns:
        `([T, d], weights [N, T, S])`; a causal word t sees the words 0 .. t of the memory. With
        directions so do the first half of the heads; the others see the words t .. S - 1.
    """
    queries = affine(x, w["query"])
    keys, values = affine(memory, w["key"]), affine(memory, w["value"])
    width = x.shape[-1] // heads
    weights = np.zeros((heads, len(x), len(memory)))
    mixed = np.zeros_like(x)
    for k in range(heads):
        part = slice(k * width, (k + 1) * width)
        for t in range(len(x)):
            back = causal or (directional and k < heads // 2)
            ahead = directional and not back
            seen = range(t if ahead else 0, t + 1 if back else len(memory))
            scores, read = [], []
            for j in seen:
                key, value = keys[j, part], values[j, part]
                if "relative" in w:  # Shaw et al. (2018), Eqs. (3) and (4)
                    limit = len(w["relative"][0]) // 2
                    row = max(-limit, min(limit, j - t)) + limit
                    of_key, of_value = (table[row, part] for table in w["relative"])
                    key, value = key + of_key, value + of_value
                scores.append(queries[t, part] @ key / math.sqrt(width))
                read.append(value)
            weights[k, t, seen.start : seen.stop] = softmax(np.array(scores))
            mixed[t, part] = weights[k, t, seen.start : seen.stop] @ np.stack(read)
    return affine(mixed, w["output"]), weights


def run_layer(x, w, heads, pre_norm, memory=None, causal=False, fuse=None, directional=False):
    """One layer: every part is added to the state, with its norm before it or after the sum.

    `fuse(c, d, weights)`, of the states after self-attention and after attention to the memory,
    gives the state that goes on.

    Returns:
        `(x, weights of the attention to the memory or None)`.
    """

    def add(x, part, norm):
        if pre_norm:
            return x + part(layer_norm(x, *norm))
        return layer_norm(x + part(x), *norm)

    looked = []

    def look(y):
        result, weights = attend(y, memory, w["source"], heads)
        looked.append(weights)
        return result

    x = add(x, lambda y: attend(y, y, w["self"], heads, causal, directional)[0], w["self_norm"])
    if memory is not None:
        c, x = x, add(x, look, w["source_norm"])
        if "fusion" in w:
            x = fuse(c, x, w["fusion"])
    x = add(x, lambda y: affine(np.maximum(affine(y, w["inner"]), 0), w["outer"]), w["outer_norm"])
    return x, looked[0] if looked else None


def embed_source(weights, source):
    """Embeddings of a sentence without its positions, [S, d]."""
    table = weights["source"]["table"]
    return table[list(source)] * math.sqrt(table.shape[1]) + weights["source"]["bias"]


def encode(weights, source, heads, pre_norm, directional=False):
    """The encoder's last states, [S, d]; directional as in `attend`."""
    x = embed_source(weights, source)
    x = x + timing(*x.shape)
    for layer in weights["encoder"]:
        x, _ = run_layer(x, layer, heads, pre_norm, directional=directional)
    return layer_norm(x, *weights["encoder_norm"]) if pre_norm else x


def forward(weights, source, target, heads, pre_norm, directional=False):
    """One sentence under teacher forcing; the word before the first has id 0.

    Args:
        weights: The nested dict above.
        source: Ids, S of them.
        target: Ids, T of them.
        heads: N.
        pre_norm: Where the norms are.
        directional: As in `attend`, of the encoder.

    Returns:
        `(logits [T, V], attention weights [layers, N, T, S])`.
    """
    memory = encode(weights, source, heads, pre_norm, directional)
    return decode(weights, memory, target, heads, pre_norm)


def decode(weights, memory, target, heads, pre_norm, fuse=None):
    """As `forward`, of an encoder's last states; `fuse` as in `run_layer`."""
    d = weights["softmax"].shape[0]
    y = weights["target"]["table"][[0, *target[:-1]]] * math.sqrt(d) + timing(len(target), d)
    looked = []
    for layer in weights["decoder"]:
        y, weights_of_layer = run_layer(y, layer, heads, pre_norm, memory, True, fuse)
        looked.append(weights_of_layer)
    y = layer_norm(y, *weights["decoder_norm"]) if pre_norm else y
    return y @ weights["softmax"], np.stack(looked)
