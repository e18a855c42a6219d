r"""Every signature of an exported model, in Python and in the C++ session, on many lines.

    python -m tests.serving.parity --model-dir saved_models/multi30k_ende/dtmt_tied/1 \
        --source test.en --target test.de

compares Python's answers to batches of 32 with the C++ session's to batches of 1, 7 and 32, prints
how many rows differ and by how much, and exits with 1 if a text does or a number by over 1e-5,
of its size where that is above 1.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
BATCHES = (1, 7, 32)
TOLERANCE = 1e-5
SESSION = """
import json, sys
sys.path.insert(0, sys.argv[1])
from c_session import CSession
with CSession(sys.argv[2]) as session:
    for line in sys.stdin:
        print(json.dumps(session.run(*json.loads(line))), flush=True)
"""


def command() -> int:
    """Compares and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model-dir", type=Path, required=True, help="an exported version")
    parser.add_argument("--source", type=Path, required=True, help="lines of source text")
    parser.add_argument("--target", type=Path, required=True, help="their translations")
    args = parser.parse_args()
    sources = args.source.read_text("utf-8").splitlines()
    targets = args.target.read_text("utf-8").splitlines()
    given = {"text": sources, "source": sources, "target": targets}
    given["prefix"] = [target[: len(target) // 2] for target in targets]

    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    signatures = {
        name: function
        for name, function in tf.saved_model.load(str(args.model_dir)).signatures.items()
        if not name.startswith("__")
    }
    names = {name: list(f.structured_input_signature[1]) for name, f in signatures.items()}
    worst = 0
    for name, function in sorted(signatures.items()):
        expected = []
        for batch in _batches(given, names[name], 32):
            outputs = function(**{key: tf.constant(texts) for key, texts in batch.items()})
            expected += _rows({key: _plain(value.numpy()) for key, value in outputs.items()})
        for size in BATCHES:
            calls = [[name, batch] for batch in _batches(given, names[name], size)]
            found = [
                row for outputs in _in_session(args.model_dir, calls) for row in _rows(outputs)
            ]
            texts, number = _difference(found, expected)
            print(f"{name:16} batch {size:2}  {len(found)} rows, {texts} other, {number:.1e}")
            worst = max(worst, texts, number > TOLERANCE)
    return int(worst > 0)


def _batches(given, keys, size):
    count = len(given["source"])
    return [{key: given[key][start : start + size] for key in keys}
            for start in range(0, count, size)]  # fmt: skip


def _in_session(folder, calls):
    result = subprocess.run(
        [sys.executable, "-c", SESSION, str(ROOT / "tests/export"), str(folder)],
        input="".join(json.dumps(call) + "\n" for call in calls),
        capture_output=True,
        text=True,
        check=True,
    )
    return map(json.loads, result.stdout.splitlines())


def _plain(array):
    if array.dtype.kind in "OS":
        decoded = [text.decode() for text in array.ravel()]
        return np.array(decoded, dtype=object).reshape(array.shape).tolist()
    return array.tolist()


def _rows(outputs):
    """One mapping a row, without the padding that its neighbours make."""
    rows = [
        dict(zip(outputs, values, strict=True)) for values in zip(*outputs.values(), strict=True)
    ]
    for row in rows:
        if "attention" in row:
            s, t = row["source_length"], row["target_length"]
            row["attention"] = [line[:s] for line in row["attention"][:t]]
            row["source_subwords"] = row["source_subwords"][:s]
            row["target_subwords"] = row["target_subwords"][:t]
    return rows


def _difference(found, expected):
    """Rows whose texts or whole numbers differ, and how far the others' numbers are apart."""
    others, largest = 0, 0.0
    for row, wanted in zip(found, expected, strict=True):
        numbers = [key for key, value in wanted.items() if _is_real(value)]
        if any(row[key] != wanted[key] for key in wanted if key not in numbers):
            others += 1
            continue
        for key in numbers:
            left, right = np.array(row[key], float), np.array(wanted[key], float)
            gaps = np.abs(left - right) / np.maximum(1.0, np.abs(right))
            largest = max(largest, float(gaps.max(initial=0)))
    return others, largest


def _is_real(value):
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, float)


if __name__ == "__main__":
    sys.exit(command())
