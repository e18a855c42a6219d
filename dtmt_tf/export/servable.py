"""Finds what would stop an exported model from working in a plain C++ server.

`tf.saved_model.load` in Python forgives a good deal that TensorFlow Serving does not: operations
that call back into Python, functions that must be compiled by XLA, devices the server has not
got, operations it does not know, outputs that it cannot split by row or send as JSON. A cell or a
model can bring any of these into the graph. The check reads the file and runs nothing.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

_PYTHON_OPS = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
# A server has all of tensorflow-text's operations, an exported model only these: the tests in the
# C++ session load no more, so what passes here is what has been run there.
_TEXT_OPS = {
    f"Sentencepiece{name}Op"
    for name in ("", "Tokenize", "TokenizeWithOffsets", "Detokenize", "IdToString")
} | {"NormalizeUTF8"}
_RANDOM = re.compile("Random|Multinomial|TruncatedNormal|Sample")
_INTERNAL_PREFIX = "__saved_model_"  # of signatures that TensorFlow writes for its own use
_JSON_TYPES = {  # float16, bfloat16 and complex numbers can not travel by REST
    dtype.as_datatype_enum
    for dtype in (
        *(tf.string, tf.bool, tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64),
        *(tf.uint8, tf.uint16, tf.uint32, tf.uint64),
    )
}


def check_servable(path: str | os.PathLike[str]) -> list[str]:
    """Lists what would stop an exported model from being served.

    A servable model calls no Python function and has no function that must be compiled by XLA
    (`jit_compile=True`); places nothing on a device other than a CPU; uses only the operations of
    TensorFlow and, of tensorflow-text, the sentencepiece tokenizer's and Unicode's normal forms,
    none of them random; and gives dense outputs of types that JSON has, whose first dimension is
    the batch, because servers join and split requests by row.

    Args:
        path: The folder that holds `saved_model.pb`.

    Returns:
        One line per problem, naming the function and node, or the signature and output. Empty if
        nothing was found.

    Example:
    >>> for problem in check_servable("saved_models/multi30k_ende/dtmt4/1"):
    ...     logging.error(problem)
    """
    saved = saved_model_pb2.SavedModel.FromString(Path(path, "saved_model.pb").read_bytes())
    problems: list[str] = []
    for meta_graph in saved.meta_graphs:
        problems.extend(_check_graph(meta_graph.graph_def))
        problems.extend(_check_outputs(meta_graph.signature_def))
    return problems


def _check_graph(graph_def: Any) -> Iterator[str]:
    """Yields the problems of a graph and its functions, in the order of the file."""
    functions = {function.signature.name for function in graph_def.library.function}
    yield from _check_nodes("main graph", graph_def.node, functions)
    for function in graph_def.library.function:
        where = f"function '{function.signature.name}'"
        if function.attr["_XlaMustCompile"].b:
            yield f"{where}: must be compiled by XLA; drop `jit_compile=True`"
        yield from _check_nodes(where, function.node_def, functions)


def _check_nodes(where: str, nodes: Iterable[Any], functions: set[str]) -> Iterator[str]:
    """Yields the problems of nodes, each of which calls an operation or one of `functions`."""
    for node in nodes:
        here = f"{where}, node '{node.name}'"
        if node.op in _PYTHON_OPS:
            yield f"{here}: operation {node.op} calls Python, which a server does not have"
        # the registry of operations does not tell: it grows with each library that is loaded
        elif not (node.op in functions or node.op in _TEXT_OPS or hasattr(tf.raw_ops, node.op)):
            yield (
                f"{here}: operation {node.op} belongs neither to TensorFlow nor to "
                "what is tried of tensorflow-text"
            )
        elif node.op not in functions and _RANDOM.search(node.op):
            yield f"{here}: operation {node.op} is random; export with `training=False`"
        if tf.DeviceSpec.from_string(node.device).device_type not in (None, "CPU"):
            yield f"{here}: placed on device '{node.device}'; export on a CPU"


def _check_outputs(signatures: Mapping[str, Any]) -> Iterator[str]:
    """Yields the problems of what the signatures answer."""
    for name, signature in sorted(signatures.items()):
        if name.startswith(_INTERNAL_PREFIX):
            continue
        for key, info in sorted(signature.outputs.items()):
            where = f"signature '{name}', output '{key}'"
            if info.WhichOneof("encoding") != "name":
                yield f"{where}: should be a dense tensor, not ragged or sparse"
                continue
            shape = tf.TensorShape(info.tensor_shape)
            received = f"Received: {tf.as_dtype(info.dtype).name} of shape {shape}"
            if not shape.rank or shape[0] is not None:
                yield f"{where}: first dimension should be the batch. {received}"
            elif info.dtype not in _JSON_TYPES:
                yield f"{where}: should be of a type that JSON has. {received}"
