"""Weights to a SavedModel that takes and returns strings."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from dtmt_tf.config import ExportConfig
from dtmt_tf.errors import UserError
from dtmt_tf.export.endpoints import Endpoints, Tensors
from dtmt_tf.export.limits import limit_lines
from dtmt_tf.export.servable import check_servable
from dtmt_tf.export.signatures import SIGNATURES
from dtmt_tf.export.steps import Steps
from dtmt_tf.export.warmup import Request, write_warmup

LARGE = 1_000_000  # weights of a matrix; SPEED.md has what was measured on both sides of it


def export_saved_model(
    endpoints: Endpoints, folder: Path, card: Mapping[str, Any], warmup: Sequence[Request] = ()
) -> Path:
    """Writes a SavedModel with the search and the sub-words inside.

    Args:
        endpoints: What it answers, see `SIGNATURES`; the weights are copied, as it stores them.
        folder: Where to.
        card: What `info` answers.
        warmup: Requests that a server replays when it loads the model.

    Returns:
        The folder.

    Raises:
        UserError: If the result could not be served; the reasons name function and node.
    """
    answer = json.dumps(card, ensure_ascii=False)
    functions = {"info": lambda text: {"info": tf.fill(tf.shape(text), answer)}}
    module = tf.Module()
    module.weights = endpoints.stored.variables
    module.tokenizers = [side.tokenizer for side in (endpoints.source, endpoints.target)]
    module.unknown = endpoints.unknown.table if endpoints.unknown else None
    module.steps = Steps(endpoints)
    graphs: dict[Any, Any] = {}  # of two names for one function there is one
    signatures = {}
    with _taken_as_they_are():
        for name, signature in SIGNATURES.items():
            function = functions.get(name) or getattr(endpoints, name)
            if function not in graphs:
                specs = [tf.TensorSpec([None], tf.string, each) for each in signature.inputs]
                checked = tf.function(_checked(function, endpoints.limits), autograph=False)
                graphs[function] = checked.get_concrete_function(*specs)
            signatures[name] = graphs[function]
        tf.saved_model.save(module, str(folder), signatures)
    if keeps_loops_whole(endpoints):
        _keep_loops_whole(folder)
    if warmup:
        write_warmup(folder, warmup)
    problems = check_servable(folder)
    if problems:
        raise UserError("The model could not be served:\n  " + "\n  ".join(problems))
    return folder


@contextlib.contextmanager
def _taken_as_they_are() -> Iterator[None]:
    """Within this block functions are saved so that TensorFlow does not optimise their graphs.

    The optimiser made nothing faster here, and the first `align` takes 7 seconds with it, 2
    without.
    """
    before = tf.config.optimizer.get_experimental_options()["disable_meta_optimizer"]
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": before})


def keeps_loops_whole(endpoints: Endpoints) -> bool:
    """Whether a search is faster with whole loops: all its products are small, and in float32."""
    source, target = endpoints.source.size, endpoints.target.size
    largest = 0
    for shape in (tuple(each.shape) for each in endpoints.model.variables):
        is_table = len(shape) == 2 and bool({source, target} & set(shape))
        is_output = is_table and target in shape and not endpoints.decoding.shortlist
        if len(shape) == 2 and (is_output or not is_table):  # rows of a table are looked up
            largest = max(largest, shape[0] * shape[1])
    return largest < LARGE and endpoints.decoding.precision == "float32"


def _keep_loops_whole(folder: Path) -> None:
    """Makes loops and branches of a SavedModel call their bodies.

    TensorFlow's Python asks that they be taken apart into `Switch` and `Merge`, which are then more
    than half of all operations. A body that is called has none of them, but multiplies with Eigen
    instead of oneDNN. Eigen is slower for large matrices and in bfloat16.
    """
    path = folder / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for graph in (meta_graph.graph_def for meta_graph in saved.meta_graphs):
        for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
            for node in nodes:
                node.attr.pop("_lower_using_switch_merge", None)
    path.write_bytes(saved.SerializeToString(deterministic=True))
    (folder / "fingerprint.pb").unlink(missing_ok=True)  # of the file as it was


def _checked(function: Callable[..., Tensors], limits: ExportConfig | None) -> Any:
    """Makes an endpoint refuse what is not `[B]`, of different B, or beyond the limits."""
    return lambda *texts: function(*limit_lines(limits, *texts))
