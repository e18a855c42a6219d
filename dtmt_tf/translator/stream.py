"""Long inputs in pieces that keep memory and waiting bounded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from dtmt_tf.errors import Refused

WAIT_SECONDS = 1.0  # that answers of one piece should take at most

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def paced(
    rows: Iterable[Asked],
    answer: Callable[[list[Asked]], Sequence[Answer]],
    least: int,
    most: int,
    ready: Callable[[], bool] = lambda: True,
    refuse: Callable[[Asked, Refused], Answer] | None = None,
) -> Iterator[Answer]:
    """Yields the answers to rows in their order, however many there are.

    Reads a piece, answers it, yields its answers, and reads the next. Pieces are doubled
    while they are answered within half a second, and halved where they take over two.

    Args:
        rows: What is asked; read piece by piece.
        answer: Returns as many answers as it is given rows.
        least: Rows of the first piece, and of each if answers are slow.
        most: Rows of a piece at most.
        ready: Whether the next row can be had without waiting; if not, what was read is answered.
        refuse: Returns the answer to a row that is refused by itself, once those before it are
            dealt with. By default it raises what refused it.
    """
    rest, size = iter(rows), least
    for first in rest:
        piece = [first]
        while len(piece) < size and ready():
            if not (more := list(islice(rest, 1))):
                break
            piece += more
        begin = time.monotonic()
        answers = _answers(piece, answer, refuse)
        seconds = time.monotonic() - begin
        yield from answers
        timed = isinstance(answers, Sequence)  # all of them, and not the refusal alone
        if timed and len(piece) == size and 2 * seconds < WAIT_SECONDS:
            size = min(2 * size, most)
        elif seconds > 2 * WAIT_SECONDS:
            size = max(size // 2, least)


def _answers(
    piece: list[Asked],
    answer: Callable[[list[Asked]], Sequence[Answer]],
    refuse: Callable[[Asked, Refused], Answer] | None,
) -> Iterable[Answer]:
    """Returns the answers to a piece; if a row of it is refused, to its halves in turn."""
    try:
        return answer(piece)
    except Refused as error:
        if len(piece) > 1:
            half = len(piece) // 2
            parts = piece[:half], piece[half:]
            return (each for part in parts for each in _answers(part, answer, refuse))
        if refuse is None:
            raise
        return [refuse(piece[0], error)]
