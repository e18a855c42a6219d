"""Where the time of one sentence goes in the C++ session.

    python -m tests.serving.latency --task multi30k_ende --lines test.en

exports a trained run to a temporary folder with two more signatures, one that stops after the
sub-words and one that stops after the encoder, runs single lines through all three in a process
that holds nothing but TensorFlow's C++ library, and prints medians.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from dtmt_tf import startup
from dtmt_tf.commands import common, options, process

ROOT = Path(__file__).parents[2]

STAGES = ("subwords", "encode", "translate")
SESSION = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from c_session import CSession
stages, lines = json.load(sys.stdin)
with CSession(sys.argv[2]) as session:
    for stage in stages:
        for line in lines[:3]:
            session.run(stage, {"text": [line]})
    for line in lines:
        row = []
        for stage in stages:
            start = time.perf_counter()
            session.run(stage, {"text": [line]})
            row.append(time.perf_counter() - start)
        print(json.dumps(row))
"""


def measure(folder: Path, lines: list[str]) -> list[list[float]]:
    """Returns seconds of each line, alone, in each stage."""
    result = subprocess.run(
        [sys.executable, "-c", SESSION, str(ROOT / "tests/export"), str(folder)],
        input=json.dumps([STAGES, lines]),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(row) for row in result.stdout.splitlines()]


def export(endpoints, folder: Path) -> None:
    """Writes a SavedModel of the three stages."""
    import keras
    import tensorflow as tf

    def subwords(text):
        ids, _ = endpoints.source.encode_parts(text, endpoints.longest)
        return {"ids": ids.to_tensor()}

    def encode(text):
        (hidden, memory) = endpoints.model.encode(subwords(text)["ids"])
        tensors = tf.nest.flatten((hidden, memory))
        return {"sum": tf.add_n([tf.reduce_sum(tf.cast(t, tf.float32)) for t in tensors])[None]}

    archive = keras.export.ExportArchive()
    archive.track(endpoints.model)
    archive.track(endpoints.source.tokenizer)
    if endpoints.target is not endpoints.source:
        archive.track(endpoints.target.tokenizer)
    text = tf.TensorSpec([None], tf.string, "text")
    for name, function in zip(STAGES, (subwords, encode, endpoints.translate), strict=True):
        archive.add_endpoint(name, function, input_signature=[text])
    archive.write_out(str(folder), verbose=False)


def command() -> int:
    """Exports, measures, prints."""
    parser = options.run_parser("python -m tests.serving.latency", __doc__.split("\n")[0])
    parser.add_argument("--lines", type=Path, required=True, help="text to translate")
    parser.add_argument("--count", type=int, default=200, help="lines (default: %(default)s)")
    args = parser.parse_args()
    startup.start_tensorflow()
    from dtmt_tf.data.lines import byte_lines
    from dtmt_tf.runs import Run, best_model, endpoints

    run = Run.open(common.run_folder(args), common.data_dir(args), common.cache_dir())
    model, _ = best_model(run)
    lines = [line.decode() for line in byte_lines(args.lines)][: args.count]
    with tempfile.TemporaryDirectory() as folder:
        export(endpoints(run, model), Path(folder, "1"))
        rows = measure(Path(folder, "1"), lines)
    ends = [median(row[k] for row in rows) * 1000 for k in range(len(STAGES))]
    print(f"{len(rows)} lines, one at a time, beam {run.experiment.decoding.beam_size}: medians")
    print(f"  all of it   {ends[2]:6.1f} ms")
    stages = {"sub-words": ends[0], "encoder": ends[1] - ends[0], "search": ends[2] - ends[1]}
    for name, time in stages.items():
        print(f"  {name:<10} {time:7.1f} ms  {100 * time / ends[2]:3.0f} %")
    return 0


if __name__ == "__main__":
    process.main(command)
