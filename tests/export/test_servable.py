"""Each fault that a server would meet is found and named; a sound model passes."""

import pytest
import tensorflow as tf
import tensorflow_text

from dtmt_tf.errors import UserError
from dtmt_tf.export.servable import check_saved_model


def _save(path, serve, tokenizer=None, spec=None, signature="serving_default"):
    """Saves a function of text as a SavedModel and returns its folder."""
    spec = tf.TensorSpec([None], tf.string, name="text") if spec is None else spec
    module = tf.Module()
    module.serve = tf.function(serve, input_signature=[spec])
    module.tokenizer = tokenizer
    tf.saved_model.save(module, str(path), signatures={signature: module.serve})
    return path


def _find_node(graph, op):
    """Returns the first function that has a node of an operation, and the node."""
    for function in graph.graph_def.library.function:
        for node in function.node_def:
            if node.op == op:
                return function, node
    raise LookupError(op)


def test_a_sound_model_has_no_problems(sound_dir):
    assert check_saved_model(sound_dir) == []
    assert check_saved_model(str(sound_dir)) == []


@pytest.mark.parametrize(
    ("wrap", "op"),
    [
        (lambda text: tf.py_function(lambda x: x, [text], tf.string), "EagerPyFunc"),
        (lambda text: tf.numpy_function(lambda x: x, [text], tf.string), "PyFunc"),
        (
            lambda text: tf.numpy_function(lambda x: x, [text], tf.string, stateful=False),
            "PyFuncStateless",
        ),
    ],
)
def test_python_functions_are_found(tmp_path, wrap, op):
    problems = check_saved_model(
        _save(tmp_path, lambda text: {"text": tf.ensure_shape(wrap(text), [None])})
    )
    assert len(problems) == 1
    assert problems[0].startswith("function '__inference_")
    assert f"node '{op}': operation {op} calls Python" in problems[0]


@pytest.mark.parametrize("op", ["NumpyFunction", "XlaCallModule"])
def test_forbidden_operations_are_found_in_functions_and_in_the_main_graph(edit, op):
    names = []

    def change(graph):
        function, node = _find_node(graph, "Relu")
        node.op = op
        names.extend([function.signature.name, node.name])
        graph.graph_def.node.add(name="stray", op=op)

    main, inner = edit(change)
    assert main.startswith(f"main graph, node 'stray': operation {op} ")
    assert inner.startswith(f"function '{names[0]}', node '{names[1]}': operation {op} ")


def test_a_function_compiled_by_xla_is_found(tmp_path):
    @tf.function(jit_compile=True)
    def square(numbers):
        return numbers * numbers

    def serve(text):
        return {"squares": square(tf.cast(tf.strings.length(text), tf.float32))}

    problems = check_saved_model(_save(tmp_path, serve))
    assert any(
        problem.startswith("function '__inference_square_")
        and problem.endswith(": must be compiled by XLA (_XlaMustCompile); drop `jit_compile=True`")
        for problem in problems
    )
    assert any(
        ", node 'PartitionedCall': must be compiled by XLA" in problem for problem in problems
    )
    assert all("_XlaMustCompile" in problem for problem in problems)


def test_the_xla_attribute_counts_only_when_true_and_also_inside_a_called_function(edit):
    def change_to_false(graph):
        function, node = _find_node(graph, "Relu")
        function.attr["_XlaMustCompile"].b = False
        node.attr["_XlaMustCompile"].b = False

    assert edit(change_to_false) == []

    def change_call(graph):
        _, node = _find_node(graph, "StatelessIf")
        node.attr["then_branch"].func.attr["_XlaMustCompile"].b = True

    (problem,) = edit(change_call)
    assert "node 'cond': must be compiled by XLA" in problem


