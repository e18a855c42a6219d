"""DeepLAU and DeepGRU in float64, sentence by sentence, from Wang et al. (2017).

Row vectors: `y = x @ W`. Weights are nested dicts and lists:

    cell       as in `numpy_cells`, without biases
    model      source, target: tables; encoder, decoder: lists of cells; encoder_maps, decoder_maps:
               for each layer above the first "residual", a matrix [H, H] or None; attention:
               {state [H, H], word [E, H], annotation [H, H], score [H]}; initial: (kernel, bias);
               softmax [H, V]
"""

import numpy as np

from .numpy_attention import softmax
from .numpy_cells import early_reset_gru_step, l_gru_step, lau_step

STEPS = {"gru": early_reset_gru_step, "lau": lau_step, "lgru": l_gru_step}


def pass_on(x, h, connection):
    """What a layer above the first gives to the next."""
    if connection is None:
        return h
    return h + (x if isinstance(connection, str) else x @ connection)


def encode(xs, weights, kind):
    """Annotations [S, H]: the first layer left to right, the second right to left, and so on."""
    for k, w in enumerate(weights["encoder"]):
        h, states = np.zeros(w["recurrent_kernel"].shape[0]), [None] * len(xs)
        for j in range(len(xs)) if k % 2 == 0 else reversed(range(len(xs))):
            h = states[j] = STEPS[kind](xs[j], h, w, use_layer_norm=False)
        above = [
            pass_on(x, h, weights["encoder_maps"][k - 1]) if k else h
            for x, h in zip(xs, states, strict=True)
        ]
        xs = np.stack(above)
    return xs


def attend(s, y, annotations, w):
    """(10) and (11): context [H] and weights [S]."""
    scores = [
        np.tanh(s @ w["state"] + a @ w["annotation"] + y @ w["word"]) @ w["score"]
        for a in annotations
    ]
    shares = softmax(np.array(scores))
    return shares @ annotations, shares


def decode_step(y, states, annotations, weights, kind):
    """The new states, and what the top layer passes on."""
    context, _ = attend(states[0], y, annotations, weights["attention"])
    x, after = np.concatenate([context, y]), []
    for k, (w, h) in enumerate(zip(weights["decoder"], states, strict=True)):
        h = STEPS[kind](x, h, w, use_layer_norm=False)
        x = pass_on(x, h, weights["decoder_maps"][k - 1]) if k else h
        after.append(h)
    return after, x


def forward(weights, source_ids, target_ids, kind):
    """Logits `[B, T, V]` under teacher forcing; past a sentence's end they are zero."""
    source_ids, target_ids = np.asarray(source_ids), np.asarray(target_ids)
    logits = np.zeros((*target_ids.shape, weights["softmax"].shape[1]))
    for b, (source, target) in enumerate(zip(source_ids, target_ids, strict=True)):
        annotations = encode(weights["source"][source[source != 0]], weights, kind)
        kernel, bias = weights["initial"]
        first = np.tanh(annotations.mean(axis=0) @ kernel + bias)
        states, y = [first] * len(weights["decoder"]), np.zeros(weights["target"].shape[1])
        for t, word in enumerate(target[target != 0]):
            states, top = decode_step(y, states, annotations, weights, kind)
            logits[b, t] = top @ weights["softmax"]
            y = weights["target"][word]
    return logits
