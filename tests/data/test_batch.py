import dataclasses
import hashlib

import numpy as np
import pytest

from dtmt_tf.config import DataConfig
from dtmt_tf.data.batch import BatchPlan, bucket_bounds

NOTES = [8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112]
SENTENCES = [512, 409, 341, 292, 256, 204, 170, 146, 128, 102, 85, 73, 64, 51, 42, 36, 32]


def random_lengths(count=3000, longest=64, seed=0):
    return np.random.default_rng(seed).integers(2, longest + 1, size=count)


def make_plan(lengths=None, max_length=64, max_tokens=128, micro_batches=1, seed=3):
    lengths = random_lengths() if lengths is None else lengths
    data = DataConfig(max_length=max_length, max_tokens_per_batch=max_tokens)
    return BatchPlan(data, lengths, micro_batches, seed)


def same(one, other):
    return len(one) == len(other) and all(map(np.array_equal, one, other))


# Buckets.


def test_bucket_bounds_equal_the_notes():
    assert bucket_bounds(128) == [*NOTES, 128]
    assert bucket_bounds(256) == [*NOTES, 128, 160, 192, 224, 256]


@pytest.mark.parametrize(
    "max_length, bounds",
    [
        (4, [4]),
        (8, [8]),
        (9, [8, 9]),
        (10, [8, 10]),
        (16, [8, 10, 12, 14, 16]),
        (17, [8, 10, 12, 14, 16, 17]),
        (100, [*NOTES[:15], 100]),
    ],
)
def test_the_last_bucket_reaches_the_longest_pair(max_length, bounds):
    assert bucket_bounds(max_length) == bounds


def test_sentences_per_bucket_equal_the_notes():
    assert make_plan([5], 128, 4096).sizes == SENTENCES
    assert make_plan([5], 256, 4096).sizes == [*SENTENCES, 25, 21, 18, 16]


def test_slices_multiply_the_sentences_of_an_update():
    # The floor is taken for each slice, so that all micro_batches are alike.
    sizes = make_plan([5], 128, 4096, 3).sizes
    assert sizes == [3 * size for size in SENTENCES]


def test_a_bound_above_the_tokens_still_holds_one_sentence():
    assert make_plan([5], 64, 20, 2).sizes == [4, 4, *[2] * 11]


def test_a_pair_lies_in_the_smallest_bucket_that_holds_it():
    lengths = np.arange(1, 65)
    plan = make_plan(lengths)
    bounds = np.array(bucket_bounds(64))
    above = bounds[plan.buckets]
    below = np.where(plan.buckets > 0, bounds[plan.buckets - 1], 0)
    assert (lengths <= above).all() and (lengths > below).all()


def test_a_pair_over_the_limit_is_refused():
    with pytest.raises(ValueError):
        make_plan(np.array([5, 65]))


# Batches.