@pytest.mark.parametrize(
    ("device", "is_fault"),
    [
        ("/device:GPU:0", True),
        ("/job:localhost/replica:0/task:0/device:GPU:1", True),
        ("/gpu:0", True),
        ("/device:TPU:0", True),
        ("nonsense/", True),
        ("/device:CPU:*", False),
        ("/job:localhost", False),
        ("", False),
    ],
)
def test_only_devices_every_server_has_are_allowed(edit, device, is_fault):
    names = []

    def change(graph):
        function, node = _find_node(graph, "Relu")
        node.device = device
        names.extend([function.signature.name, node.name])

    expected = "function '{}', node '{}': placed on device '{}'; export on a CPU"
    problems = edit(change)
    assert problems == ([expected.format(*names, device)] if is_fault else [])


def test_a_device_of_the_exporting_machine_is_found(tmp_path):
    def serve(text):
        with tf.device("/GPU:0"):
            return {"lengths": tf.square(tf.strings.length(text))}

    problems = check_saved_model(_save(tmp_path, serve))
    assert problems
    assert all("placed on device '/device:GPU:0'" in problem for problem in problems)


def test_other_custom_operations_are_found_though_this_process_knows_them(tmp_path):
    problems = check_saved_model(
        _save(tmp_path, lambda text: {"text": tensorflow_text.normalize_utf8(text, "NFC")})
    )
    (problem,) = problems
    assert "operation NormalizeUTF8 belongs neither to TensorFlow nor to" in problem


def test_an_operation_nobody_knows_is_found(edit):
    def change(graph):
        graph.graph_def.node.add(name="custom", op="FrobnicateV2")
        graph.graph_def.node.add(name="fake", op="SentencepieceFakeOp")
        graph.graph_def.node.add(name="internal", op="_Arg")
        graph.graph_def.node.add(name="call", op=graph.graph_def.library.function[0].signature.name)
        graph.graph_def.node.add(name="unknown_internal", op="_Frobnicate")

    first, fake, second = edit(change)
    assert first.startswith("main graph, node 'custom': operation FrobnicateV2 belongs neither")
    assert fake.startswith("main graph, node 'fake': operation SentencepieceFakeOp belongs neither")
    assert second.startswith("main graph, node 'unknown_internal': operation _Frobnicate belongs")


@pytest.mark.parametrize(
    ("draw", "op"),
    [
        (lambda shape: tf.random.uniform(shape), "RandomUniform"),
        (lambda shape: tf.random.normal(shape), "RandomStandardNormal"),
        (
            lambda shape: tf.random.stateless_truncated_normal(shape, [1, 2]),
            "StatelessTruncatedNormalV2",
        ),
    ],
)
def test_random_operations_are_found(tmp_path, draw, op):
    problems = check_saved_model(_save(tmp_path, lambda text: {"noise": draw([tf.size(text)])}))
    assert any(
        problem.endswith(f"operation {op} is random; export with `training=False`")
        for problem in problems
    )
    assert all(" is random; " in problem for problem in problems)


def test_outputs_must_have_the_batch_first(tmp_path):
    def serve(text):
        lengths = tf.strings.length(text)
        return {
            "a_scalar": tf.size(text),
            "a_fixed": tf.constant([1.0, 2.0]),
            "unknown": tf.reshape(lengths, tf.concat([[-1], tf.ones_like(lengths)], 0)),
            "fine": lengths,
            "wide": tf.stack([lengths, lengths], axis=1),
        }

    assert check_saved_model(_save(tmp_path, serve)) == [
        f"signature 'serving_default', output '{name}': first dimension should be the batch. "
        f"Received: {what}"
        for name, what in [
            ("a_fixed", "float32 of shape [2]"),
            ("a_scalar", "int32 of shape []"),
            ("unknown", "int32 of unknown shape"),
        ]
    ]


def test_outputs_must_be_dense(edit):
    def change_to_sparse(graph):
        info = graph.signature_def["serving_default"].outputs["score"]
        info.coo_sparse.values_tensor_name = "values:0"

    (problem,) = edit(change_to_sparse)
    assert problem == (
        "signature 'serving_default', output 'score': should be a dense tensor. "
        "Received: sparse float32 of shape [-1]"
    )

    def change_to_ragged(graph):
        info = graph.signature_def["serving_default"].outputs["score"]
        info.composite_tensor.components.add(name="values:0")

    (problem,) = edit(change_to_ragged)
    assert problem.endswith("Received: a composite (ragged or sparse) tensor")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64"])
