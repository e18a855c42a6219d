"""What the dearest requests cost that an exported model does not refuse.

    python -m tests.serving.worst_case --model-dir saved_models/custom/dtmt_small/1

sends every signature the largest requests that its limits allow, in Python and through the C++
session, each in a process of its own, and prints the processor seconds of each and the memory that
it takes beyond that of the loaded model. Exits with 1 if a request takes over 30 seconds of
processor time or over 1 GiB. A model with random weights is the worst: it never ends a translation
by itself.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import sentencepiece
from tensorflow.core.protobuf import saved_model_pb2

ROOT = Path(__file__).parents[2]
MOST_SECONDS, MOST_BYTES = 30, 2**30
REFUSED = "refused"
MEASURE = """
import json, os, resource, sys

def memory(name):
    with open("/proc/self/status") as file:
        return next(int(row.split()[1]) for row in file if row.startswith(name)) * 1024

def measure(run):
    run("translate", {"text": ["a"]})
    loaded = memory("VmRSS")
    for line in sys.stdin:
        open("/proc/self/clear_refs", "w").write("5")  # the peak is the present size
        before = resource.getrusage(resource.RUSAGE_SELF)
        try:
            run(*json.loads(line))
            error = ""
        except Exception as failure:
            error = str(failure)
        after = resource.getrusage(resource.RUSAGE_SELF)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        print(json.dumps([seconds, memory("VmHWM") - loaded, error]), flush=True)
"""
PYTHON = """
import tensorflow as tf
import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
def run(name, inputs):
    outputs = model.signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
    return {key: value.numpy() for key, value in outputs.items()}
measure(run)
"""
CPP = """
sys.path.insert(0, sys.argv[2])
from c_session import CSession
with CSession(sys.argv[1]) as session:
    measure(session.run)
"""
DEADLINE = """
import time
sys.path.insert(0, sys.argv[2])
from c_session import CSession, CSessionError
name, inputs = json.loads(sys.stdin.readline())
with CSession(sys.argv[1]) as session:
    session.run("translate", {"text": ["a"]})
    times = [(time.monotonic(), time.process_time())]
    try:
        session.run_flat(name, inputs, (), b"\\x10\\xe8\\x07")  # RunOptions: timeout_in_ms: 1000
        code = "OK"
    except CSessionError as error:
        code = error.code
    times.append((time.monotonic(), time.process_time()))
    time.sleep(3)
    times.append((time.monotonic(), time.process_time()))
    ends = [after - before for k in (1, 2) for after, before in zip(times[k], times[k - 1])]
    print(json.dumps([code, *ends]))
