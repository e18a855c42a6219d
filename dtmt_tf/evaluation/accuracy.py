"""How many of some cases are right, and how sure that share is."""

from __future__ import annotations

import math
from dataclasses import dataclass

Z = 1.959964  # of the normal distribution: 95 % lie within


@dataclass(frozen=True)
class Accuracy:
    """How many cases are right.

    Args:
        correct: Those that are; a mean, if several models are asked.
        total: All of them, positive.
    """

    correct: float
    total: int

    @property
    def percent(self) -> float:
        """The share of those that are right, in percent."""
        return 100.0 * self.correct / self.total

    @property
    def plain(self) -> dict[str, object]:
        """What JSON has of it; the total stands where its name is known."""
        return {
            "correct": self.correct,
            "accuracy": round(self.percent, 3),
            "interval": [round(end, 3) for end in self.interval],
        }

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the share, in percent (Wilson, 1927); the share lies in it."""
        n, share = self.total, self.correct / self.total
        middle = share + Z**2 / (2 * n)
        half = Z * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
        low, high = ((middle + sign * half) / (1 + Z**2 / n) for sign in (-1, 1))
        low, high = 100.0 * max(0.0, low), 100.0 * min(1.0, high)
        return min(low, self.percent), max(high, self.percent)  # of none or all, but for rounding