def test_outputs_must_have_a_type_that_json_has(tmp_path, dtype):
    def serve(text):
        lengths = tf.strings.length(text)
        json = ("bool", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint64")
        fine = {name: tf.cast(lengths, name) for name in json}
        return {"strings": text + "", "lengths": tf.cast(lengths, dtype), **fine}

    assert check_saved_model(_save(tmp_path, serve)) == [
        "signature 'serving_default', output 'lengths': should be of a type that JSON has. "
        f"Received: {dtype} of shape [-1]"
    ]


@pytest.mark.parametrize("signature", ["serving_default", "other"])
@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (tf.TensorSpec([None], tf.int32, "ids"), "int32 of shape [-1]"),
        (tf.TensorSpec([None, None], tf.string, "ids"), "string of shape [-1, -1]"),
        (tf.TensorSpec([1], tf.string, "ids"), "string of shape [1]"),
        (tf.TensorSpec([], tf.string, "ids"), "string of shape []"),
        (tf.TensorSpec(None, tf.string, "ids"), "string of unknown shape"),
    ],
)
def test_every_input_of_every_signature_must_be_one_text_per_row(tmp_path, spec, what, signature):
    def serve(ids):
        return {"rows": tf.where(tf.ones([tf.size(ids)]))}

    problems = check_saved_model(_save(tmp_path, serve, spec=spec, signature=signature))
    message = f"signature '{signature}', input 'ids': should be string of shape [-1]. "
    assert message + f"Received: {what}" in problems
    assert [problem for problem in problems if message not in problem] == (
        [] if signature == "serving_default" else ["model: no signature 'serving_default'"]
    )


def test_inputs_must_be_dense(edit):
    def change(graph):
        info = graph.signature_def["serving_default"].inputs["text"]
        info.coo_sparse.values_tensor_name = "values:0"

    (problem,) = edit(change)
    assert problem.endswith(
        "input 'text': should be string of shape [-1]. Received: sparse string of shape [-1]"
    )


def test_a_signature_has_an_input_and_the_default_one_alone(edit):
    def change(graph):
        default = graph.signature_def["serving_default"]
        several = graph.signature_def["several"]
        several.CopyFrom(default)
        several.inputs["more"].CopyFrom(default.inputs["text"])
        graph.signature_def["none"].CopyFrom(default)
        graph.signature_def["none"].inputs.clear()

    assert edit(change) == ["signature 'none': should have an input. Received: none"]

    def change_default(graph):
        inputs = graph.signature_def["serving_default"].inputs
        inputs["more"].CopyFrom(inputs["text"])

    assert edit(change_default) == [
        "signature 'serving_default': should have one input. Received: more, text"
    ]


def test_a_signature_must_be_there_to_predict(edit):
    def change(graph):
        graph.signature_def["serving_default"].method_name = "tensorflow/serving/classify"

    assert edit(change) == [
        "signature 'serving_default': should have the method 'tensorflow/serving/predict'"
    ]


def test_the_default_signature_must_exist(tmp_path):
    path = _save(tmp_path, lambda text: {"copy": text + ""}, signature="copy")
    assert check_saved_model(path) == ["model: no signature 'serving_default'"]


def test_a_model_without_the_serving_tag_is_reported(edit):
    def change(graph):
        graph.meta_info_def.tags[:] = ["train"]

    assert edit(change) == ["model: no graph has the tag 'serve'"]


def test_a_missing_or_damaged_model_is_the_users_to_mend(tmp_path):
    with pytest.raises(UserError, match="There is no SavedModel at"):
        check_saved_model(tmp_path / "absent")
    (tmp_path / "saved_model.pb").write_bytes(b"not a model")
    with pytest.raises(UserError, match="is damaged or is not a SavedModel"):
        check_saved_model(tmp_path)
