"""Encoder, decoder and output layer joined into the model, in float64, with plain loops over time.

Shape letters: B batch, S source length, T target length, E embedding, d state width, C context
width, H heads, V words.
The weights of a model are one nested dict (cell dicts as in `numpy_cells`):

    weights = {
        "source": {"table": [Vs, E], "bias": [E]},
        "target": {"table": [Vt, E], "bias": [E]},
        "encoder": {"forward": [first cell, T-GRU, ...],    # first cell reads E
                    "backward": [first cell, T-GRU, ...]},  # first cell reads E
        "initial": {"kernel": [2d, d], "bias": [d]},
        "query": [first cell, T-GRU, ...],        # first cell reads E
        "attention": {"key_kernel": [2d, d], "query_kernel": [d, d], "score": [d/H],
                      "output_kernel": [2d, C], "output_bias": [C]},
        "transition": [first cell, T-GRU, ...],   # the decoder transition; first cell reads C
        "readout": {"kernel_y": [E, d], "kernel_s": [d, d], "kernel_c": [C, d],
                    "bias": [d],
                    "logits_kernel": [d, Vt], "logits_bias": [Vt]},
    }

A config is a plain dict; `make_config` lists its keys and their defaults. `forward` has no dropout.
"""

import numpy as np

from .numpy_attention import attention, embed, initial_state
from .numpy_cells import deep_transition_step

PAD_ID = 0


def make_config(
    source_vocab,
    target_vocab,
    embedding_dim,
    units,
    heads,
    depth,
    context_dim=None,
    kind="lgru",
    candidate_bias=True,
    transition_candidate_bias=True,
    use_layer_norm=True,
    use_position=True,
):
    """Config dict with exactly these arguments as keys; `context_dim` None means 2 * units."""
    config = dict(locals())
    config["context_dim"] = 2 * units if context_dim is None else context_dim
    return config


