import logging

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DataConfig
from dtmt_tf.data import shards
from dtmt_tf.data.batch import Batch, BatchPlan
from dtmt_tf.data.pipeline import BATCHES_AHEAD, TrainingSet
from dtmt_tf.errors import UserError
from tests.data.toy_corpus import encode_letters, encode_twice, ids, make_lines, make_shards


@pytest.fixture
def training_set(tmp_path, monkeypatch):
    """Returns what makes a training set, in shards of 64 pairs."""
    monkeypatch.setattr(shards, "PAIRS_PER_SHARD", 64)

    def make(source=None, target=None, max_length=30):
        source = make_lines() if source is None else source
        target = make_lines(seed=1) if target is None else target
        return TrainingSet(make_shards(tmp_path, source, target), max_length)

    return make


def make_plan(pairs, max_tokens, seed, max_length=30, micro_batches=1):
    data = DataConfig(max_length=max_length, max_tokens_per_batch=max_tokens)
    return BatchPlan(data, pairs.lengths, micro_batches, seed)


def in_memory(plan, source, target, steps):
    """The batches of a plan, made of lists."""
    for step in steps:
        rows = plan.batch(step)
        batch = [
            encode_letters([source[row] for row in rows]),
            encode_twice([target[row] for row in rows]),
        ]
        widths = [max(map(len, side)) for side in batch]  # no wider than need be
        yield [
            [row + [0] * (width - len(row)) for row in side]
            for side, width in zip(batch, widths, strict=True)
        ]


def as_list(batches):
    return [Batch(*(side.numpy() for side in batch)) for batch in batches]


def as_lists(batches):
    return [[side.numpy().tolist() for side in batch] for batch in batches]


def test_letting_go_of_batches_waits_for_no_tuner(training_set):
    pairs = training_set()
    batches = pairs.batches(make_plan(pairs, 200, seed=1), 0, 3)
    assert batches.options().autotune.enabled is False


def test_the_longer_side_counts(training_set):
    source, target = make_lines(50), make_lines(50, seed=1)
    pairs = training_set(source, target)
    assert pairs.num_dropped == 0
    np.testing.assert_array_equal(
        pairs.lengths,
        [max(len(s) + 1, 2 * len(t) + 1) for s, t in zip(source, target, strict=True)],
    )


def test_long_and_empty_pairs_are_dropped_and_counted_not_cut(training_set, caplog):
    source = ["abcd", "abcde", "a", "", "a", "", "abc"]
    target = ["ab", "a", "abc", "a", "", "", "ba"]
    with caplog.at_level(logging.INFO):
        pairs = training_set(source, target, max_length=5)  # with <eos>
    # Kept: 5 and 5 ids, 4 and 5 ids. Dropped: 6 on the left, 7 on the right, three empty ones.
    assert pairs.lengths.tolist() == [5, 5]
    assert pairs.num_dropped == 5
    assert "Dropped 5 of 7 training pairs" in caplog.text
    ((sources, targets),) = as_lists(
        pairs.batches(make_plan(pairs, 16, seed=0, max_length=5), 0, 1)
    )
    assert sorted(zip(sources, targets, strict=True)) == [
        ([*ids("abc"), 0], ids("bbaa")),
        (ids("abcd"), ids("aabb")),
    ]


def test_nothing_dropped_is_not_mentioned(training_set, caplog):
    with caplog.at_level(logging.INFO):
        training_set(["a"], ["b"])
    assert "Dropped" not in caplog.text


@pytest.mark.parametrize("source, target", [(["abcdef"], ["a"]), (["", "a"], ["a", ""])])
def test_nothing_left_is_a_user_error_that_names_the_limit(training_set, source, target):
    with pytest.raises(UserError, match=r"1 to 4 sub-words(.|\n)*data\.max_length"):
        training_set(source, target, max_length=4)


def test_batches_hold_the_planned_pairs_padded_with_zeros(training_set):
    source, target = make_lines(), make_lines(seed=1)
    source[70] = target[200] = "abcdefghij" * 3  # too long
    pairs = training_set(source, target)
    kept = [k for k in range(300) if k not in (70, 200)]
    source, target = ([lines[k] for k in kept] for lines in (source, target))
    plan = make_plan(pairs, 100, seed=5, micro_batches=2)
    steps = range(2 * plan.batches_per_epoch)
    batches = list(pairs.batches(plan, 0, len(steps)))
    assert {side.dtype for batch in batches for side in batch} == {tf.int32}
    assert as_lists(batches) == list(in_memory(plan, source, target, steps))
    assert any((batch.source_ids.numpy() == 0).any() for batch in batches)


def test_batches_are_named(training_set):
    pairs = training_set()
    plan = make_plan(pairs, 100, seed=5)
    (batch,) = pairs.batches(plan, 0, 1)
    ((source, target),) = in_memory(plan, make_lines(), make_lines(seed=1), [0])
    assert batch.source_ids.numpy().tolist() == source
    assert batch.target_ids.numpy().tolist() == target


