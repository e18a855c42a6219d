import functools
import sys

import numpy as np
import pytest

from dtmt_tf.config import DataConfig
from dtmt_tf.data import beam, shards
from dtmt_tf.data.batch import BatchPlan
from dtmt_tf.data.pipeline import TrainingSet
from dtmt_tf.data.shards import Shards, preparation
from dtmt_tf.errors import UserError
from dtmt_tf.text import Vocabulary
from tests.data.toy_corpus import Lines, make_lines, pairs_of

OPTIONS = ["runner=FnApiRunner"]  # what DirectRunner uses where it can not download Prism


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Returns what makes the preparation of one corpus in a folder of that name."""
    monkeypatch.setattr(shards, "PAIRS_PER_SHARD", 40)
    source, target = make_lines(100), make_lines(100, seed=1)
    source[3] = target[50] = ""
    vocabulary = Vocabulary.train(source, target, DataConfig(source_vocab_size=20))
    return lambda name: preparation(tmp_path / name, Lines(source, target), vocabulary, True)


@pytest.mark.filterwarnings("default")  # Beam's own
def test_beam_makes_the_same_shards(make):
    pytest.importorskip("apache_beam")
    here, there = make("here"), make("there")
    here.run()
    there.run(functools.partial(beam.write_shards, OPTIONS))
    one, other = Shards(here.folder), Shards(there.folder)
    assert pairs_of(other) == pairs_of(one)
    rows = np.arange(98)
    assert other.texts(rows) == one.texts(rows)
    for lengths, same in zip(other.lengths(), one.lengths(), strict=True):
        assert lengths.tolist() == same.tolist()
    assert not list(there.folder.glob("beam*"))

    pairs = TrainingSet(other, 30)
    plan = BatchPlan(DataConfig(max_length=30, max_tokens_per_batch=100), pairs.lengths, 1, seed=1)
    expected = TrainingSet(one, 30).batches(plan, 0, plan.batches_per_epoch)
    for batch, same in zip(pairs.batches(plan, 0, plan.batches_per_epoch), expected, strict=True):
        assert batch.source_ids.numpy().tolist() == same.source_ids.numpy().tolist()
        assert batch.target_ids.numpy().tolist() == same.target_ids.numpy().tolist()


@pytest.mark.filterwarnings("default")
def test_beam_makes_the_missing_shard_alone(make):
    pytest.importorskip("apache_beam")
    there = make("there")
    there.run()
    expected = pairs_of(Shards(there.folder))
    times = [there.path(shard).stat().st_mtime_ns for shard in (0, 2)]
    there.path(1).unlink()
    there.run(functools.partial(beam.write_shards, OPTIONS))
    assert [there.path(shard).stat().st_mtime_ns for shard in (0, 2)] == times
    assert pairs_of(Shards(there.folder)) == expected


@pytest.mark.filterwarnings("default")
def test_an_unknown_runner_is_named(make):
    pytest.importorskip("apache_beam")
    with pytest.raises(UserError, match="--beam-options.*WalkingRunner"):
        make("there").run(functools.partial(beam.write_shards, ["runner=WalkingRunner"]))


def test_without_beam_its_package_is_named(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam.options.pipeline_options", None)
    with pytest.raises(UserError, match="pip install apache-beam"):
        make("there").run(functools.partial(beam.write_shards, OPTIONS))
