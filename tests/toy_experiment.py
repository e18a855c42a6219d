"""A task and an architecture with a setting of every type."""

from dataclasses import dataclass

import pytest

from dtmt_tf.config import DataConfig, ModelConfig, Task, TrainingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import resolve


@dataclass(frozen=True)
class ToyConfig(ModelConfig):
    """An architecture with a setting of every type."""

    units: int = 8
    num_heads: int = 2
    context_dim: int | None = None
    cell: str = "lgru"
    use_layer_norm: bool = True
    initializer_range: float = 0.08

    def build(self, source_vocab_size, target_vocab_size, training):
        return None


TASK = Task(
    name="toy",
    description="Nothing",
    model="toy8",
    data=DataConfig(source_language="en", target_language="de", max_length=64),
    training=TrainingConfig(max_steps=100, average="none"),
)


def resolved(*overrides, task=TASK, model=None):
    return resolve(task, "toy8", ToyConfig() if model is None else model, overrides)


def message(*overrides):
    with pytest.raises(UserError) as error:
        resolved(*overrides)
    return str(error.value)
