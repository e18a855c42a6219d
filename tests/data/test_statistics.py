import numpy as np

from dtmt_tf.config import UNK_ID, DataConfig
from dtmt_tf.data import shards
from dtmt_tf.data.shards import Shards, preparation
from dtmt_tf.data.statistics import HEADER, Figures, table
from dtmt_tf.text import Vocabulary
from tests.data.toy_corpus import Lines, make_lines


def expected_row(name, side, ids, vocab_size):
    lengths = np.array([len(row) for row in ids])
    flat = np.concatenate(ids)
    return (
        f"{name:<12} {side:<4} {len(ids):>10,} {len(flat):>13,} {lengths.mean():>6.1f} "
        f"{np.percentile(lengths, 50):>6.0f} {lengths.max():>6} "
        f"{100 * (flat == UNK_ID).mean():>7.3f}% {len(set(flat)):>7,}/{vocab_size:,}"
    )


def test_figures_are_those_of_all_sentences_at_once():
    random = np.random.default_rng(0)
    for count in (1, 2, 99, 100):
        ids = [random.integers(1, 40, size=random.integers(1, 60)).tolist() for _ in range(count)]
        figures = Figures("train", "en", 50)
        for block in (ids[:30], ids[30:]):
            if block:
                figures.add(np.concatenate(block), np.array([len(row) for row in block]))
        assert figures.row() == expected_row("train", "en", ids, 50)


def test_the_table_has_both_sides_of_every_part(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "PAIRS_PER_SHARD", 40)
    source, target = make_lines(100), make_lines(100, seed=1)
    data = DataConfig(source_vocab_size=18, target_vocab_size=16, joint_vocabulary=False)
    vocabulary = Vocabulary.train(source, target, data)
    corpus = Lines(source, target)
    corpus.pairs[7] = "", "a"
    corpus.sizes["test"] = 2
    train = corpus.stream
    test = [("abc", "x"), ("a", "ab")]
    corpus.stream = lambda part, *ends: iter(test) if part == "test" else train(part, *ends)
    made = preparation(tmp_path, corpus, vocabulary, False)
    made.run()
    del source[7], target[7]
    parts = {"train": (source, target), "test": (["abc", "a"], ["x", "ab"])}
    rows = [HEADER]
    for part, sides in parts.items():
        for side, lines, language in zip(
            (vocabulary.source, vocabulary.target), sides, ("en", "de"), strict=True
        ):
            rows.append(expected_row(part, language, side.encode(lines).to_list(), side.size))
    found = table(corpus, Shards(made.folder), vocabulary, ("en", "de"))
    assert found.split("\n") == rows