@pytest.mark.parametrize("micro_batches", [1, 2, 5])
def test_an_epoch_holds_every_pair_once(micro_batches):
    plan = make_plan(micro_batches=micro_batches)
    for epoch in range(3):
        batches = plan.epoch(epoch)
        assert np.array_equal(np.sort(np.concatenate(batches)), np.arange(3000))
        assert all(len(batch) > 0 for batch in batches)


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_a_batch_holds_one_bucket_within_its_size(micro_batches):
    lengths = random_lengths()
    plan = make_plan(lengths, micro_batches=micro_batches)
    bounds = bucket_bounds(64)
    partial = np.zeros(len(bounds), int)
    for batch in plan.epoch(0):
        (bucket,) = {int(np.searchsorted(bounds, lengths[k])) for k in batch}
        full = max(1, 128 // bounds[bucket]) * micro_batches
        assert len(batch) <= full
        assert lengths[batch].max() * len(batch) <= 128 * micro_batches
        partial[bucket] += len(batch) < full
    assert partial.max() == 1  # only the rest of a bucket is smaller


def test_batches_per_epoch_is_constant():
    for micro_batches in (1, 2, 7):
        plan = make_plan(micro_batches=micro_batches)
        assert {len(plan.epoch(epoch)) for epoch in range(4)} == {plan.batches_per_epoch}
    # 10 pairs of at most 8 positions and 3 of 12, with 64 tokens: 8 + 2 and 3.
    plan = make_plan([5] * 10 + [12] * 3, 12, 64)
    assert plan.batches_per_epoch == 3
    assert sorted(len(batch) for batch in plan.epoch(0)) == [2, 3, 8]


def test_steps_run_through_the_epochs():
    plan = make_plan()
    per_epoch = plan.batches_per_epoch
    steps = [plan.batch(step) for step in range(3 * per_epoch)]
    for epoch in range(3):
        assert same(steps[epoch * per_epoch : (epoch + 1) * per_epoch], plan.epoch(epoch))


def test_a_batch_is_a_function_of_seed_and_step_alone():
    plan = make_plan()
    expected = [plan.batch(step) for step in range(2 * plan.batches_per_epoch)]
    order = np.random.default_rng(1).permutation(len(expected))
    again = make_plan()
    for step in order:
        assert np.array_equal(again.batch(int(step)), expected[step])
    last = len(expected) - 1
    assert np.array_equal(make_plan().batch(last), expected[last])  # nothing was asked before


def test_the_order_is_that_of_earlier_versions():
    # A checkpoint of theirs goes on only if its position still means the same pairs.
    digest = hashlib.sha256()
    for batch in make_plan(micro_batches=2).epoch(1):
        digest.update(batch.astype(np.int64).tobytes())
    assert digest.hexdigest()[:16] == "96aa59258c581ccb"


def test_a_plan_is_lean():
    plan = make_plan()
    assert plan.buckets.dtype == np.int8
    assert {batch.dtype for batch in plan.epoch(0)} == {np.dtype(np.int32)}


def test_global_randomness_is_neither_read_nor_moved():
    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    expected = make_plan().epoch(0)
    assert np.array_equal(np.random.get_state()[1], before)
    np.random.seed(6)
    assert same(make_plan().epoch(0), expected)


def test_epochs_and_seeds_differ():
    plan = make_plan()
    assert not same(plan.epoch(0), plan.epoch(1))
    assert not same(plan.epoch(0), make_plan(seed=4).epoch(0))
    # Not only the order of batches: their pairs change company.
    sets = [{frozenset(batch.tolist()) for batch in plan.epoch(epoch)} for epoch in (0, 1)]
    assert len(sets[0] & sets[1]) < len(sets[0]) / 5
    # Seed 3, epoch 4 is not seed 4, epoch 3.
    assert not same(plan.epoch(4), make_plan(seed=4).epoch(3))


def test_the_length_of_a_batch_does_not_tell_its_place():
    lengths = random_lengths()
    longest = [lengths[batch].max() for batch in make_plan(lengths).epoch(0)]
    place = np.arange(len(longest))
    assert abs(np.corrcoef(place, longest)[0, 1]) < 0.2  # near 1 without shuffling


def test_sentences_of_a_bucket_are_shuffled_before_they_are_cut():
    plan = make_plan(np.full(1000, 5), 8, 80)
    spans = [batch.max() - batch.min() for batch in plan.epoch(0)]
    assert np.mean(spans) > 700  # 9 if pairs stayed with their neighbours


def test_batches_of_so_many_sentences_have_them_whatever_their_length():
    lengths = np.array([5] * 7 + [60] * 3)
    data = DataConfig(max_length=64, max_tokens_per_batch=100, sentences_per_batch=2)
    plan = BatchPlan(data, lengths, micro_batches=2, seed=1)
    assert set(plan.sizes) == {4}
    assert sorted(map(len, plan.epoch(0))) == [3, 3, 4]
    assert BatchPlan(dataclasses.replace(data, sentences_per_batch=0), lengths, 2, 1).sizes[0] == 24
    assert (data.batch_size(8), data.batch_size(64)) == (2, 2)
