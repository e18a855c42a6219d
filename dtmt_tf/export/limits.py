"""What a request may ask for at most: checks in the graph, before the work that they bound.

A check that fails ends the request with INVALID_ARGUMENT and the limit's name and value.
"""

from __future__ import annotations

from dataclasses import fields

import tensorflow as tf

from dtmt_tf.config import ExportConfig

SECTION = "export"  # of the settings, as the messages name them


def limit_lines(limits: ExportConfig | None, *texts: tf.Tensor) -> list[tf.Tensor]:
    """Returns a request's inputs, each `[B]`; they cannot be read before they are checked.

    Args:
        limits: The limits, if there are any.
        texts: The inputs.

    Raises:
        tf.errors.InvalidArgumentError: If they are not one text a row, are not equally many, or
            exceed `max_lines` or `max_bytes`.
    """
    texts = tuple(tf.ensure_shape(text, [None]) for text in texts)
    number = tf.size(texts[0])
    checks = [
        tf.debugging.assert_equal(tf.size(text), number, "All inputs should have as many texts.")
        for text in texts[1:]
    ]
    if limits:
        checks.append(_at_most(limits, "max_lines", "A request may hold at most {} lines", number))
        longest = tf.reduce_max(tf.concat([[0], *map(tf.strings.length, texts)], axis=0))
        checks.append(_at_most(limits, "max_bytes", "A line may hold at most {} bytes", longest))
    with tf.control_dependencies(checks):
        return [tf.identity(text) for text in texts]


def limit_parts(limits: ExportConfig, parts: tf.RaggedTensor, owners: tf.Tensor) -> tf.RaggedTensor:
    """Returns the parts of a request's lines; they cannot be read before they are checked.

    Args:
        limits: The limits.
        parts: Sub-words `[P, (n)]`.
        owners: The line of each part, `[P]`.

    Raises:
        tf.errors.InvalidArgumentError: If a line has more than `max_parts`.
    """
    most = tf.reduce_max(tf.concat([tf.math.bincount(owners), [0]], axis=0))
    message = "A line may be cut into at most {} parts"
    with tf.control_dependencies([_at_most(limits, "max_parts", message, most)]):
        return parts.with_flat_values(tf.identity(parts.flat_values))


def limit_tokens(limits: ExportConfig, ids: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """Returns ids; they cannot be read before the work that they mean is checked.

    Args:
        limits: The limits.
        ids: Ids of any shape.
        tokens: How many tokens they make the model write, or score, at most; a number each, `[N]`.

    Raises:
        tf.errors.InvalidArgumentError: If their sum exceeds `max_tokens`.
    """
    message = "A request may make the model write or score at most {} tokens"
    check = _at_most(limits, "max_tokens", message, tf.reduce_sum(tokens))
    with tf.control_dependencies([check]):
        return tf.identity(ids)


def described(limits: ExportConfig) -> dict[str, int]:
    """Returns the limits by name; they are the settings that are numbers."""
    values = {item.name: getattr(limits, item.name) for item in fields(limits)}
    return {name: value for name, value in values.items() if isinstance(value, int)}


def _at_most(limits: ExportConfig, name: str, message: str, value: tf.Tensor) -> tf.Operation:
    """Returns the operation that fails if a value is above a limit."""
    limit = getattr(limits, name)
    text = f"{message.format(limit)} ({SECTION}.{name}). Received:"
    return tf.debugging.Assert(value <= limit, [text, value])
