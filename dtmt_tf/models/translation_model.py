"""What training, search and export ask of an architecture."""

from __future__ import annotations

import abc
import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import keras

from dtmt_tf.settings import setting


def tying(default: str) -> Any:
    """Returns the setting `tied_embeddings`."""
    return setting(
        default,
        "target: its table is the softmax's; all: the source's, too",
        choices=("none", "target", "all"),
    )


class Multiplications(NamedTuple):
    """Products with weights and of attention in the forward pass, in multiplications each."""

    sentence: int = 0  # for each sentence
    source: int = 0  # for each source token
    target: int = 0  # for each target token
    pair: int = 0  # for each pair of a source and a target token of a sentence
    source_pair: int = 0  # for each pair of source tokens of a sentence, each with itself too
    target_pair: int = 0  # of target tokens, likewise; those that a mask leaves out count

    @classmethod
    def total(cls, parts: Iterable[Multiplications]) -> Multiplications:
        """Returns the sum of all parts."""
        return cls(*map(sum, zip(*parts, strict=True)))


def elements(layers: Iterable[Any]) -> int:
    """Returns the number of elements of all kernels of some layers."""
    weights = {id(w): w for layer in layers for w in layer.trainable_variables}
    return sum(math.prod(w.shape) for w in weights.values() if w.name.endswith("kernel"))


class TranslationModel(keras.Model, abc.ABC):
    """A sequence-to-sequence model over ids; 0 pads, 1 ends a sentence.

    Training reads `features` and `readout`; search reads `encode` and `decode_step`. Both roads
    share their layers, so that a forced and a searched prefix score the same.

    Attributes:
        source_embedding: The `TokenEmbedding` of source tokens.
        readout: Turns features into logits; its last layer is an `Affine` called `logits`.
    """

    source_embedding: Any
    readout: Any

    @abc.abstractmethod
    def features(
        self, source_ids: Any, target_ids: Any, training: bool = False, seeds: Any = None
    ) -> Any:
        """Runs the model under teacher forcing up to the output network.

        Args:
            source_ids: `[B, S]`, each sentence with <eos>, padded at the end.
            target_ids: `[B, T]`, the tokens to be predicted, likewise. Shifted inside.
            training: Whether dropout is active.
            seeds: A `keras.random.SeedGenerator` for dropout masks.

        Returns:
            `[B, T, F]`, one row for each target token; `readout` turns rows into logits.
        """

    @abc.abstractmethod
    def encode(self, source_ids: Any) -> tuple[Any, Any]:
        """Reads the sources; returns `(hidden, memory)` of a search that has no token yet.

        Tensors of `hidden` are `[B, 1, ...]`, one hypothesis; those of `memory` `[B, ...]`.
        """

    @abc.abstractmethod
    def encodings(self, source_ids: Any) -> list[tuple[Any, Any]]:
        """Returns each encoder's top: its states `[B, R, H]`, and which count, bool `[B, R]`."""

    @abc.abstractmethod
    def decode_step(self, ids: Any, state: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        """Moves K hypotheses of each sentence by one token.

        Args:
            ids: The previous tokens, `[B, K]`; ignored at the first step.
            state: `(hidden, memory)`, tensors `[B, K, ...]` and `[B, ...]`.

        Returns:
            `(logits, state)`, logits `[B, K, V]`.
        """

    @contextlib.contextmanager
    def among(self, tokens: Any = None) -> Iterator[None]:
        """Within this block logits are those of some target tokens alone, `[..., W]`.

        Args:
            tokens: Their ids, in the order of the logits, `[W]`; all by default.
        """
        with self.readout.logits.among(tokens):
            yield

    @abc.abstractmethod
    def inspect(self, source_ids: Any, target_ids: Any) -> tuple[dict[str, Any], Any]:
        """Looks inside under teacher forcing, without dropout.

        Returns:
            Scalars by name (such as "query/lgru/z", the mean of a gate), and the attention's
            weights, mean over heads, `[B, T, S]`.
        """

    def attention(self, source_ids: Any, target_ids: Any) -> Any:
        """Returns what `inspect` tells of the attention alone, `[B, T, S]`."""
        return self.inspect(source_ids, target_ids)[1]

    @abc.abstractmethod
    def modules(self) -> dict[str, list[Any]]:
        """Layers by the module of the model they belong to, for parameter counts."""

    @abc.abstractmethod
    def depths(self) -> dict[str, list[Any]]:
        """Weights by module and depth ("query/tgru_1"), whose gradients' norms are shown."""

    @abc.abstractmethod
    def multiplications(self) -> Multiplications:
        """Arithmetic under teacher forcing."""

    @abc.abstractmethod
    def largest_tensors(self, sentences: int, length: int) -> dict[str, int]:
        """Elements of the largest activations that one training batch keeps, by name.

        Args:
            sentences: Rows of the batch.
            length: Length of both sides.
        """

    def call(
        self, source_ids: Any, target_ids: Any, training: bool = False, seeds: Any = None
    ) -> Any:
        """Returns the logits of every target token under teacher forcing, `[B, T, V]`."""
        features = self.features(source_ids, target_ids, training, seeds)
        return self.readout(features, training=training, seeds=seeds)

    def parameter_counts(self) -> dict[str, int]:
        """Trainable parameters of each module; what modules share counts for the first."""
        seen: set[int] = set()
        counts = {}
        for name, layers in self.modules().items():
            own = {id(v): v for layer in layers for v in layer.trainable_variables}
            counts[name] = sum(math.prod(v.shape) for key, v in own.items() if key not in seen)
            seen |= own.keys()
        return counts
