"""The recurrence encoder of Hao et al. (2019) and its fusions, in float64, step by step.

Row vectors: `y = x @ W`. A sentence is run alone, without padding. Shape letters: d width of a
state, I width of what a layer reads, O width of all chains together, R rows of a layer's result.

    layer = {"chains": [gru, ...],                       # one or two, as in `numpy_cells`
             "attention": {"query": [d, I], "key": [I, I], "score": [I]},   # but for the BiRNN
             "recurrence_norm": norm, "inner": affine, "outer": affine, "outer_norm": norm}
    fusion = {"attention": as in `numpy_transformer`, "norm": norm, "gate": affine [2d, d]}
"""

import numpy as np

from . import numpy_transformer as transformer
from .numpy_attention import softmax
from .numpy_cells import early_reset_gru_step, layer_norm, sigmoid
from .numpy_transformer import affine


def attend(h, memory, w):
    """Additive attention of one query; a weighted mean of the memory's rows, [I]."""
    scores = [np.tanh(h @ w["query"] + row @ w["key"]) @ w["score"] for row in memory]
    return softmax(np.array(scores)) @ memory


def chain(memory, h, gru, attention, steps):
    """An ARN: (12) and (13), so many steps from h; [steps, d]."""
    states = []
    for _ in range(steps):
        context = attend(h, memory, attention)
        h = early_reset_gru_step(context, h, gru, use_layer_norm=False)
        states.append(h)
    return np.stack(states)


def walk(rows, h, gru):
    """A plain RNN over the rows; [rows, d]."""
    states = []
    for row in rows:
        h = early_reset_gru_step(row, h, gru, use_layer_norm=False)
        states.append(h)
    return np.stack(states)


def recur(x, starts, w, kind, steps):
    """All chains side by side, [R, O]; the second runs from the last step to the first."""
    if kind == "birnn":
        forward, backward = w["chains"]
        there = walk(x, starts[0], forward)
        back = walk(x[::-1], starts[1], backward)
        return np.concatenate([there, back[::-1]], axis=1)
    found = []
    for k, (h, gru) in enumerate(zip(starts, w["chains"], strict=True)):
        states = chain(x, h, gru, w["attention"], steps or len(x))
        found.append(states if k == 0 else states[::-1])
    return np.concatenate(found, axis=1)


def encode(x, layers, kind, steps):
    """H_r of embeddings [S, d]; steps 0 stands for as many as a layer reads rows."""
    for number, w in enumerate(layers):
        mean, chains = x.mean(axis=0), len(w["chains"])
        starts = [mean] * chains if number == 0 else np.split(mean, chains)
        c = recur(x, starts, w, kind, steps)
        c = layer_norm(c if number == 0 else c + x, *w["recurrence_norm"])  # (7)
        inside = np.maximum(affine(c, w["inner"]), 0)
        x = layer_norm(affine(inside, w["outer"]) + c, *w["outer_norm"])  # (8)
    return x


def stack(c, d, read, w):
    """(18)."""
    return read(d)


def gated_sum(c, d, read, w):
    """(14), (15) and (17)."""
    r = read(c)
    gate = sigmoid(affine(np.concatenate([d, r], axis=1), w["gate"]))
    return gate * d + (1 - gate) * r


FUSIONS = {"stack": stack, "gated_sum": gated_sum}


def forward(weights, source, target, config):
    """One sentence under teacher forcing, see `numpy_transformer.forward`.

    Args:
        weights: A Transformer's, with "recurrence", a list of layers, and "fusion" in decoder
            layers.
        source: Ids, S of them.
        target: Ids, T of them.
        config: `num_heads`, `pre_norm`, `recurrence`, `recurrence_steps` and `fusion`.
    """
    heads, pre_norm = config.num_heads, config.pre_norm
    memory = transformer.encode(weights, source, heads, pre_norm)
    embedded = transformer.embed_source(weights, source)
    states = encode(embedded, weights["recurrence"], config.recurrence, config.recurrence_steps)
    if config.fusion == "columns":
        memory = np.concatenate([memory, states], axis=1)

    def fuse(c, d, w):
        def read(x):
            query = layer_norm(x, *w["norm"]) if pre_norm else x
            total = x + transformer.attend(query, states, w["attention"], heads)[0]
            return total if pre_norm else layer_norm(total, *w["norm"])

        return FUSIONS[config.fusion](c, d, read, w)

    return transformer.decode(weights, memory, target, heads, pre_norm, fuse)
