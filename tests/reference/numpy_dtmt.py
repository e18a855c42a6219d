"""The float64 twin of DTMT: one import for the model; here the loss, the optimiser, the search.

Everything follows the notes on the paper and its release, in plain Python and NumPy; nothing is
taken from `dtmt_tf`. Weights are nested dicts: cells are described at the top of `numpy_cells`, the
whole model at the top of `numpy_model`.
Row vectors throughout: `y = x @ W`, so a matrix has shape [in, out].
"""

import math

import numpy as np

from .numpy_attention import attention, embed, initial_state, positional_signal, softmax
from .numpy_cells import (
    deep_transition_step,
    gru_step,
    l_gru_step,
    lau_step,
    layer_norm,
    sigmoid,
    t_gru_step,
)
from .numpy_model import (
    PAD_ID,
    decoder_step,
    encode,
    forward,
    make_config,
    next_log_probs,
    random_weights,
    readout,
    run_encoder,
    shifted_embeddings,
)

__all__ = [
    "PAD_ID",
    "adam_step",
    "attention",
    "beam_search",
    "central_difference",
    "clip_by_global_norm",
    "decoder_step",
    "deep_transition_step",
    "embed",
    "encode",
    "exhaustive_search",
    "forward",
    "gru_step",
    "initial_state",
    "l_gru_step",
    "lau_step",
    "layer_norm",
    "learning_rate",
    "length_penalty",
    "log_softmax",
    "loss_constant",
    "make_config",
    "next_log_probs",
    "positional_signal",
    "random_weights",
    "readout",
    "run_encoder",
    "sentence_log_probs",
    "shifted_embeddings",
    "sigmoid",
    "smoothed_loss",
    "softmax",
    "t_gru_step",
]


