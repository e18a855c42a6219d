"""The data check: finds faults of a corpus before the first training step."""

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

import numpy as np

from dtmt_tf.data.filters import SHORT
from dtmt_tf.data.line_shift import Shifts
from dtmt_tf.data.lines import MARK, ended_lines, without_end
from dtmt_tf.errors import UserError
from dtmt_tf.text import is_blank

Severity = Literal["fatal", "warning"]

# C0 without tab, DEL, and C1 (U+0080 to U+009F) as UTF-8 bytes; NUL is looked for by itself.
_CONTROL = re.compile(rb"[\x01-\x08\x0a-\x1f\x7f]|\xc2[\x80-\x9f]")
TRAIN = "train"
MAX_RATIO = 9.0  # of the characters of both sides, where one has SHORT or more
_SHIFTED = {
    1: "fits the next target line better: is a source line missing, or a target line added?",
    -1: "fits the target line before better: is a target line missing, or a source line added?",
}


@dataclass(frozen=True)
class Finding:
    """One kind of fault in one file.

    Args:
        kind: Such as `"invalid UTF-8"`; the same for all files.
        severity: `"fatal"` if training on the corpus would be wrong, else `"warning"`.
        file: The file, or the side of an in-memory corpus.
        line: The first line it occurs in, from 1 on.
        count: In how many lines it occurs.
        message: What was found, without the file and the count.
    """

    kind: str
    severity: Severity
    file: str
    line: int
    count: int
    message: str


def check_files(
    splits: Mapping[str, Sequence[tuple[Path, Path]]], train: Iterable[bytes] = ()
) -> list[Finding]:
    """Checks parallel files.

    Takes one pass over the bytes of each file. Sentences are compared by 64-bit hashes; with
    their sorting they take 32 bytes a pair, so 36 million pairs need about one gigabyte.

    Args:
        splits: Pairs of source and target files, by split; that for training is `"train"`.
        train: Source lines of the training split, where it is not among the files.

    Returns:
        The warnings, in the order of the splits.

    Raises:
        UserError: If a finding is fatal; the message lists all that are.
    """
    files_of = {
        split: [(_side_of_file(source), _side_of_file(target)) for source, target in files]
        for split, files in splits.items()
    }
    return _check(files_of, train)


def check_pairs(
    splits: Mapping[str, tuple[Iterable[str], Iterable[str]]], stop_if_fatal: bool = True
) -> list[Finding]:
    """Checks sentences, read once from the first on, as `check_files` checks files.

    Findings name the side, such as `train source`, in place of a file. With `stop_if_fatal=False`
    those that are fatal are returned with the others.
    """
    files_of = {
        split: [
            (
                _Side(f"{split} source", (_encode(line) for line in sources)),
                _Side(f"{split} target", (_encode(line) for line in targets)),
            )
        ]
        for split, (sources, targets) in splits.items()
    }
    return _check(files_of, stop_if_fatal=stop_if_fatal)


def find_overlap(split: str, held_out: Iterable[bytes], train: Iterable[bytes]) -> list[Finding]:
    """Finds source lines of a held-out split in training, as `check_files` does in files."""
    side, hashes = _Side(f"{split} source", iter(())), array("q", map(hash, held_out))
    side.num_lines = len(hashes)
    _check_overlap(split, [(side, side)], hashes, map(hash, train))
    return side.findings()


def format_findings(findings: Iterable[Finding]) -> str:
    """One line for each finding: `file:line: message (count lines)`."""
    return "\n".join(
        f"{finding.file}:{finding.line}: {finding.message} "
        f"({finding.count:,} {'line' if finding.count == 1 else 'lines'})"
        for finding in findings
    )


def _encode(line: str) -> bytes:
    # Lone surrogates become bytes that are not UTF-8, to be found as such.
    return line.encode("utf-8", "surrogatepass")


class _Side:
    """One file of a split, with the faults found in it so far.

    Attributes:
        first: How many pairs of the split come before it, once it is read.
    """

    def __init__(self, name: str, lines: Iterator[bytes]):
        self.name = name
        self.lines = lines
        self.num_lines = 0
        self.first = 0
        self._first_line: dict[tuple[str, Severity, str], int] = {}
        self._count: dict[tuple[str, Severity, str], int] = {}

    def note(
        self, kind: str, severity: Severity, message: str, line: int | None = None, count: int = 1
    ) -> None:
        """Counts a fault, by default one in the current line."""
        key = kind, severity, message
        self._first_line.setdefault(key, self.num_lines if line is None else line)
        self._count[key] = self._count.get(key, 0) + count

    def plain(self, line: bytes) -> bytes:
        """Returns the next line without its end and a byte order mark; notes what is left out."""
        number = self.num_lines + 1  # not counted yet
        if line.startswith(MARK):
            self.note("byte order mark", "warning", "byte order mark, left out", number)
        if line.endswith(b"\r\n"):
            self.note("carriage return", "warning", r"ends in \r\n, read as \n", number)
        return without_end(line.removeprefix(MARK))

    def decode(self, line: bytes) -> str | None:
        """Returns the text of the line if its pair can be used, and notes its faults."""
        if b"\0" in line:
            self.note("NUL", "fatal", "NUL character; is this a text file?")
            return None
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            self.note("invalid UTF-8", "fatal", "not UTF-8")
            return None
        if b"\r" in line:
            self.note(
                "lone carriage return", "warning", r"\r within; if it ends lines: tr '\r' '\n'"
            )
        elif _CONTROL.search(line):
            self.note("control character", "warning", "control character")
        if is_blank(text):
            self.note("blank line", "warning", "blank line")
            return None
        return text

    def findings(self) -> list[Finding]:
        return [
            Finding(kind, severity, self.name, line, self._count[kind, severity, message], message)
            for (kind, severity, message), line in self._first_line.items()
        ]


