"""Languages for the search: log probabilities by a finite automaton instead of a network.

A hypothesis is at a node, carried in the search's hidden state; each word leads to another node.
"""

import math

import numpy as np
import tensorflow as tf

from dtmt_tf.config import DecodingConfig
from dtmt_tf.decoding import beam_search
from tests.reference import numpy_dtmt as ref

EOS = 1


class Automaton:
    """`log_probs[m, node, word]` and `follow[node, word]`; `m` is a sentence's memory."""

    def __init__(self, log_probs, follow):
        self.log_probs = np.asarray(log_probs, np.float32)
        self.follow = np.asarray(follow, np.int32)
        self.steps = 0  # counts calls outside graphs
        self.seen = []  # (shape of ids, of hidden, of memory) of each call

    @classmethod
    def random(cls, seed, vocab, nodes=50, memories=6, sharpness=2.0):
        """Every other memory makes <eos> rare, the last one impossible."""
        random = np.random.default_rng([seed, vocab])
        logits = sharpness * random.normal(size=(memories, nodes, vocab))
        logits[1::2, :, EOS] -= 4.0
        logits[-1, :, EOS] = -np.inf
        return cls(ref.log_softmax(logits), random.integers(0, nodes, size=(nodes, vocab)))

    @classmethod
    def scripted(cls, table, vocab):
        """From `{prefix: probabilities}`; whatever is not listed is uniform."""
        prefixes = list(table)
        nodes = {prefix: node for node, prefix in enumerate(prefixes)}
        follow = [
            [nodes.get((*prefix, word), len(nodes)) for word in range(vocab)] for prefix in prefixes
        ]
        rows = [table[prefix] for prefix in prefixes] + [[1.0 / vocab] * vocab]
        with np.errstate(divide="ignore"):
            return cls(np.log(np.array(rows))[None], [*follow, [len(nodes)] * vocab])

    def function(self, memory, start=0):
        """Log probabilities after a prefix, as the reference wants them."""

        def log_prob_fn(prefix):
            node = start
            for word in prefix:
                node = self.follow[node, word]
            return self.log_probs[memory, node].astype(np.float64)

        return log_prob_fn

    def log_prob(self, memory, start, ids):
        """Log probability of a whole hypothesis."""
        fn = self.function(memory, start)
        return sum(fn(tuple(ids[:n]))[word] for n, word in enumerate(ids))

    def state(self, memories, starts):
        """State of a search that has no word yet."""
        nodes = tf.constant(starts, tf.int32)[:, None]
        return {"node": nodes, "time": tf.zeros_like(nodes)}, tf.constant(memories, tf.int32)

    def step(self, ids, state):
        """A step function of `beam_search`."""
        hidden, memory = state
        self.steps += 1
        self.seen.append((ids.shape, hidden["node"].shape, memory.shape))
        moved = tf.gather_nd(self.follow, tf.stack([hidden["node"], ids], axis=-1))
        node = tf.where(hidden["time"] > 0, moved, hidden["node"])
        where = tf.stack([tf.repeat(memory[:, None], tf.shape(ids)[1], axis=1), node], axis=-1)
        return (
            tf.gather_nd(self.log_probs, where),
            ({"node": node, "time": hidden["time"] + 1}, memory),
        )


def n_best(hypotheses, sentence):
    """One sentence's list as `(ids, log p, score)`; also checks the padding."""
    rows = []
    lengths = hypotheses.lengths.numpy()[sentence]
    assert all(earlier > 0 or later == 0 for earlier, later in zip(lengths, lengths[1:]))  # noqa: B905
    for k, length in enumerate(lengths):
        if length > 0:
            ids = hypotheses.ids.numpy()[sentence, k]
            assert not ids[length:].any()
            rows.append(
                (
                    tuple(int(word) for word in ids[:length]),
                    float(hypotheses.log_probs[sentence, k]),
                    float(hypotheses.scores[sentence, k]),
                )
            )
    return rows


# float32 sums of at most 8 log probabilities against float64
TOLERANCE = {"rtol": 2e-6, "atol": 1e-6}


def settings(beam, alpha, **others):
    """Those of a search that looks to the end, as the plain one does."""
    settings = {"lookahead": 2**31 - 1} | others
    return DecodingConfig(beam_size=beam, length_penalty=alpha, **settings)


def search(
    language,
    memories,
    starts,
    max_lengths,
    beam,
    alpha,
    never=(),
    prefixes=None,
    wanted=None,
    begins=None,
    **others,
):
    return beam_search(
        language.step,
        language.state(memories, starts),
        tf.constant(max_lengths, tf.int32),
        settings(beam, alpha, **others),
        never=never,
        prefixes=prefixes,
        wanted=wanted,
        begins=begins,
    )


def search_one(language, max_length, beam, alpha, **options):
    return n_best(search(language, [0], [0], [max_length], beam, alpha, **options), 0)


def assert_same_list(found, expected):
    assert [ids for ids, _, _ in found] == [ids for ids, _, _ in expected]
    for (_, *values), (_, *truth) in zip(found, expected, strict=True):
        np.testing.assert_allclose(values, truth, **TOLERANCE)


def mixed_batch(size, nodes=50):
    """Memories, first nodes and maximum lengths 3 to 8, none in step with another."""
    k = np.arange(size)
    return (k % 6).tolist(), (k * 7 % nodes).tolist(), (3 + k * 5 % 6).tolist()


def barring(log_prob_fn, token, before=math.inf):
    """The same language, without a token where less than so many are there."""

    def log_probs(prefix):
        found = log_prob_fn(prefix).copy()
        if len(prefix) < before:
            found[token] = -math.inf
        return found

    return log_probs
