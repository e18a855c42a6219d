"""Texts that are measured: random ids and made-up words, as long as those of Multi30k."""

import collections

import numpy as np

from dtmt_tf.commands import common
from pipelines.benchmark import command as benchmark
from pipelines.benchmark import corpora
from tests.pipelines.test_benchmark import TINY

DATA_OF_ANY_LENGTH = common.experiment(
    benchmark.parse(["train", "--set", "data.joint_vocabulary=false", "data.source_vocab_size=30",
                     "data.target_vocab_size=50", "model.tied_embeddings=none"])
)[0].data  # fmt: skip


def test_random_sentences_are_as_long_as_those_of_multi30k():
    experiment, _ = common.experiment(benchmark.parse(["train", "--set", *TINY]))
    wide = experiment.__class__(**{**vars(experiment), "data": DATA_OF_ANY_LENGTH})
    pairs = corpora.random_set(wide, 240)
    ((source, target),) = pairs.shards.blocks()
    lengths = [side.lengths for side in (source, target)]
    written = [tuple(map(int, pair.split("-"))) for pair in corpora.LENGTHS.split()]
    assert list(zip(*lengths, strict=True)) == written * 2
    assert [round(side.mean(), 1) for side in lengths] == [15.3, 15.9]
    for side, size in zip((source, target), (30, 50), strict=True):
        rows = [row.tolist() for row in np.split(side.flat, np.cumsum(side.lengths)[:-1])]
        assert all(row[-1] == 1 and min(row[:-1]) >= 3 for row in rows)
        assert size - 5 < max(map(max, rows)) < size


def test_made_up_text_is_the_same_each_time_and_as_long_as_told():
    text = corpora.RandomText(500)
    pairs = list(text.stream("train"))
    assert pairs == list(text.stream("train"))
    assert len(pairs) == 500 and len(list(text.stream("train", 100, 220))) == 120
    words = [2 * int(side) // 3 for side in corpora.LENGTHS.split()[0].split("-")]
    assert [len(side.split()) for side in pairs[0]] == words
    counts = collections.Counter(" ".join(map(" ".join, pairs)).split())
    often, seldom = (np.mean([counts[word] for word in text.words[part]])
                     for part in (slice(10), slice(100, 1000)))  # fmt: skip
    assert 10 < often / seldom < 300  # by Zipf's law, 60 and some
