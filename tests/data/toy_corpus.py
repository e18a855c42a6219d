"""Small corpora, and sub-words that are their letters."""

import numpy as np

from dtmt_tf.data.shards import Preparation, Shards

IMPORTING = """
from dtmt_tf import startup
with startup.without(startup.UNUSED), startup.kept():
    import tensorflow
"""  # what a process of a test's own begins with: TensorFlow starts sooner


class Lines:
    """A corpus of two lists."""

    def __init__(self, source, target):
        self.pairs = list(zip(source, target, strict=True))
        self.sizes = {"train": len(self.pairs)}
        self.fingerprint = "of these lines"

    def stream(self, part, start=0, stop=None):
        assert part == "train"
        return iter(self.pairs[start:stop])


def ids(text):
    """Each letter its own id from 3 on, <eos> at the end."""
    return [ord(letter) - ord("a") + 3 for letter in text] + [1]


def encode_letters(texts):
    return [ids(text) for text in texts]


def encode_twice(texts):
    """Another language: each letter twice."""
    return [ids("".join(2 * letter for letter in text)) for text in texts]


ENCODERS = encode_letters, encode_twice


def make_lines(count=300, seed=0):
    random = np.random.default_rng(seed)
    return [
        "".join(random.choice(list("abcdefghij"), size=random.integers(1, 12)))
        for _ in range(count)
    ]


def make_shards(folder, source, target, encoders=ENCODERS, with_text=False):
    Preparation(folder, Lines(source, target), encoders, with_text).run()
    return Shards(folder)


def pairs_of(shards):
    """All pairs of shards, as lists of ids."""
    return [
        tuple(ids.tolist() for ids in pair)
        for block in shards.blocks()
        for pair in zip(
            *(np.split(side.flat, np.cumsum(side.lengths)[:-1]) for side in block), strict=True
        )
    ]