"""


class Lines:
    """Makes lines of a given number of sub-words.

    Args:
        model_dir: The model's folder; its sub-words are in the graph.
    """

    def __init__(self, model_dir: Path) -> None:
        saved = saved_model_pb2.SavedModel.FromString((model_dir / "saved_model.pb").read_bytes())
        functions = saved.meta_graphs[0].graph_def.library.function
        models = {
            node.attr["model"].s
            for nodes in (saved.meta_graphs[0].graph_def.node, *(f.node_def for f in functions))
            for node in nodes
            if node.op == "SentencepieceOp"
        }
        self.processors = [sentencepiece.SentencePieceProcessor(model_proto=m) for m in models]
        self.letter = min("etaoin", key=lambda c: self.count(" ".join(c * 9)))

    def count(self, text: str) -> int:
        """Returns how many sub-words a text has, in the sub-words that give the most."""
        return max(len(each.encode(text)) for each in self.processors)

    def of(self, tokens: int) -> str:
        """Returns a line of at most so many sub-words, <eos> not counted."""
        text = " ".join(self.letter * tokens)
        while self.count(text) > tokens:
            text = text[:-2]
        return text


def requests(lines: Lines, limits: dict) -> list[tuple[str, str, dict]]:
    """Returns the dearest requests: what they are, the signature, the inputs."""
    part, extra = limits["longest_part"], limits["extra_length"]
    scored = limits["longest_scored"]
    most_lines, tokens = limits["max_lines"], limits["max_tokens"]

    def fitting(cost: int) -> int:
        return min(most_lines, tokens // cost)

    full = lines.of(part - 1)
    parts = min(limits["max_parts"], fitting(part + extra))
    long = " ".join([full] * parts)[: limits["max_bytes"]]
    while lines.count(long) > parts * (part - 1):
        long = long[:-2]
    short = lines.of(1)
    found = []
    for signature, times in (("translate", 1), ("translate_nbest", 1), ("align", 2)):
        wholes, many = (fitting(times * (length + extra)) for length in (part, 2))
        mixed = [short] * (many * 3 // 4)
        left = tokens - len(mixed) * times * (2 + extra)
        mixed += [full] * min(left // (times * (part + extra)), most_lines - len(mixed))
        found += [
            (f"{wholes} lines of one whole part", signature, {"text": [full] * wholes}),
            (f"1 line of {parts} parts", signature, {"text": [long]}),
            (f"{many} lines of one sub-word", signature, {"text": [short] * many}),
            (
                f"{len(mixed)} lines, as many whole parts as fit",
                signature,
                {"text": mixed},
            ),
        ]
    longest = lines.of(scored - 1)
    pairs = (
        ("score", "{} pairs, the longest that are read", 2 * scored, longest, longest),
        ("score", "{} pairs of one whole part", 2 * part, full, full),
        ("score", "{} pairs of one sub-word", 2 * 2, short, short),
        ("complete", "{} whole parts, longest prefixes", part + extra + scored, full, longest),
        ("complete", "{} sub-words, longest prefixes", 2 + extra + scored, short, longest),
    )
    for signature, what, cost, source, other in pairs:
        number = fitting(cost)
        second = "target" if signature == "score" else "prefix"
        inputs = {"source": [source] * number, second: [other] * number}
        found.append((what.format(number), signature, inputs))
    text = ["e" * limits["max_bytes"]] * most_lines
    found.append((f"{most_lines} lines of all bytes", "info", {"text": text}))
    return [*found, (f"{most_lines} lines of all bytes, {REFUSED}", "translate", {"text": text})]


def measure(code: str, model_dir: Path, wanted: list[tuple[str, str, dict]]) -> list[list]:
    """Returns processor seconds, bytes and the error of each request, in a new process."""
    result = subprocess.run(
        [sys.executable, "-c", MEASURE + code, str(model_dir), str(ROOT / "tests/export")],
        input="".join(json.dumps([name, inputs]) + "\n" for _, name, inputs in wanted),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(row) for row in result.stdout.splitlines()]


def cut_off(model_dir: Path, name: str, inputs: dict) -> str:
    """Says what a request costs whose deadline is a second."""
    result = subprocess.run(
        [sys.executable, "-c", MEASURE + DEADLINE, str(model_dir), str(ROOT / "tests/export")],
        input=json.dumps([name, inputs]) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    code, seconds, cpu, _, later = json.loads(result.stdout)
    return (
        f"{name} with a deadline of 1 s: {code} after {seconds:.1f} s and {cpu:.1f} s of "
        f"processor time; {later:.1f} s more in the 3 s after that"
    )


def command() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model-dir", type=Path, required=True, help="an exported version")
    args = parser.parse_args()
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    loaded = tf.saved_model.load(str(args.model_dir))
    (card,) = loaded.signatures["info"](text=tf.constant([""]))["info"].numpy()
    limits = json.loads(card)["limits"]
    print(
        ", ".join(f"{key} {limits[key]}" for key in limits if key.startswith(("max_", "longest_")))
    )
    wanted = requests(Lines(args.model_dir), limits)
    python, cpp = (measure(code, args.model_dir, wanted) for code in (PYTHON, CPP))
    print("| signature | request | Python: CPU s | MiB | C++: CPU s | MiB |")
    print("| --- | --- | --- | --- | --- | --- |")
    bad = 0
    for (what, name, _), left, right in zip(wanted, python, cpp, strict=True):
        cells = [f"{left[0]:.1f}", f"{left[1] / 2**20:.0f}"]
        cells += [f"{right[0]:.1f}", f"{right[1] / 2**20:.0f}"]
        print(f"| `{name}` | {what} | {' | '.join(cells)} |")
        for seconds, size, error in (left, right):
            as_expected = bool(error) == what.endswith(REFUSED)
            if not as_expected:
                print(f"  unexpected: {error[:300] or 'an answer'}")
            bad |= not as_expected or seconds > MOST_SECONDS or size > MOST_BYTES
    dearest = max(range(len(wanted)), key=lambda k: cpp[k][0])
    print(cut_off(args.model_dir, *wanted[dearest][1:]))
    return int(bad)


if __name__ == "__main__":
    sys.exit(command())