def random_weights(config, rng, scale=0.5):
    """Weights dict with entries uniform in [-scale, scale]; layer-norm gains are 1 plus that."""
    e, d, c = config["embedding_dim"], config["units"], config["context_dim"]

    def draw(*shape):
        return rng.uniform(-scale, scale, size=shape)

    def cell(num_gates, num_inputs, i, has_bias):
        w = {"recurrent_kernel": draw(d, (num_gates + 1) * d)}
        if num_inputs:
            w["kernel"] = draw(i, num_inputs * d)
        if has_bias:
            w["candidate_bias"] = draw(d)
        if config["use_layer_norm"]:
            w["gain"], w["offset"] = 1.0 + draw(num_gates, d), draw(num_gates, d)
        else:
            w["gate_bias"] = draw(num_gates, d)
        return w

    def module(i):
        num_gates, num_inputs = {"lau": (3, 5), "lgru": (3, 5), "gru": (2, 3)}[config["kind"]]
        cells = [cell(num_gates, num_inputs, i, config["candidate_bias"])]
        for _ in range(config["depth"]):
            cells.append(cell(2, 0, None, config["transition_candidate_bias"]))
        return cells

    return {
        "source": {"table": draw(config["source_vocab"], e), "bias": draw(e)},
        "target": {"table": draw(config["target_vocab"], e), "bias": draw(e)},
        "encoder": {"forward": module(e), "backward": module(e)},
        "initial": {"kernel": draw(2 * d, d), "bias": draw(d)},
        "query": module(e),
        "attention": {
            "key_kernel": draw(2 * d, d),
            "query_kernel": draw(d, d),
            "score": draw(d // config["heads"]),
            "output_kernel": draw(2 * d, c),
            "output_bias": draw(c),
        },
        "transition": module(c),
        "readout": {
            "kernel_y": draw(e, d),
            "kernel_s": draw(d, d),
            "kernel_c": draw(c, d),
            "bias": draw(d),
            "logits_kernel": draw(d, config["target_vocab"]),
            "logits_bias": draw(config["target_vocab"]),
        },
    }


def encode(embedded, mask, forward_cells, backward_cells, kind="lgru", *, use_layer_norm=True):
    """Bidirectional deep-transition encoder with zero initial states.

    Every sentence is run alone over its own length, which is what carrying the state through padded
    steps amounts to.

    Args:
        embedded: [B, S, E].
        mask: Bool, [B, S]; True where the token is real, padding at the end only.
        forward_cells: Cells of the left-to-right module.
        backward_cells: Cells of the right-to-left module.
        kind: Kind of the first cells, "lgru", "lau" or "gru".
        use_layer_norm: As in `numpy_cells.gru_step`.

    Returns:
        Annotations [B, S, 2d], forward half then backward half; exactly zero at padded positions.
    """
    batch, length, _ = embedded.shape
    d = forward_cells[0]["recurrent_kernel"].shape[0]
    annotations = np.zeros((batch, length, 2 * d))
    for b in range(batch):
        real = int(np.sum(mask[b]))
        if not np.all(mask[b][:real]):
            raise ValueError(f"Padding should be at the end of a sentence. Received: {mask[b]}")
        h = np.zeros(d)
        for j in range(real):
            h = deep_transition_step(
                embedded[b, j], h, forward_cells, kind=kind, use_layer_norm=use_layer_norm
            )
            annotations[b, j, :d] = h
        h = np.zeros(d)
        for j in reversed(range(real)):
            h = deep_transition_step(
                embedded[b, j], h, backward_cells, kind=kind, use_layer_norm=use_layer_norm
            )
            annotations[b, j, d:] = h
    return annotations


def decoder_step(y_prev, s_prev, memory, w, heads, kind="lgru", *, use_layer_norm=True):
    """One decoder step: query transition, attention, decoder transition.

    Args:
        y_prev: Embedded previous word, [B, E]; zeros at the first step.
        s_prev: Final state of the previous step, [B, d].
        memory: `(annotations [B, S, 2d], mask [B, S])`.
        w: The weights dict of the model, or one with its `query`, `attention` and `transition`.
        heads: Number of attention heads.
        kind: Kind of the first cells, "lgru", "lau" or "gru".
        use_layer_norm: As in `numpy_cells.gru_step`.

    Returns:
        `(s [B, d], context [B, C], query state q [B, d], attention weights [B, H, S])`.
    """
    annotations, mask = memory
    options = {"kind": kind, "use_layer_norm": use_layer_norm}
    q = deep_transition_step(y_prev, s_prev, w["query"], **options)
    context, weights = attention(q, annotations, mask, w["attention"], heads)
    s = deep_transition_step(context, q, w["transition"], **options)
    return s, context, q, weights


def readout(y, s, c, w, mask=None):
    """Logits from o, the tanh layer on (y_{t-1}, s_t, c_t) times the dropout `mask` if any."""
    o = np.tanh(y @ w["kernel_y"] + s @ w["kernel_s"] + c @ w["kernel_c"] + w["bias"])
    if mask is not None:
        o = o * mask
    return o @ w["logits_kernel"] + w["logits_bias"]


def run_encoder(weights, source_ids, config):
    """Source ids [B, S] to `(memory, s_0)`: `((annotations, mask), [B, d])`."""
    mask = np.asarray(source_ids) != PAD_ID
    source = weights["source"]
    embedded = embed(source_ids, source["table"], source["bias"], config["use_position"])
    encoder = weights["encoder"]
    annotations = encode(
        embedded,
        mask,
        encoder["forward"],
        encoder["backward"],
        config["kind"],
        use_layer_norm=config["use_layer_norm"],
    )
    s_0 = initial_state(annotations, mask, weights["initial"]["kernel"], weights["initial"]["bias"])
    return (annotations, mask), s_0


def shifted_embeddings(target_ids, target, use_position):
    """Words embedded at their own position, from 0 on, then moved right behind a zero vector."""
    embedded = embed(target_ids, target["table"], target["bias"], use_position)
    shifted = np.zeros_like(embedded)
    shifted[:, 1:] = embedded[:, :-1]
    return shifted


def forward(weights, source_ids, target_ids, config):
    """Logits under teacher forcing.

    Args:
        weights: The nested dict above.
        source_ids: Integers, [B, S], each sentence ending in <eos>, then padded with 0.
        target_ids: Integers, [B, T], likewise; row t of the logits predicts column t.
        config: See `make_config`.

    Returns:
        [B, T, V]. Rows past the end of a target mean nothing (s_t and c_t are zero there):
        compare none of them.
    """
    target_ids = np.asarray(target_ids)
    memory, s = run_encoder(weights, source_ids, config)
    y = shifted_embeddings(target_ids, weights["target"], config["use_position"])
    logits = np.zeros((*target_ids.shape, weights["readout"]["logits_bias"].shape[0]))
    for t in range(target_ids.shape[1]):
        real = (target_ids[:, t] != PAD_ID)[:, None]
        new_s, context, _, _ = decoder_step(
            y[:, t],
            s,
            memory,
            weights,
            config["heads"],
            config["kind"],
            use_layer_norm=config["use_layer_norm"],
        )
        s = np.where(real, new_s, s)
        logits[:, t] = readout(y[:, t], real * new_s, real * context, weights["readout"])
    return logits


def next_log_probs(weights, source_row, prefix, config):
    """Log probabilities [V] of the word after `prefix`, for one source sentence without padding.

    The decoder is stepped one word at a time, so any id, 0 included, may stand in the prefix.
    """
    memory, s = run_encoder(weights, np.asarray([source_row]), config)
    target = weights["target"]
    for t in range(len(prefix) + 1):
        if t == 0:
            y = np.zeros((1, target["table"].shape[1]))
        else:
            word = [[prefix[t - 1]]]
            y = embed(word, target["table"], target["bias"], config["use_position"], t - 1)[:, 0]
        s, context, _, _ = decoder_step(
            y,
            s,
            memory,
            weights,
            config["heads"],
            config["kind"],
            use_layer_norm=config["use_layer_norm"],
        )
    logits = readout(y, s, context, weights["readout"])[0]
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())
