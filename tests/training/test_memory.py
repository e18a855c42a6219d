"""How much a process can still take, and that a training asks before it begins."""

import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.training import memory
from tests.training.toy_trainer import make_trainer, weights_of

MACHINE = 8_000_000 * 1024


@pytest.fixture
def container(tmp_path, monkeypatch):
    """Says that 6 GB are used in a container, 5 of them by files that were read."""
    (tmp_path / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    (tmp_path / "memory.current").write_text("6000000000\n")
    (tmp_path / "memory.stat").write_text(
        "anon 900000000\nfile 5100000000\ninactive_file 4000000000\nactive_file 1000000000\n"
    )
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CONTAINER", tmp_path)
    return tmp_path / "memory.max"


@pytest.mark.parametrize("former", [(2**60, 2**61), (-1, 2**60), (-1, -1), (4096, 4096)])
def test_a_limit_that_there_was_is_never_raised(monkeypatch, former):
    limits = []
    monkeypatch.setattr(memory.resource, "getrlimit", lambda what: former)
    monkeypatch.setattr(memory.resource, "setrlimit", lambda what, both: limits.append(both))
    with memory.no_more_than_there_is():
        pass
    (soft, hard), after = limits
    assert after == former and hard == former[1]
    assert 0 < soft <= min([2**59, *(limit for limit in former if limit != -1)])


@pytest.mark.parametrize(
    "limit, free",
    [
        ("7000000000", 6_000_000_000),  # the room of files is given back
        ("900000000", 0),
        ("100000000000", MACHINE),  # more than the machine has
        ("max", MACHINE),
        (None, MACHINE),
    ],
)
def test_a_container_gives_what_its_limit_leaves(container, limit, free):
    if limit:
        container.write_text(f"{limit}\n")
    assert memory.available() == free


@pytest.mark.graphs  # whose memory it is
def test_memory_that_does_not_suffice_is_told_before_training(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path)
    before = weights_of(trainer)
    trainer.rehearse()
    assert weights_of(trainer) == before
    assert int(trainer.training_step.optimizer.iterations.numpy()) == 0
    assert trainer.checkpoints.steps() == [0]  # to go back to, and whether the disk has room
    monkeypatch.setattr(memory, "available", lambda: 0)
    monkeypatch.setattr(trainer.plan, "largest", lambda: [(2_000_000, 16)])
    with pytest.raises(UserError, match="Halve data.max_tokens_per_batch"):
        trainer.rehearse()


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize(
    ("sizes", "rehearsed"),
    [
        ([3, 1, 1], [(1, 32)]),
        ([8, 6, 2], [(6, 16), (2, 32)]),
        ([5, 2, 1], [(5, 8), (1, 32)]),
        ([4, 2, 1], [(1, 32)]),
        ([9, 6, 1], [(6, 16)]),
    ],
    ids=str,
)
def test_batches_of_most_positions_and_of_most_attention_are_rehearsed(
    tmp_path, monkeypatch, sizes, rehearsed
):
    trainer = make_trainer(tmp_path)
    trainer.plan.bounds, trainer.plan.sizes = [8, 16, 32, 64], [*sizes, 9]
    trainer.plan._counts = [99, 99, 99, 0]  # what no pair is as long as takes no memory
    shapes = []
    monkeypatch.setattr(
        trainer.training_step, "rehearse", lambda ids, _: shapes.append(tuple(ids.shape))
    )
    trainer.rehearse()
    assert shapes == rehearsed
