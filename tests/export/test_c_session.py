"""The C API runner gives what the model computes, in a process without TensorFlow's Python."""

import json
import subprocess
import sys
from pathlib import Path

import keras
import pytest
import sentencepiece
import tensorflow as tf
import tensorflow_text

RUNNER = Path(__file__).with_name("c_session.py")
LINES = ["a small dog runs", "two dogs run in the grass", "the cat sleeps on a mat", "Grüße"]
# a session starts slowly: one process answers what these say, in this order
CALLS = {
    "bytes": "session.run('serving_default', {'text': ['', b'dog\\xff', 'dog']})",
    "ranks": "session.run('grids', {'text': ['a', 'ü', '']})",
    "nothing": "[session.run(name, {'text': []}) for name in ('serving_default', 'grids')]",
    "signatures": "session.signatures",
    "signature": "session.run('translate', {'text': ['x']})",
    "input": "session.run('strict', {'txt': ['x']})",
    "shape": "session.run('strict', {'text': [['a'], ['b', 'c']]})",
    "text": "session.run('strict', {'text': ['bad']})",
    "XLA": "session.run('compiled', {'text': ['abc']})",
    "model": "CSession('/no/such/model')",
    "first": "session.run('strict', {'text': ['one']})",
    "closed": "[session.close(), session.close()]",
    "second": "in_another()",
    "one by one": "command('--batch', '1')",
    "together": "command('--batch', '9')",
    "packages": "sorted(PACKAGES & set(sys.modules))",
    "switch": "without_the_switch()",
}
ANSWER = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
import c_api, c_session
from c_session import CSession, CSessionError
PACKAGES = {"tensorflow", "tensorflow_text", "numpy", "google", "keras", "dtmt_tf"}
model_dir = sys.argv[2]
calls, content = json.load(sys.stdin)
session = CSession(model_dir)
def in_another():
    with CSession(model_dir) as other:
        return other.run("strict", {"text": ["two"]})
def command(*options):
    sys.argv[1:] = [model_dir, *options]
    sys.stdin = io.TextIOWrapper(io.BytesIO(content.encode()))
    with contextlib.redirect_stdout(io.StringIO()) as told:
        return c_session.main(), told.getvalue()
def without_the_switch():
    c_api._DISABLE_XLA = "no_such_function"
    with contextlib.redirect_stderr(io.StringIO()) as told:
        c_api.load_library()
    return told.getvalue()
def answer(call):
    try:
        return eval(call)
    except CSessionError as error:
        return f"error: {error}"