def log_softmax(logits):
    """Log of the softmax over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def loss_constant(vocab, epsilon):
    """Entropy of the smoothed target, so that a perfect model scores 0."""
    q = epsilon / (vocab - 1)
    gold = 1.0 - epsilon
    return -(gold * math.log(gold) + (vocab - 1) * q * math.log(q + 1e-20))


def smoothed_loss(logits, target_ids, epsilon):
    """Label-smoothed cross entropy minus `loss_constant`, over the tokens that are not padding.

    Args:
        logits: [B, T, V].
        target_ids: Integers, [B, T]; 0 is padding.
        epsilon: Probability taken from the gold word and spread evenly over the V - 1 others.

    Returns:
        `(sum of the per-token losses, number of tokens)`.
    """
    vocab = logits.shape[-1]
    constant = loss_constant(vocab, epsilon)
    total, count = 0.0, 0
    for b, sentence in enumerate(np.asarray(target_ids)):
        for t, gold in enumerate(sentence):
            if gold == PAD_ID:
                continue
            target = np.full(vocab, epsilon / (vocab - 1))
            target[gold] = 1.0 - epsilon
            total += -(target @ log_softmax(logits[b, t])) - constant
            count += 1
    return total, count


def sentence_log_probs(logits, target_ids):
    """Un-smoothed log probability of each target sentence, [B]."""
    result = np.zeros(len(target_ids))
    for b, sentence in enumerate(np.asarray(target_ids)):
        for t, gold in enumerate(sentence):
            if gold != PAD_ID:
                result[b] += log_softmax(logits[b, t])[gold]
    return result


def learning_rate(t, lr0, n, p, s, e):
    """Eq. (17): warm-up, plateau, exponential decay without a floor; t counts updates from 0."""
    warm_up = 1.0 + t * (n - 1) / (n * p)
    decay = n * (2.0 * n) ** ((s - n * t) / (e - s))
    return lr0 * min(warm_up, n, decay)


def adam_step(param, grad, m, v, t, lr, beta1=0.9, beta2=0.999, epsilon=1e-6):
    """TensorFlow's Adam: `epsilon` is added to the square root of the *uncorrected* v.

    Args:
        param: Value before the step.
        grad: Gradient at that value.
        m: First moment before the step; zeros at first.
        v: Second moment before the step; zeros at first.
        t: Number of this step, counted from 1.
        lr: Learning rate.
        beta1: Decay of m.
        beta2: Decay of v.
        epsilon: See above.

    Returns:
        `(param, m, v)` after the step.
    """
    m = beta1 * m + (1.0 - beta1) * grad
    v = beta2 * v + (1.0 - beta2) * grad**2
    rate = lr * math.sqrt(1.0 - beta2**t) / (1.0 - beta1**t)
    return param - rate * m / (np.sqrt(v) + epsilon), m, v


def clip_by_global_norm(grads, max_norm):
    """Scale a list of gradients so that their joint norm is at most `max_norm`.

    Returns:
        `(list of gradients, joint norm before clipping)`.
    """
    norm = math.sqrt(sum(float(np.sum(np.square(g))) for g in grads))
    scale = max_norm / max(norm, max_norm)
    return [g * scale for g in grads], norm


def length_penalty(length, alpha, offset=5.0):
    """GNMT length penalty; `length` counts the generated tokens with <eos>."""
    return ((offset + length) / (offset + 1.0)) ** alpha


def beam_search(
    log_prob_fn, source_length, beam, alpha, vocab, eos, extra=50, max_len=None, offset=5.0
):
    """Beam search for one sentence, by the rules of the authors' released code; 1 is greedy.

    Each step takes the best 2 * beam continuations of the living hypotheses. Of these, the best
    `beam` that do not end in <eos> live on; those that do join the finished list, of which the best
    `beam` are kept. The search stops when the worst finished score is above
    `best living log p / length_penalty(max_len)`, or after `max_len` tokens; free places in the
    finished list count for nothing. Among equals the better-placed living hypothesis, then the
    lower id, comes first. Continuations of probability zero are never taken. A beam of 1 takes
    the best continuation alone.

    Args:
        log_prob_fn: `prefix tuple -> log probabilities [vocab]` of the next token; first `()`.
        source_length: Number of source tokens with <eos>.
        beam: Beam size.
        alpha: Exponent of the length penalty.
        vocab: Number of target words.
        eos: Id of <eos>.
        extra: Tokens allowed beyond `source_length`.
        max_len: Overrides `source_length + extra`.
        offset: Of the length penalty.

    Returns:
        Finished hypotheses `(ids with <eos>, log p, score)`, best score first; if there is none,
        the best living hypothesis alone, in the same form and without <eos>.
    """
    max_len = source_length + extra if max_len is None else max_len
    alive = [((), 0.0)]
    finished = []
    for length in range(1, max_len + 1):
        continuations = []
        for prefix, log_p in alive:
            log_probs = log_prob_fn(prefix)
            for token in range(vocab):
                if log_probs[token] > -math.inf:
                    continuations.append(((*prefix, token), log_p + float(log_probs[token])))
        best = sorted(continuations, key=lambda item: -item[1])[: 2 * beam if beam > 1 else 1]
        for ids, log_p in best:
            if ids[-1] == eos:
                finished.append((ids, log_p, log_p / length_penalty(length, alpha, offset)))
        finished = sorted(finished, key=lambda item: -item[2])[:beam]
        alive = [item for item in best if item[0][-1] != eos][:beam]
        if not alive:
            break
        bound = alive[0][1] / length_penalty(max_len, alpha, offset)
        if finished and finished[-1][2] > bound:
            break
    if finished:
        return finished
    return [
        (ids, log_p, log_p / length_penalty(len(ids), alpha, offset)) for ids, log_p in alive[:1]
    ]


def exhaustive_search(log_prob_fn, vocab, eos, max_len, alpha):
    """Every hypothesis of at most `max_len` tokens that ends in <eos>, best score first.

    Returns:
        List of `(ids with <eos>, log p, score)`.
    """
    found = []
    stack = [((), 0.0)]
    while stack:
        prefix, log_p = stack.pop()
        log_probs = log_prob_fn(prefix)
        for token in range(vocab):
            ids, total = (*prefix, token), log_p + float(log_probs[token])
            if total == -math.inf:
                continue
            if token == eos:
                found.append((ids, total, total / length_penalty(len(ids), alpha)))
            elif len(ids) < max_len:
                stack.append((ids, total))
    return sorted(found, key=lambda item: (-item[2], item[0]))


def central_difference(f, array, indices, step=1e-5):
    """Derivatives `(f(a + step) - f(a - step)) / (2 step)` at single entries of an array.

    Args:
        f: Function of an array of this shape to a number.
        array: Point of the derivative; left as it is, and made float64.
        indices: Index tuples.
        step: Size of the displacement.

    Returns:
        One derivative per index, [len(indices)].
    """
    result = []
    for index in indices:
        above = np.array(array, dtype=np.float64)
        below = above.copy()
        above[index] += step
        below[index] -= step
        result.append((f(above) - f(below)) / (2.0 * step))
    return np.array(result)
