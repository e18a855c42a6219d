"""Each fault that a server would meet is found and named; a sound model passes.

Every model here is one that TensorFlow itself wrote.
"""

import jax
import pytest
import tensorflow as tf
import tensorflow_text
from tensorflow.compiler.tf2xla.python import xla

from dtmt_tf.config import DataConfig
from dtmt_tf.export.servable import check_servable
from dtmt_tf.text import Vocabulary

LINES = ["a small dog runs", "two dogs run in the grass", "the cat sleeps on a mat"]


@pytest.fixture
def problems(tmp_path):
    """Returns a function that saves a function of text, and gives the problems of the model."""

    def save_and_check(serve, *parts):
        module = tf.Module()
        spec = tf.TensorSpec([None], tf.string, name="text")
        module.serve = tf.function(serve, input_signature=[spec], autograph=False)
        module.parts = parts
        tf.saved_model.save(module, str(tmp_path), signatures=module.serve)
        return check_servable(tmp_path)

    return save_and_check


def test_a_sound_model_has_no_problems(problems):
    """It has what a translator has: sub-words, loop, branch, variable, a device that is the CPU."""
    subwords = Vocabulary.train(LINES * 9, LINES * 9, DataConfig(source_vocab_size=60)).source
    scale = tf.Variable(2.0)

    def serve(text):
        ids = subwords.encode(text).to_tensor()
        numbers = tf.cast(tf.shape(ids)[1], tf.float32) * tf.ones([tf.size(text)])
        numbers = tf.while_loop(lambda x: x[0] < 9, lambda x: [x * scale], [numbers])[0]
        numbers = tf.cond(tf.size(text) > 1, lambda: numbers, lambda: tf.nn.relu(numbers))
        with tf.device("/CPU:0"):
            texts = tf.reshape(subwords.decode(ids), [-1])
        return {"texts": texts, "pieces": subwords.pieces(ids), "numbers": numbers}

    assert problems(serve, subwords.tokenizer, scale) == []


def plain(text):
    return text


@pytest.mark.parametrize(
    ("call", "op"),
    [
        (lambda text: tf.py_function(plain, [text], tf.string), "EagerPyFunc"),
        (lambda text: tf.numpy_function(plain, [text], tf.string), "PyFunc"),
        (lambda text: tf.numpy_function(plain, [text], tf.string, False), "PyFuncStateless"),
    ],
)
def test_python_functions_are_found(problems, call, op):
    (problem,) = problems(lambda text: {"text": tf.ensure_shape(call(text), [None])})
    assert problem.startswith("function '__inference_")
    assert f"node '{op}': operation {op} calls Python" in problem


@tf.function(jit_compile=True)
def square(numbers):
    return numbers * numbers


@pytest.mark.parametrize(
    "call",
    [square, lambda x: tf.cond(tf.size(x) > 1, lambda: square(x), lambda: x)],
    ids=["called", "in a branch"],
)
def test_a_function_compiled_by_xla_is_found(problems, call):
    (problem,) = problems(lambda text: {"squares": call(tf.strings.length(text))})
    assert problem.startswith("function '__inference_square_")
    assert problem.endswith(": must be compiled by XLA; drop `jit_compile=True`")


def test_a_device_of_the_exporting_machine_is_found(problems):
    def serve(text):
        lengths = tf.strings.length(text)
        with tf.device("/GPU:0"):
            return {"lengths": tf.square(lengths)}

    (problem,) = problems(serve)
    assert ", node 'Square': placed on device '/device:GPU:0'; export on a CPU" in problem


def jax_double(text):
    """What a function of JAX is in TensorFlow's graph."""
    shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b"), "int32")
    exported = jax.export.export(jax.jit(lambda x: x * 2), platforms=["cpu"])(shape)
    (doubled,) = xla.call_module(
        [tf.strings.length(text)],
        version=exported.calling_convention_version,
        module=exported.mlir_module_serialized,
        Tout=[tf.int32],
        Sout=[[None]],
        platforms=["CPU"],
    )
    return {"doubled": doubled}


@pytest.mark.parametrize(
    ("serve", "op"),
    [
        (lambda text: {"text": tensorflow_text.case_fold_utf8(text)}, "CaseFoldUTF8"),
        (jax_double, "XlaCallModule"),
    ],
)
def test_operations_that_a_server_may_lack_are_found_though_this_process_knows_them(
    problems, serve, op
):
    (problem,) = problems(serve)
    assert f"operation {op} belongs neither to TensorFlow nor to what is tried of tens" in problem


@pytest.mark.parametrize(
    ("draw", "op"),
    [
        (lambda size: tf.random.uniform([size]), "RandomUniform"),
        (lambda size: tf.random.categorical(tf.zeros([size, 2]), 1), "Multinomial"),
        (lambda size: tf.raw_ops.TruncatedNormal(shape=[size], dtype="float32"), "TruncatedNormal"),
        (
            lambda size: (
                tf.random.uniform_candidate_sampler(
                    tf.zeros([size, 1], tf.int64), 1, 1, False, 9
                ).true_expected_count
            ),
            "UniformCandidateSampler",
        ),
    ],
)
def test_random_operations_are_found(problems, draw, op):
    (problem,) = problems(lambda text: {"noise": draw(tf.size(text))})
    assert problem.endswith(f"operation {op} is random; export with `training=False`")


def test_outputs_must_have_the_batch_first(problems):
    def serve(text):
        lengths = tf.strings.length(text)
        return {
            "a_scalar": tf.size(text),
            "a_fixed": tf.constant([1.0, 2.0]),
            "unknown": tf.reshape(lengths, tf.concat([[-1], tf.ones_like(lengths)], 0)),
            "fine": lengths,
            "wide": tf.stack([lengths, lengths], axis=1),
        }

    assert problems(serve) == [
        f"signature 'serving_default', output '{name}': first dimension should be the batch. "
        f"Received: {what}"
        for name, what in [
            ("a_fixed", "float32 of shape (2,)"),
            ("a_scalar", "int32 of shape ()"),
            ("unknown", "int32 of shape <unknown>"),
        ]
    ]


@pytest.mark.parametrize("kind", ["ragged", "sparse"])
def test_outputs_must_be_dense(problems, kind):
    def serve(text):
        words = tf.strings.split(text)
        return {"words": words if kind == "ragged" else words.to_sparse()}

    assert problems(serve) == [
        "signature 'serving_default', output 'words': should be a dense tensor, "
        "not ragged or sparse"
    ]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64"])
def test_outputs_must_have_a_type_that_json_has(problems, dtype):
    def serve(text):
        lengths = tf.strings.length(text)
        json = ("bool", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint64")
        fine = {name: tf.cast(lengths, name) for name in json}
        return {"strings": text + "", "lengths": tf.cast(lengths, dtype), **fine}

    assert problems(serve) == [
        "signature 'serving_default', output 'lengths': should be of a type that JSON has. "
        f"Received: {dtype} of shape (None,)"
    ]