@pytest.mark.parametrize("start", [1, 17, 40, 61])
def test_starting_in_the_middle_gives_the_same_batches(training_set, start):
    pairs = training_set()
    plan = make_plan(pairs, 100, seed=5)
    stop = 2 * plan.batches_per_epoch + 3
    assert start < stop
    everything = as_list(pairs.batches(plan, 0, stop))
    fresh = make_plan(pairs, 100, seed=5)
    rest = as_list(pairs.batches(fresh, start, stop))
    assert len(everything) == stop and len(rest) == stop - start
    for one, other in zip(everything[start:], rest, strict=True):
        assert np.array_equal(one.source_ids, other.source_ids)
        assert np.array_equal(one.target_ids, other.target_ids)


def test_nothing_to_do_gives_no_batches(training_set):
    pairs = training_set()
    plan = make_plan(pairs, 100, seed=5)
    assert as_list(pairs.batches(plan, 4, 4)) == []


def test_two_readers_of_one_plan_do_not_disturb_each_other(training_set):
    pairs = training_set()
    plan = make_plan(pairs, 100, seed=5)
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


@pytest.mark.parametrize("worker", [0, 1, 2])
def test_a_worker_reads_its_rows_alone_padded_like_all(training_set, monkeypatch, worker):
    pairs = training_set()
    plan = make_plan(pairs, 100, seed=5)
    read, rows_read = pairs.shards._read, []
    monkeypatch.setattr(
        pairs.shards, "_read", lambda rows: rows_read.append(rows.tolist()) or read(rows)
    )
    stop = plan.batches_per_epoch

    def take(rows):
        return rows[worker::3]

    batches = as_lists(pairs.batches(plan, 0, stop, take))
    assert rows_read[:stop] == [take(plan.batch(step)).tolist() for step in range(stop)]
    whole = in_memory(plan, make_lines(), make_lines(seed=1), range(stop))
    for batch, sides in zip(batches, whole, strict=True):
        assert batch == [take(side) for side in sides]
    assert [[], []] in batches or worker == 0  # the rest of a bucket may be smaller


def test_no_more_is_read_than_a_few_batches_ahead(training_set, monkeypatch):
    pairs = training_set()
    plan = make_plan(pairs, 30, seed=5)
    read, sizes = pairs.shards._read, []
    monkeypatch.setattr(pairs.shards, "_read", lambda rows: sizes.append(len(rows)) or read(rows))
    batches = iter(pairs.batches(plan, 0, 50 * plan.batches_per_epoch))
    next(batches)
    beside = sum(1 for _ in pairs.batches(plan, 0, 200))  # meanwhile it may run ahead
    assert 0 < len(sizes) - beside <= 1 + BATCHES_AHEAD
    assert max(sizes) <= max(plan.sizes)


def letters_anew(texts, seed):
    """Ids that depend on the seed and the text alone."""
    random = np.random.default_rng(seed)
    return [[*random.integers(3, 9, len(text)).tolist(), 1] for text in texts]


@pytest.fixture
def sampled_set(tmp_path):
    made = make_shards(tmp_path, make_lines(), make_lines(seed=1), with_text=True)
    samplers = letters_anew, lambda texts, seed: letters_anew(texts, seed + 1)
    return lambda seed: TrainingSet(made, 30, samplers, seed)


def test_sampled_pairs_keep_the_plan_and_change_with_every_epoch(sampled_set):
    source, target = make_lines(), make_lines(seed=1)
    pairs = sampled_set(seed=5)
    plan = make_plan(pairs, 60, seed=2)
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


def test_sampled_batches_depend_on_seed_and_step_alone(sampled_set):
    pairs = sampled_set(seed=5)
    plan = make_plan(pairs, 60, seed=2)
    whole = as_list(pairs.batches(plan, 0, 12))
    resumed = as_list(sampled_set(seed=5).batches(plan, 7, 12))
    for batch, again in zip(whole[7:], resumed, strict=True):
        np.testing.assert_array_equal(batch.source_ids, again.source_ids)
        np.testing.assert_array_equal(batch.target_ids, again.target_ids)
    other = as_list(sampled_set(seed=6).batches(plan, 0, 1))
    assert not np.array_equal(other[0].source_ids, whole[0].source_ids)


def test_a_worker_gets_its_rows_of_the_sampled_batch(sampled_set):
    pairs = sampled_set(seed=5)
    plan = make_plan(pairs, 60, seed=2)
    whole = as_lists(pairs.batches(plan, 0, 12))
    own = as_lists(pairs.batches(plan, 0, 12, lambda rows: rows[1::2]))
    assert own == [[side[1::2] for side in batch] for batch in whole]


def test_sampling_needs_text(tmp_path):
    made = make_shards(tmp_path, ["a"], ["b"])
    with pytest.raises(UserError, match="holds no text.*subword_dropout_rate"):
        TrainingSet(made, 30, (letters_anew, letters_anew))
