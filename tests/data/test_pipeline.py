import logging

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.data import pipeline
from dtmt_tf.data.batch import Batch, BatchPlan
from dtmt_tf.data.pipeline import TrainingSet, encode_lines
from dtmt_tf.errors import UserError


def encode_letters(texts):
    """Each letter its own id from 3 on, <eos> at the end."""
    codes = tf.strings.unicode_decode(texts, "UTF-8") - ord("a") + 3
    end = tf.ones([tf.shape(codes.row_lengths())[0], 1], tf.int32)
    return tf.concat([codes, tf.RaggedTensor.from_tensor(end)], axis=1)


def encode_twice(texts):
    """Another language: each letter twice."""
    return encode_letters(tf.strings.regex_replace(texts, "(.)", r"\1\1"))


def ids(text):
    return [ord(letter) - ord("a") + 3 for letter in text] + [1]


def make_lines(count=300, seed=0):
    random = np.random.default_rng(seed)
    return [
        "".join(random.choice(list("abcdefghij"), size=random.integers(1, 12)))
        for _ in range(count)
    ]


def training_set(source, target, max_length=30):
    return TrainingSet(source, target, encode_letters, encode_twice, max_length)


def as_list(batches):
    return [Batch(*(side.numpy() for side in batch)) for batch in batches]


def test_ids_equal_those_of_encode(monkeypatch):
    lines = make_lines()
    expected = [ids(line) for line in lines]
    assert encode_lines(lines, encode_letters).to_list() == expected
    monkeypatch.setattr(pipeline, "LINES_AT_ONCE", 7)  # many parts, still in order
    assert encode_lines(lines, encode_letters).to_list() == expected
    assert encode_lines(lines, encode_letters).dtype == tf.int32


def test_each_side_has_its_own_subwords():
    source, target = make_lines(50), make_lines(50, seed=1)
    pairs = training_set(source, target)
    assert pairs.source.to_list() == [ids(line) for line in source]
    assert pairs.target.to_list() == [
        ids("".join(2 * letter for letter in line)) for line in target
    ]
    assert pairs.num_dropped == 0
    np.testing.assert_array_equal(
        pairs.lengths,
        [max(len(s) + 1, 2 * len(t) + 1) for s, t in zip(source, target, strict=True)],
    )


def test_long_and_empty_pairs_are_dropped_and_counted_not_cut(caplog):
    source = ["abcd", "abcde", "a", "", "a", "", "abc"]
    target = ["ab", "a", "abc", "a", "", "", "ba"]
    with caplog.at_level(logging.INFO):
        pairs = training_set(source, target, max_length=5)  # with <eos>
    # Kept: 5 and 5 ids, 4 and 5 ids. Dropped: 6 on the left, 7 on the right, three empty ones.
    assert pairs.source.to_list() == [ids("abcd"), ids("abc")]
    assert pairs.target.to_list() == [ids("aabb"), ids("bbaa")]
    assert pairs.lengths.tolist() == [5, 5]
    assert pairs.num_dropped == 5
    assert "Dropped 5 of 7 training pairs" in caplog.text


def test_nothing_dropped_is_not_mentioned(caplog):
    with caplog.at_level(logging.INFO):
        training_set(["a"], ["b"])
    assert "Dropped" not in caplog.text


@pytest.mark.parametrize("source, target", [(["abcdef"], ["a"]), (["", "a"], ["a", ""])])
def test_nothing_left_is_a_user_error_that_names_the_limit(source, target):
    with pytest.raises(UserError, match=r"1 to 4 sub-words(.|\n)*data\.max_length"):
        training_set(source, target, max_length=4)


def test_batches_hold_the_planned_pairs_padded_with_zeros():
    pairs = training_set(make_lines(), make_lines(seed=1))
    plan = BatchPlan(pairs.lengths, 30, 100, 2, seed=5)
    source, target = pairs.source.to_list(), pairs.target.to_list()
    batches = as_list(pairs.batches(plan, 0, plan.batches_per_epoch))
    assert len(batches) == plan.batches_per_epoch
    for batch, rows in zip(batches, plan.epoch(0), strict=True):
        for side, sentences in zip(batch, (source, target), strict=True):
            width = max(len(sentences[k]) for k in rows)  # no wider than need be
            expected = [sentences[k] + [0] * (width - len(sentences[k])) for k in rows]
            assert side.dtype == np.int32
            assert side.tolist() == expected
    assert any((batch.source_ids == 0).any() for batch in batches)


