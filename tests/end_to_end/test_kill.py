"""A training that is killed again and again ends with the weights of one that is left alone."""

import pytest

from tests.end_to_end.killing import kill_and_compare


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    """Left alone, and killed three times."""
    return kill_and_compare(tmp_path_factory.mktemp("kills"), "transformer_tiny", 3, seed=1)


def test_the_kills_hit_a_training_that_was_under_way(trainings):
    _, killed = trainings
    assert [start.killed for start in killed.starts] == [True] * 3 + [False]
    assert all(start.seconds > start.loop for start in killed.starts)
    assert any(start.torn for start in killed.starts)


def test_every_restart_goes_on_from_the_newest_complete_checkpoint(trainings):
    _, killed = trainings
    assert [start.resumed for start in killed.starts] == [start.found for start in killed.starts]
    assert killed.starts[-1].resumed > 0
    assert not list(killed.checkpoints.folder.glob("*.damaged"))
    assert not killed.partial()  # what a kill left is cleared away


def test_the_last_state_is_that_of_the_training_left_alone(trainings):
    alone, killed = trainings
    assert len(alone.starts) == 1 and alone.starts[0].resumed == 0
    assert killed.digest() == alone.digest()
