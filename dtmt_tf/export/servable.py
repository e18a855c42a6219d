"""Finds what would stop a SavedModel from working in a plain C++ server.

`tf.saved_model.load` in Python forgives a good deal that TensorFlow Serving does not: operations
that call back into Python, functions that must be compiled by XLA, devices the server has not
got, operations it does not know, inputs and outputs that cannot be joined and split by row or
travel as JSON, warm-up requests that fail. The check reads files and runs nothing.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

from dtmt_tf.errors import UserError
from dtmt_tf.export.warmup import MAX_REQUESTS, WARMUP_FILE, read_warmup

_PYTHON_OPS = ("PyFunc", "PyFuncStateless", "EagerPyFunc", "NumpyFunction")
# A server has all of tensorflow-text's operations, an exported model only these: the tests in the
# C++ session load no more, so what passes here is what has been run there.
_TOKENIZER_OPS = {
    f"Sentencepiece{name}Op"
    for name in (
        *("", "Tokenize", "TokenizeWithOffsets", "Detokenize"),
        *("IdToString", "StringToId", "VocabSize"),
    )
}
_RANDOM = re.compile("Random|Multinomial|TruncatedNormal|Sample")
_MUST_COMPILE = "_XlaMustCompile"
_DEFAULT_SIGNATURE = "serving_default"
_METHOD = "tensorflow/serving/predict"
_JSON_TYPES = {  # float16, bfloat16 and complex numbers can not travel by REST
    dtype.as_datatype_enum
    for dtype in (
        *(tf.string, tf.bool, tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64),
        *(tf.uint8, tf.uint16, tf.uint32, tf.uint64),
    )
}
# Signatures such as `__saved_model_init_op`, written by TensorFlow for its own use.
_INTERNAL_PREFIX = "__saved_model_"


def check_saved_model(path: str | os.PathLike[str]) -> list[str]:
    """Lists what would stop a SavedModel from being served.

    A servable model holds no Python function, no `XlaCallModule` and no function that must be
    compiled by XLA (`jit_compile=True`); places nothing on a device other than a CPU; uses only
    the operations of TensorFlow and those of tensorflow-text's sentencepiece tokenizer, none of
    them random; takes in every signature one row of text per sentence; and gives dense outputs
    of types that JSON has, whose first dimension is the batch, because servers join and split
    requests by row. Its warm-up requests, if there are any, fit the signatures; a server does not
    serve a model that fails on one.

    Args:
        path: The folder that holds `saved_model.pb`.

    Returns:
        One line per problem, naming the function and node, the signature and tensor, or the
        warm-up request. Empty if nothing was found.

    Raises:
        UserError: If there is no SavedModel at `path`, or it cannot be read.

    Example:
    >>> for problem in check_saved_model("saved_models/multi30k_ende/dtmt4/1"):
    ...     logging.error(problem)
    """
    problems: list[str] = []
    found = False
    for meta_graph in _read(path).meta_graphs:
        if tf.saved_model.SERVING not in meta_graph.meta_info_def.tags:
            continue
        found = True
        problems.extend(_check_graph(meta_graph.graph_def))
        problems.extend(_check_signatures(meta_graph.signature_def))
        problems.extend(_check_warmup(path, meta_graph.signature_def))
    if not found:
        problems.append(f"model: no graph has the tag '{tf.saved_model.SERVING}'")
    return problems


def _read(path: str | os.PathLike[str]) -> Any:
    """Returns the SavedModel message in a folder."""
    file = Path(path, "saved_model.pb")
    if not file.is_file():
        raise UserError(f"There is no SavedModel at '{path}': no file '{file}'.")
    try:
        return saved_model_pb2.SavedModel.FromString(file.read_bytes())
    except DecodeError as error:
        raise UserError(f"'{file}' is damaged or is not a SavedModel: {error}") from error


def _check_graph(graph_def: Any) -> Iterator[str]:
    """Yields the problems of a graph and its functions, in the order of the file."""
    functions = {function.signature.name for function in graph_def.library.function}
    yield from _check_nodes("main graph", graph_def.node, functions)
    for function in graph_def.library.function:
        where = f"function '{function.signature.name}'"
        if _has_flag(function.attr):
            yield f"{where}: must be compiled by XLA ({_MUST_COMPILE}); drop `jit_compile=True`"
        yield from _check_nodes(where, function.node_def, functions)


def _check_nodes(where: str, nodes: Iterable[Any], functions: set[str]) -> Iterator[str]:
    """Yields the problems of nodes, each of which calls an operation or one of `functions`."""
    for node in nodes:
        here = f"{where}, node '{node.name}'"
        if node.op in _PYTHON_OPS:
            yield f"{here}: operation {node.op} calls Python, which a server does not have"
        elif node.op == "XlaCallModule":
            yield f"{here}: operation XlaCallModule needs XLA; export with the TensorFlow backend"
        elif node.op not in functions and not _is_known(node.op):
            yield (
                f"{here}: operation {node.op} belongs neither to TensorFlow nor to "
                "tensorflow-text's sentencepiece tokenizer"
            )
        elif node.op not in functions and _RANDOM.search(node.op):
            yield f"{here}: operation {node.op} is random; export with `training=False`"
        if _must_compile(node):
            yield f"{here}: must be compiled by XLA ({_MUST_COMPILE}); drop `jit_compile=True`"
        if not _is_cpu_or_free(node.device):
            yield f"{here}: placed on device '{node.device}'; export on a CPU"


def _is_known(op: str) -> bool:
    """Returns whether servers know an operation.

    TensorFlow's own operations are those of `tf.raw_ops` and the internal ones, with an
    underscore. The registry alone does not tell: it grows with each library of operations that
    the process happens to have loaded, such as the rest of tensorflow-text.
    """
    if op in _TOKENIZER_OPS or hasattr(tf.raw_ops, op):
        return True
    return op.startswith("_") and op_def_registry.get(op) is not None


def _must_compile(node: Any) -> bool:
    """Returns whether a node, or a function that it is given, must be compiled by XLA."""
    if _has_flag(node.attr):
        return True
    calls = [value.func for value in node.attr.values() if value.HasField("func")]
    calls += [func for value in node.attr.values() for func in value.list.func]
    return any(_has_flag(call.attr) for call in calls)


def _has_flag(attributes: Mapping[str, Any]) -> bool:
    """Returns whether the attribute that demands XLA is there and true."""
    return _MUST_COMPILE in attributes and attributes[_MUST_COMPILE].b


def _is_cpu_or_free(device: str) -> bool:
    """Returns whether a device string names a CPU or leaves the kind of device open."""
    try:
        return tf.DeviceSpec.from_string(device).device_type in (None, "CPU")
    except ValueError:
        return False


def _check_signatures(signatures: Mapping[str, Any]) -> Iterator[str]:
    """Yields the problems of the signatures a client can call."""
    if _DEFAULT_SIGNATURE not in signatures:
        yield f"model: no signature '{_DEFAULT_SIGNATURE}'"
    for name, signature in sorted(signatures.items()):
        if name.startswith(_INTERNAL_PREFIX):
            continue
        if signature.method_name != _METHOD:
            yield f"signature '{name}': should have the method '{_METHOD}'"
        if not signature.inputs or (name == _DEFAULT_SIGNATURE and len(signature.inputs) > 1):
            wanted = "one input" if name == _DEFAULT_SIGNATURE else "an input"
            names = ", ".join(sorted(signature.inputs)) or "none"
            yield f"signature '{name}': should have {wanted}. Received: {names}"
        for key, info in sorted(signature.inputs.items()):
            where = f"signature '{name}', input '{key}'"
            if not _is_text_per_row(info):
                yield f"{where}: should be string of shape [-1]. Received: {_describe(info)}"
        for key, info in sorted(signature.outputs.items()):
            where = f"signature '{name}', output '{key}'"
            sizes = _sizes(info)
            if info.WhichOneof("encoding") != "name":
                yield f"{where}: should be a dense tensor. Received: {_describe(info)}"
            elif sizes is None or not sizes or sizes[0] != -1:
                yield f"{where}: first dimension should be the batch. Received: {_describe(info)}"
            elif info.dtype not in _JSON_TYPES:
                yield f"{where}: should be of a type that JSON has. Received: {_describe(info)}"


def _is_text_per_row(info: Any) -> bool:
    """Returns whether a tensor is dense strings `[B]`."""
    is_dense = info.WhichOneof("encoding") == "name"
    return is_dense and info.dtype == tf.string.as_datatype_enum and _sizes(info) == [-1]


def _check_warmup(path: str | os.PathLike[str], signatures: Mapping[str, Any]) -> Iterator[str]:
    """Yields the problems of the warm-up requests, if there are any."""
    if not Path(path, WARMUP_FILE).exists():
        return
    try:
        requests = read_warmup(path)
    except (DecodeError, tf.errors.OpError) as error:
        yield f"{WARMUP_FILE}: is damaged: {error}"
        return
    if len(requests) > MAX_REQUESTS:
        yield f"{WARMUP_FILE}: holds {len(requests)} requests; a server takes {MAX_REQUESTS}"
    for number, (name, inputs) in enumerate(requests, 1):
        here = f"{WARMUP_FILE}, request {number}"
        if (name or _DEFAULT_SIGNATURE) not in signatures:
            yield f"{here}: the model has no signature '{name}'"
            continue
        wanted = sorted(signatures[name or _DEFAULT_SIGNATURE].inputs)
        if sorted(inputs) != wanted:
            received = ", ".join(sorted(inputs)) or "none"
            yield (
                f"{here}: signature '{name}' takes the inputs {', '.join(wanted)}. "
                f"Received: {received}"
            )
        elif any(texts.dtype != object or texts.ndim != 1 for texts in inputs.values()):
            yield f"{here}: inputs should be rows of text"
        elif len({len(texts) for texts in inputs.values()}) > 1:
            yield f"{here}: inputs should have equally many rows"


def _sizes(info: Any) -> list[int] | None:
    """Returns the sizes of a tensor, -1 where unknown, or `None` if the rank is unknown."""
    if info.tensor_shape.unknown_rank:
        return None
    return [dimension.size for dimension in info.tensor_shape.dim]


def _describe(info: Any) -> str:
    """Returns what a tensor is, such as `float32 of shape [-1, 2]`."""
    sizes = _sizes(info)
    shape = "unknown shape" if sizes is None else f"shape {sizes}"
    encoding = info.WhichOneof("encoding")
    if encoding == "composite_tensor":
        return "a composite (ragged or sparse) tensor"
    kind = "sparse " if encoding == "coo_sparse" else ""
    return f"{kind}{tf.as_dtype(info.dtype).name} of {shape}"
