"""What layers compute inside, for inspection: attention and gates."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras


class Seen(NamedTuple):
    """What a layer computed inside while it was watched, T steps of B sequences."""

    layer: keras.layers.Layer
    inner: dict[str, Any]  # `Step.inner`, or gates of another layer, [B, T, ...] each
    mask: Any  # bool [B, T]; None where every step counts


class _Watch(NamedTuple):
    layers: tuple[keras.layers.Layer, ...]  # all if empty
    seen: list[Seen]


_watch: contextvars.ContextVar[_Watch | None] = contextvars.ContextVar("watch", default=None)


@contextlib.contextmanager
def watching(*layers: keras.layers.Layer) -> Iterator[list[Seen]]:
    """Within this block layers note what they compute inside; a `TransitionRNN`, of each step.

    Dropout within cells does not reach what is noted, that of their inputs does: watch a call
    without training.

    Args:
        layers: Those that are watched; all by default.
    """
    seen: list[Seen] = []
    token = _watch.set(_Watch(layers, seen))
    try:
        yield seen
    finally:
        _watch.reset(token)


def is_watched(layer: keras.layers.Layer) -> bool:
    """Whether a layer is to `note` what it computes inside."""
    watch = _watch.get()
    return watch is not None and (not watch.layers or layer in watch.layers)


def note(layer: keras.layers.Layer, inner: dict[str, Any], mask: Any = None) -> None:
    """Notes what a layer computed inside if it is watched; see `Seen`."""
    watch = _watch.get()
    if watch is not None and is_watched(layer):
        watch.seen.append(Seen(layer, inner, mask))
