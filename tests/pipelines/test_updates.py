"""Which batches stand for an epoch."""

import numpy as np
import pytest

from pipelines.benchmark import updates


def test_a_sample_of_batches_stands_for_all():
    lengths = np.random.default_rng(0).integers(5, 40, 3000)
    ends = np.cumsum([3, 1, 60, 80, 100, 5, 90, 70, 2, 85] * 7)
    batches = np.split(np.arange(3000), ends[ends < 3000])
    words = [lengths[rows].sum() for rows in batches]
    assert abs(np.mean(words[:4]) / np.mean(words) - 1) > 0.2  # the first few do not
    sample = updates.Sample(batches, lengths, 4)
    chosen = [sample.batch(step) for step in range(4)]
    assert np.mean([lengths[rows].sum() for rows in chosen]) == pytest.approx(np.mean(words), 0.1)
    assert all(any(rows is batch for batch in batches) for rows in chosen)
    assert len({rows[0] for rows in chosen}) == 4