print(json.dumps({name: answer(call) for name, call in calls.items()}))
"""


def _text_spec():
    return tf.TensorSpec([None], tf.string, name="text")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    """Exports a toy: text to pieces to text, with the weighted number of pieces as score."""
    folder = tmp_path_factory.mktemp("toy")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 20),
        model_prefix=str(folder / "pieces"),
        vocab_size=320,
        hard_vocab_limit=False,
        byte_fallback=True,
        minloglevel=2,
    )
    tokenizer = tensorflow_text.SentencepieceTokenizer(
        (folder / "pieces.model").read_bytes(), out_type=tf.int32
    )
    weigh = keras.layers.Dense(1, use_bias=False, kernel_initializer=lambda *a, **k: [[0.25]])
    weigh.build([None, 1])

    def serve(text):
        pieces = tokenizer.tokenize(text)
        counts = tf.cast(pieces.row_lengths(), tf.float32)
        return {
            "round_trip": tokenizer.detokenize(pieces),
            "score": tf.squeeze(weigh(counts[:, None]), axis=1),
        }

    def serve_grids(text):
        pieces = tokenizer.tokenize(text).to_tensor(shape=[None, 2], default_value=-1)
        return {
            "copy": text,
            "ids": pieces,
            "pairs": tf.stack([tf.stack([text, text + "!"], axis=1)] * 2, axis=1),
            "halves": tf.stack([tf.fill([tf.size(text)], 0.5), tf.ones([tf.size(text)])], axis=1),
            "count": tf.size(text),
        }

    def serve_strictly(text):
        check = tf.debugging.assert_none_equal(text, "bad", message="no bad text")
        with tf.control_dependencies([check]):
            return {"text": tf.identity(text)}

    @tf.function(jit_compile=True)
    def square(numbers):
        return numbers * numbers

    def serve_compiled(text):
        return {"squares": square(tf.cast(tf.strings.length(text), tf.float32))}

    archive = keras.export.ExportArchive()
    archive.track(weigh)
    archive.track(tokenizer)
    archive.add_endpoint("serving_default", serve, input_signature=[_text_spec()])
    archive.add_endpoint("grids", serve_grids, input_signature=[_text_spec()])
    archive.add_endpoint("strict", serve_strictly, input_signature=[_text_spec()])
    archive.add_endpoint("compiled", serve_compiled, input_signature=[_text_spec()])
    archive.write_out(str(folder / "1"), verbose=False)
    return folder / "1"


@pytest.fixture(scope="module")
def answers(model_dir):
    """What a process without TensorFlow's Python answers to each of `CALLS`."""
    command = [sys.executable, "-c", ANSWER, str(RUNNER.parent), str(model_dir)]
    given = json.dumps([CALLS, _content(LINES)])
    result = subprocess.run(command, input=given, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def _content(lines):
    return "".join(f"{line}\n" for line in lines)


def _run_lines(model_dir, content, *options):
    command = [sys.executable, str(RUNNER), str(model_dir), *options]
    return subprocess.run(command, input=content, capture_output=True)


def _expected(model_dir, lines):
    outputs = tf.saved_model.load(str(model_dir)).signatures["serving_default"](tf.constant(lines))
    return {
        "round_trip": [text.decode() for text in outputs["round_trip"].numpy()],
        "score": outputs["score"].numpy().tolist(),
    }


def test_lines_come_back_as_python_computes_them_in_every_batch_size(model_dir, answers):
    expected = _expected(model_dir, LINES)
    assert expected["round_trip"] == LINES
    # A quarter, the trained weight, for each piece: were variables not restored, it would be 0.
    assert all(score >= 0.25 and score % 0.25 == 0 for score in expected["score"])
    result = _run_lines(model_dir, _content(LINES).encode(), "--batch", "3")
    assert result.returncode == 0, result.stderr.decode()
    for (code, told), sizes in (
        (answers["one by one"], [1, 1, 1, 1]),
        ((result.returncode, result.stdout), [3, 1]),
        (answers["together"], [4]),
    ):
        assert code == 0
        batches = [json.loads(line) for line in told.splitlines()]
        assert [len(outputs["score"]) for outputs in batches] == sizes
        for name in ("round_trip", "score"):
            assert sum((outputs[name] for outputs in batches), []) == expected[name]


def test_no_lines_give_no_batches(model_dir):
    result = _run_lines(model_dir, b"", "--input", "text", "--batch", "3")
    assert (result.returncode, result.stdout) == (0, b"")


def test_hard_input_passes_unharmed(model_dir):
    """Empty lines, long lines, NUL, a carriage return and bytes that are not UTF-8."""
    lines = [b"", b"dog\xff\xfe", "ü".encode() * 5000, b"nul\0here", b"return\r", b"x" * 22]
    result = _run_lines(
        model_dir, b"\n".join(lines), "--signature", "grids", "--batch", str(len(lines))
    )
    assert result.returncode == 0, result.stderr.decode()
    outputs = json.loads(result.stdout)
    assert [text.encode(errors="surrogateescape") for text in outputs["copy"]] == lines


def test_an_empty_line_and_invalid_bytes_reach_the_tokenizer(answers):
    outputs = answers["bytes"]
    assert outputs["round_trip"][0] == ""
    assert outputs["score"][0] == 0.0
    assert outputs["round_trip"][2] == "dog"
    assert outputs["round_trip"][1].startswith("dog")


def test_outputs_of_every_rank_are_nested_lists(answers):
    outputs = answers["ranks"]
    assert outputs["copy"] == ["a", "ü", ""]
    assert outputs["pairs"] == [[[text, text + "!"]] * 2 for text in ("a", "ü", "")]
    assert outputs["halves"] == [[0.5, 1.0]] * 3
    assert outputs["count"] == 3
    assert [len(row) for row in outputs["ids"]] == [2, 2, 2]
    assert outputs["ids"][2] == [-1, -1]


def test_a_batch_of_no_rows_gives_no_rows(answers):
    empty = {"copy": [], "ids": [], "pairs": [], "halves": [], "count": 0}
    assert answers["nothing"] == [{"round_trip": [], "score": []}, empty]


def test_no_heavy_package_is_imported_and_sessions_follow_each_other(answers):
    assert answers["closed"] == [None, None]
    assert (answers["first"], answers["second"]) == ({"text": ["one"]}, {"text": ["two"]})
    assert answers["packages"] == []


def test_a_library_without_the_xla_switch_is_used_with_a_message(answers):
    told = "This TensorFlow has no DisableXlaCompilation: XLA stays on.\n"
    assert answers["switch"] == told


def test_signatures_are_read_from_the_model(answers):
    signatures = answers["signatures"]
    assert set(signatures) == {"serving_default", "grids", "strict", "compiled"}
    inputs, outputs = signatures["serving_default"]
    assert inputs == {"text": ["serving_default_text:0", 7]}
    assert {name: dtype for name, (_, dtype) in outputs.items()} == {"round_trip": 7, "score": 1}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "signature",
            "Unknown signature 'translate'. The model has: compiled, grids, serving_default, "
            "strict.",
        ),
        ("input", "Signature 'strict' takes the inputs: text. Received: txt."),
        ("shape", "The input is not rectangular"),
        ("text", "TF_SessionRun failed, INVALID_ARGUMENT: "),
        ("text", "no bad text"),
        ("XLA", "XLA compilation disabled"),
        ("model", "TF_LoadSessionFromSavedModel failed, NOT_FOUND: "),
    ],
)
def test_errors_say_what_is_wrong(answers, call, message):
    assert answers[call].startswith("error: ") and message in answers[call]


def test_the_command_line_reports_errors_without_a_traceback(model_dir):
    result = _run_lines(model_dir, b"x\n", "--signature", "translate")
    assert result.returncode == 2
    assert result.stdout == b""
    assert "Unknown signature 'translate'" in result.stderr.decode()
    assert "Traceback" not in result.stderr.decode()
    assert _run_lines(model_dir, b"x\n", "--batch", "0").returncode == 2