def _side_of_file(path: Path) -> _Side:
    side = _Side(str(path), iter(()))
    side.lines = map(side.plain, ended_lines(path))
    return side


Files = Sequence[tuple[_Side, _Side]]  # of a split: source and target, one after the other


def _check(
    splits: Mapping[str, Files], train: Iterable[bytes] = (), stop_if_fatal: bool = True
) -> list[Finding]:
    if not splits:
        raise UserError("There is no data: name the files of at least one split.")
    source_hashes = {split: _check_split(split, files) for split, files in splits.items()}
    trained = array("q", map(hash, train)) + source_hashes.pop(TRAIN, array("q"))
    for split, held_out in source_hashes.items():
        _check_overlap(split, splits[split], held_out, trained)
    findings = [
        finding
        for files in splits.values()
        for source, target in files
        for finding in source.findings() + target.findings()
    ]
    fatal = [finding for finding in findings if finding.severity == "fatal"]
    if fatal and stop_if_fatal:
        raise UserError("The data cannot be used:\n" + format_findings(fatal))
    return findings


def _check_split(split: str, files: Files) -> array:
    """Checks one split and returns a hash of each line's source, 0 where the pair is no use."""
    source_hashes, pair_hashes = array("q"), array("q")
    for source, target in files:
        source.first = len(source_hashes)
        _check_lines(source, target, source_hashes, pair_hashes)
    pairs = np.frombuffer(pair_hashes, dtype=np.int64)
    if not np.any(pairs):
        source, count = files[0][0], sum(source.num_lines for source, _ in files)
        message = f"no usable pair in the {split} set"
        source.note("no pairs", "fatal", message, line=1, count=count)
    _check_duplicates(files, pairs)
    return source_hashes


def _check_lines(source: _Side, target: _Side, source_hashes: array, pair_hashes: array) -> None:
    """Checks two files line by line and appends the hashes of their lines."""
    shifts = Shifts()
    for source_line, target_line in zip_longest(source.lines, target.lines):
        source.num_lines += source_line is not None
        target.num_lines += target_line is not None
        source_text = None if source_line is None else source.decode(source_line)
        target_text = None if target_line is None else target.decode(target_line)
        shifts.add(len(source_text or ""), len(target_text or ""))
        if source_text is None or target_text is None:
            source_hashes.append(0)
            pair_hashes.append(0)
            continue
        source_hashes.append(hash(source_line) or 1)
        pair_hashes.append(hash((source_line, target_line)) or 1)
        if source_line == target_line:
            source.note("copy", "warning", "source and target are the same")
        shorter, longer = sorted((len(source_text), len(target_text)))
        if longer >= SHORT and longer > MAX_RATIO * shorter:
            source.note("length ratio", "warning", f"one side over {MAX_RATIO:g} times longer")
    shifts.end()
    for by, (line, count) in shifts.found.items():
        source.note("shift", "warning", _SHIFTED[by], line, count)
    if source.num_lines != target.num_lines:
        longer_side, shorter_side = (
            (source, target) if source.num_lines > target.num_lines else (target, source)
        )
        longer_side.note(
            "unequal line counts",
            "fatal",
            f"lines beyond the {shorter_side.num_lines:,} of {shorter_side.name}",
            line=shorter_side.num_lines + 1,
            count=longer_side.num_lines - shorter_side.num_lines,
        )


def _check_duplicates(files: Files, pairs: np.ndarray) -> None:
    """Notes pairs that occurred before in the split, in the same file or another."""
    # A sort takes an eighth of the memory of a set, and about as long.
    order = np.argsort(pairs, kind="stable")
    ordered = pairs[order]
    repeats = order[1:][(ordered[1:] == ordered[:-1]) & (ordered[1:] != 0)]
    _note_pairs(files, repeats, "duplicate", "repeats an earlier pair")


def _check_overlap(split: str, files: Files, held_out: array, train: Iterable[int]) -> None:
    """Notes source sentences of a held-out split that occur in training."""
    # The set is of the smaller side, which the training set is not.
    wanted = set(held_out) - {0}
    shared = {value for value in train if value in wanted}
    found = np.flatnonzero([value in shared for value in held_out])
    told = f"{split} source is also in the training set"
    _note_pairs(files, found, "overlap", told, ", over half of the file: scores say little")


def _note_pairs(
    files: Files, pairs: np.ndarray, kind: str, message: str, of_many: str = ""
) -> None:
    """Notes a fault of pairs, counted from 0 through the split, in the source files they are in.

    Where over half of a file has it, the message goes on with `of_many`.
    """
    for source, _ in files:
        lines = pairs - source.first + 1
        inside = lines[(lines >= 1) & (lines <= source.num_lines)]
        if len(inside):
            told = message + of_many * (2 * len(inside) > source.num_lines)
            source.note(kind, "warning", told, line=int(inside.min()), count=len(inside))
