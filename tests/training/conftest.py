"""Graphs that are run a few times are not worth optimising."""

import pytest
import tensorflow as tf


@pytest.fixture(scope="module", autouse=True)
def plain_graphs():
    """Leaves out TensorFlow's graph optimiser, a third of the time of each small training."""
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    yield
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
