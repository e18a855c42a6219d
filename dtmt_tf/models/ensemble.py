"""Several models of the same sub-words as one."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
from keras import ops

from dtmt_tf.models.translation_model import Multiplications, TranslationModel


class Ensemble(TranslationModel):
    """Predicts each token by the mean of its members' probabilities.

        p(y | ...) = 1/M sum_m p_m(y | ...)

    Members keep states of their own, and may be of different architectures.

    Args:
        members: The M models, built, with the same sub-words on both sides.
    """

    def __init__(self, members: Sequence[TranslationModel]) -> None:
        super().__init__(name="ensemble")
        self.members = list(members)
        self.readout = _Unchanged(name="readout")
        self.build()

    def build(self, *_: Any) -> None:
        """Has nothing to make: the members are built."""

    def features(
        self, source_ids: Any, target_ids: Any, training: bool = False, seeds: Any = None
    ) -> Any:
        """See the base class; these are log probabilities already, `[B, T, V]`."""
        return _mean(
            member(source_ids, target_ids, training=training, seeds=seeds)
            for member in self.members
        )

    def encode(self, source_ids: Any) -> tuple[Any, Any]:
        """See the base class."""
        states = [member.encode(source_ids) for member in self.members]
        return [hidden for hidden, _ in states], [memory for _, memory in states]

    def encodings(self, source_ids: Any) -> list[tuple[Any, Any]]:
        """See the base class: those of all members."""
        return [each for member in self.members for each in member.encodings(source_ids)]

    def decode_step(self, ids: Any, state: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        """See the base class; the logits are log probabilities."""
        steps = [
            member.decode_step(ids, each)
            for member, each in zip(self.members, zip(*state, strict=True), strict=True)
        ]
        hidden = [hidden for _, (hidden, _) in steps]
        memory = [memory for _, (_, memory) in steps]
        return _mean(logits for logits, _ in steps), (hidden, memory)

    @contextlib.contextmanager
    def among(self, tokens: Any = None) -> Iterator[None]:
        """See the base class; the tokens are those of all members."""
        with contextlib.ExitStack() as stack:
            for member in self.members:
                stack.enter_context(member.among(tokens))
            yield

    def inspect(self, source_ids: Any, target_ids: Any) -> tuple[dict[str, Any], Any]:
        """See the base class; the weights are the mean over members."""
        found = [member.inspect(source_ids, target_ids) for member in self.members]
        gates = {
            f"{k}/{name}": mean
            for k, (means, _) in enumerate(found, start=1)
            for name, mean in means.items()
        }
        return gates, ops.mean(ops.stack([weights for _, weights in found]), axis=0)

    def attention(self, source_ids: Any, target_ids: Any) -> Any:
        """See the base class; the mean over members."""
        return ops.mean(
            ops.stack([member.attention(source_ids, target_ids) for member in self.members]), axis=0
        )

    def largest_tensors(self, sentences: int, length: int) -> dict[str, int]:
        """See the base class."""
        return {
            f"{k}: {name}": size
            for k, member in enumerate(self.members, start=1)
            for name, size in member.largest_tensors(sentences, length).items()
        }

    def multiplications(self) -> Multiplications:
        """See the base class; of all members."""
        return Multiplications.total(member.multiplications() for member in self.members)

    def depths(self) -> dict[str, list[Any]]:
        """See the base class: members train alone."""
        return {}

    def modules(self) -> dict[str, list[Any]]:
        """See the base class; of all members."""
        modules: dict[str, list[Any]] = {}
        for member in self.members:
            for name, layers in member.modules().items():
                modules.setdefault(name, []).extend(layers)
        return modules


class _Unchanged(keras.layers.Layer):
    """What stands where a model has its output network."""

    def call(self, features: Any, training: bool = False, seeds: Any = None) -> Any:
        return features


def _mean(logits: Any) -> Any:
    """Returns the logarithm of the mean of the probabilities that logits `[..., V]` stand for."""
    logs = ops.stack([ops.log_softmax(ops.cast(each, "float32"), axis=-1) for each in logits])
    return ops.logsumexp(logs, axis=0) - math.log(logs.shape[0])
