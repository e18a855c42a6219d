"""What a validator shows of its run."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DataConfig
from dtmt_tf.runs import Run
from dtmt_tf.runs.validator import RunValidator
from dtmt_tf.text import Vocabulary

LINES = ["a dog runs in the grass", "two dogs run", "a cat sleeps on a mat"]


@pytest.mark.parametrize("longest", [5, 400])
def test_pairs_are_inspected_no_longer_than_training_reads_them(longest):
    vocabulary = Vocabulary.train(LINES * 5, LINES * 5, DataConfig(source_vocab_size=40))
    strange = [text.replace(" ", "\u00a0") for text in LINES]  # read as plain blanks
    targets = [text * 20 for text in LINES]
    lines = strange, [f"\t{text} " for text in targets]
    run = SimpleNamespace(
        corpus=SimpleNamespace(lines=lambda split, count: lines, sizes={"train": 3}),
        experiment=SimpleNamespace(data=DataConfig(max_length=longest)),
        shown_split="train",
        vocabulary=vocabulary,
    )
    seen = []

    def inspect(source, target):
        seen.extend((source, target))
        return {"gate": tf.constant(0.5)}, tf.zeros([len(source), target.shape[1], source.shape[1]])

    gates, attention, subwords = RunValidator(run, SimpleNamespace(inspect=inspect)).inspect()
    # a source that is cut still ends, as those that are translated
    source = vocabulary.source.encode(tf.constant(LINES), longest).to_tensor()
    target = vocabulary.target.encode(tf.constant(targets))[:, :longest].to_tensor()
    np.testing.assert_array_equal(seen[0], source)
    np.testing.assert_array_equal(seen[1], target)
    assert gates == {"gate": 0.5}
    assert attention.shape == (3, seen[1].shape[1], seen[0].shape[1])
    lengths = [np.count_nonzero(ids[row]) for row in range(3) for ids in seen]
    assert [len(each) for each in subwords] == lengths and max(lengths) <= longest


def test_a_batch_is_shown_as_texts_of_its_two_sides():
    german = ["EIN HUND RENNT", "ZWEI HUNDE", "EINE KATZE SCHLÄFT"]
    sizes = DataConfig(joint_vocabulary=False, source_vocab_size=40, target_vocab_size=45)
    vocabulary = Vocabulary.train(LINES * 5, german * 5, sizes)
    run = SimpleNamespace(corpus=SimpleNamespace(sizes={}), vocabulary=vocabulary)
    ids = [
        side.encode(tf.constant(texts)).to_tensor()
        for side, texts in ((vocabulary.source, LINES), (vocabulary.target, german))
    ]
    assert RunValidator(run, None).texts(*ids) == list(zip(LINES, german, strict=True))


def test_samples_are_of_training_where_no_validation_pair_has_text():
    text = {"train": (["a", "b"], ["A", "B"]), "validation": (["a"], [" "])}
    corpus = SimpleNamespace(lines=lambda split, count: text[split])
    run = SimpleNamespace(corpus=corpus, shown_split="validation")
    assert {*Run.samples(run)} == {("a", "A"), ("b", "B")}
