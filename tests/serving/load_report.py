"""What came of a load: errors, wrong answers, latency, memory."""

import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_PARTS = (50, 95, 99)
_MOST_GROWTH_MB = 50
_FEWEST_SAMPLES = 60  # of memory, taken each second
_SHOWN = 5  # errors and wrong answers that are printed

Row = tuple[str, float]  # translation and score


@dataclass
class Report:
    """What came of a load.

    Attributes:
        lines: How many were translated.
        seconds: What it took.
        latencies: Seconds of the requests that were answered, by protocol.
        errors: How many requests failed, by the error's text.
        wrong: Line, right and wrong translation, and their scores, of each answer that is wrong.
        memory: The server's resident megabytes, as `(seconds, requests done, megabytes)`.
    """

    lines: int = 0
    seconds: float = 0.0
    latencies: dict[str, list[float]] = field(default_factory=lambda: {"gRPC": [], "REST": []})
    errors: Counter[str] = field(default_factory=Counter)
    wrong: list[dict[str, Any]] = field(default_factory=list)
    memory: list[tuple[float, int, float]] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """How many requests were answered or failed."""
        return sum(map(len, self.latencies.values())) + self.errors.total()

    def growth(self) -> float:
        """Returns the megabytes that memory grew by after the first tenth of the requests.

        By the straight line through the samples, so that one sample decides nothing. 0 if there
        are too few: a short load shows how a server warms up, which is no leak.
        """
        samples = [(at, size) for at, done, size in self.memory if done * 10 >= self.requests]
        if len(samples) < _FEWEST_SAMPLES:
            return 0.0
        times, sizes = zip(*samples, strict=True)
        slope, _ = np.polyfit(times, sizes, 1)
        return float(slope) * (times[-1] - times[0])

    def add(
        self,
        right: Mapping[str, Row],
        protocol: str,
        lines: Sequence[str],
        rows: Sequence[Row] | str,
        seconds: float,
    ) -> None:
        """Adds a request.

        Args:
            right: What each line's answer should be.
            protocol: `"gRPC"` or `"REST"`.
            lines: What was asked.
            rows: What came back, or the words of an error.
            seconds: How long it took.
        """
        if not isinstance(rows, str) and len(rows) != len(lines):
            rows = f"{len(rows)} rows for {len(lines)} lines"
        if isinstance(rows, str):
            self.errors[f"{protocol}: {rows}"] += 1
            return
        self.latencies[protocol].append(seconds)
        self.lines += len(lines)
        for line, (found, score) in zip(lines, rows, strict=True):
            expected, expected_score = right[line]
            if found != expected:
                self.wrong.append(
                    {
                        "line": line,
                        "right": expected,
                        "wrong": found,
                        "score_of_right": expected_score,
                        "score_of_wrong": score,
                        "protocol": protocol,
                        "request": list(lines),
                    }
                )

    def passed(self) -> bool:
        """Whether nothing failed, nothing was wrong and memory stayed flat."""
        return bool(
            self.requests
            and not self.errors
            and not self.wrong
            and self.growth() <= _MOST_GROWTH_MB
        )

    def numbers(self) -> dict[str, Any]:
        """Returns all there is to tell, as JSON has it."""
        every = list(itertools.chain(*self.latencies.values()))
        by_protocol = {"all": every, **self.latencies}
        return {
            "requests": self.requests,
            "lines": self.lines,
            "seconds": self.seconds,
            "sentences_per_second": self.lines / self.seconds if self.seconds else 0.0,
            "latency_seconds": {
                name: {f"p{part}": float(np.percentile(values, part)) for part in _PARTS}
                for name, values in by_protocol.items()
                if values
            },
            "errors": dict(self.errors),
            "wrong": self.wrong,
            "memory_growth_mb": self.growth(),
            "memory_mb": self.memory,
            "passed": self.passed(),
        }

    def text(self) -> str:
        """Returns the numbers in words."""
        numbers = self.numbers()
        rows = [
            f"{self.requests:,} requests, {self.lines:,} lines in {self.seconds:.1f} s: "
            f"{numbers['sentences_per_second']:.1f} sentences/s"
        ]
        for name, parts in numbers["latency_seconds"].items():
            values = ", ".join(f"{part} {seconds:.3f} s" for part, seconds in parts.items())
            rows.append(f"latency, {name}: {values}")
        if self.memory:
            sizes = [size for _, _, size in self.memory]
            rows.append(
                f"memory of the server: {sizes[0]:,.0f} MB at first, {sizes[-1]:,.0f} at last, "
                f"{max(sizes):,.0f} at most; grew by {self.growth():.1f} after the first tenth"
            )
        rows.append(f"{self.errors.total():,} errors, {len(self.wrong):,} wrong answers")
        rows += [f"  {count:,} x {error}" for error, count in self.errors.most_common(_SHOWN)]
        for wrong in self.wrong[:_SHOWN]:
            rows.append("  " + json.dumps(wrong, ensure_ascii=False))
        return "\n".join(rows)