def test_batches_are_named():
    pairs = training_set(make_lines(), make_lines(seed=1))
    plan = BatchPlan(pairs.lengths, 30, 100, 1, seed=5)
    (batch,) = pairs.batches(plan, 0, 1)
    rows = plan.batch(0)
    assert batch.source_ids[0].numpy().tolist()[: pairs.source[rows[0]].shape[0]] == (
        pairs.source[rows[0]].numpy().tolist()
    )
    assert batch.target_ids.shape[0] == len(rows)


@pytest.mark.parametrize("start", [1, 17, 40, 61])
def test_starting_in_the_middle_gives_the_same_batches(start):
    pairs = training_set(make_lines(), make_lines(seed=1))
    plan = BatchPlan(pairs.lengths, 30, 100, 1, seed=5)
    stop = 2 * plan.batches_per_epoch + 3
    assert start < stop
    everything = as_list(pairs.batches(plan, 0, stop))
    fresh = BatchPlan(pairs.lengths, 30, 100, 1, seed=5)
    rest = as_list(pairs.batches(fresh, start, stop))
    assert len(everything) == stop and len(rest) == stop - start
    for one, other in zip(everything[start:], rest, strict=True):
        assert np.array_equal(one.source_ids, other.source_ids)
        assert np.array_equal(one.target_ids, other.target_ids)


def test_nothing_to_do_gives_no_batches():
    pairs = training_set(make_lines(), make_lines(seed=1))
    plan = BatchPlan(pairs.lengths, 30, 100, 1, seed=5)
    assert as_list(pairs.batches(plan, 4, 4)) == []


def test_two_readers_of_one_plan_do_not_disturb_each_other():
    pairs = training_set(make_lines(), make_lines(seed=1))
    plan = BatchPlan(pairs.lengths, 30, 100, 1, seed=5)
    count = plan.batches_per_epoch
    one = pairs.batches(plan, 0, 3)
    other = pairs.batches(plan, count, count + 3)
    together = [
        (first.source_ids.numpy(), second.source_ids.numpy())
        for first, second in zip(one, other, strict=True)
    ]
    alone = as_list(one), as_list(other)
    for k, (first, second) in enumerate(together):
        assert np.array_equal(first, alone[0][k].source_ids)
        assert np.array_equal(second, alone[1][k].source_ids)


def letters_anew(texts, seed):
    """Ids that depend on the seed and the text alone."""
    random = np.random.default_rng(seed)
    return [[*random.integers(3, 9, len(text)).tolist(), 1] for text in texts]


def sampled_set(source, target, seed):
    samplers = letters_anew, lambda texts, seed: letters_anew(texts, seed + 1)
    return TrainingSet(source, target, encode_letters, encode_twice, 30, samplers, seed)


def test_sampled_pairs_keep_the_plan_and_change_with_every_epoch():
    source, target = make_lines(), make_lines(seed=1)
    pairs = sampled_set(source, target, seed=5)
    plan = BatchPlan(pairs.lengths, 30, 60, 1, seed=2)
    epoch = plan.batches_per_epoch
    batches = as_list(pairs.batches(plan, 0, 2 * epoch))
    for step, batch in enumerate(batches):
        for lines, ids_of_side in zip((source, target), batch, strict=True):
            lengths = [len(lines[row]) + 1 for row in plan.batch(step)]
            assert (ids_of_side > 0).sum(axis=1).tolist() == lengths
    first, second = (
        {row: batch.source_ids[k].tolist() for row, k, batch in rows}
        for rows in (
            [
                (row, k, batches[step])
                for step in range(start, start + epoch)
                for k, row in enumerate(plan.batch(step))
            ]
            for start in (0, epoch)
        )
    )
    assert sum(first[row] != second[row] for row in first) > 0.5 * len(first)


def test_sampled_batches_depend_on_seed_and_step_alone():
    source, target = make_lines(), make_lines(seed=1)
    pairs = sampled_set(source, target, seed=5)
    plan = BatchPlan(pairs.lengths, 30, 60, 1, seed=2)
    whole = as_list(pairs.batches(plan, 0, 12))
    resumed = as_list(sampled_set(source, target, seed=5).batches(plan, 7, 12))
    for batch, again in zip(whole[7:], resumed, strict=True):
        np.testing.assert_array_equal(batch.source_ids, again.source_ids)
        np.testing.assert_array_equal(batch.target_ids, again.target_ids)
    other = as_list(sampled_set(source, target, seed=6).batches(plan, 0, 1))
    assert not np.array_equal(other[0].source_ids, whole[0].source_ids)
