"""Measures updates."""

from __future__ import annotations

import time


class Clock:
    """Seconds spent in updates, target tokens read, and the recent tokens per second.

    Args:
        seconds: Time spent before.
        tokens: Tokens read before.
    """

    def __init__(self, seconds: float = 0.0, tokens: int = 0) -> None:
        self.seconds = seconds
        self.tokens = tokens
        self.rate = 0.0
        self._last = time.perf_counter()

    def count(self, tokens: int) -> None:
        """Counts an update and its tokens."""
        now = time.perf_counter()
        elapsed, self._last = now - self._last, now
        self.seconds += elapsed
        self.tokens += tokens
        rate = tokens / elapsed
        self.rate = 0.9 * self.rate + 0.1 * rate if self.rate else rate

    def resume(self) -> None:
        """Leaves out the time since the last count."""
        self._last = time.perf_counter()
