"""A SavedModel in TensorFlow's C++ session, as TensorFlow Serving runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the sub-word operations

from dtmt_tf.quiet import quiet_stderr

_HEADINGS = ("Graph execution error:", "root error(s) found.")


class Session:
    """Runs the signatures of a SavedModel; several threads may do so at once.

    It is ready several times as soon as `tf.saved_model.load` is, which makes Python objects of
    all that a model is made of, and unlike functions it knows deadlines.

    Args:
        folder: A version's folder.

    Attributes:
        signatures: `{name: SignatureDef}`.

    Raises:
        What TensorFlow raises for a damaged model; see `FOREIGN`.
    """

    def __init__(self, folder: Path) -> None:
        config = tf.compat.v1.ConfigProto(
            allow_soft_placement=True,
            inter_op_parallelism_threads=tf.config.threading.get_inter_op_parallelism_threads(),
            intra_op_parallelism_threads=tf.config.threading.get_intra_op_parallelism_threads(),
        )
        config.graph_options.rewrite_options.disable_meta_optimizer = True  # it would gain nothing
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph, config=config)
        try:
            with quiet_stderr(), graph.as_default():
                loaded = tf.compat.v1.saved_model.load(self._session, ["serve"], str(folder))
                # else made by the first run; they announce their empty normalisation
                subwords = [op for op in graph.get_operations() if op.type == "SentencepieceOp"]
                self._session.run(subwords)
        except BaseException:
            self._session.close()
            raise
        self.signatures = dict(loaded.signature_def)

    def run(
        self,
        signature: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str] = (),
        timeout_ms: int = 0,
    ) -> dict[str, np.ndarray]:
        """Runs a signature.

        Args:
            signature: Its name.
            inputs: Arrays by name; strings are bytes in an array of objects.
            outputs: The wanted ones; all by default.
            timeout_ms: After so many milliseconds it fails; 0 for never.

        Raises:
            What TensorFlow raises.
        """
        infos = self.signatures[signature]
        fetches = {name: infos.outputs[name].name for name in outputs or infos.outputs}
        feeds = {infos.inputs[name].name: array for name, array in inputs.items()}
        options = tf.compat.v1.RunOptions(timeout_in_ms=timeout_ms)
        found = self._session.run(fetches, feeds, options)
        return {name: np.asarray(value) for name, value in found.items()}

    def close(self) -> None:
        """Ends the session; what still runs in it fails as cancelled."""
        self._session.close()


def reason(message: str) -> str:
    """Returns the line of a message of TensorFlow's that says what is wrong.

    The others are headings, and the operations that it came through.
    """
    asserted = message.partition("assertion failed: ")[2]
    lines = [line.strip() for line in (asserted or message).splitlines()]
    told = (line for line in lines if line and not line.endswith(_HEADINGS))
    return next(told, message)
