"""Lines that a model refuses: the first ends a command, or all are left empty and told of."""

from __future__ import annotations

import logging

from dtmt_tf.errors import UserError

SKIP = "--skip-refused"
LIMIT = "(export."  # what a refusal says that names a limit of the export
MOST_TOLD = 20  # numbers of lines

logger = logging.getLogger(__name__)


class Refusals:
    """The refused lines of an input; tells of them at the end of its block, however that ends.

    A refusal that names no limit of the export ends the command in any case: all lines may have it.

    Args:
        skip: Whether lines are left empty.
    """

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.numbers: list[int] = []
        self._before = 0

    def go_on_after(self, lines: int) -> None:
        """Notes how many lines are of an earlier command; of them nothing is known here."""
        self._before = lines

    def ends(self, refusal: UserError) -> bool:
        """Whether what a model says of a line ends the command."""
        return not self.skip or LIMIT not in str(refusal)

    def note(self, number: int, refusal: UserError) -> None:
        """Notes a line by its number, from 1.

        Raises:
            UserError: If that ends the command.
        """
        if self.ends(refusal):
            advice = f" {SKIP} leaves such lines empty." if LIMIT in str(refusal) else ""
            raise UserError(f"Line {number:,}: {refusal}{advice}") from refusal
        self.numbers.append(number)

    def __enter__(self) -> Refusals:
        return self

    def __exit__(self, *_: object) -> None:
        if self.numbers:
            more = len(self.numbers) - MOST_TOLD
            logger.warning(
                "Beyond the limits of the export, and left empty: line%s %s%s.",
                "s" if len(self.numbers) > 1 else "",
                ", ".join(f"{number:,}" for number in self.numbers[:MOST_TOLD]),
                f" and {more:,} more" if more > 0 else "",
            )
        if self.skip and self._before:
            logger.warning(
                "Lines that were left empty among the first %s, which were finished before, are "
                "not named again.",
                f"{self._before:,}",
            )
