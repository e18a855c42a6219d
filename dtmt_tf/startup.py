"""Starting TensorFlow in this process: quietly, on the devices that are asked for."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
from collections.abc import Iterator, Sequence

from dtmt_tf.errors import DAMAGED, UserError
from dtmt_tf.machine import cores, keep_freed_memory
from dtmt_tf.quiet import ignore_softmax_of_one, quiet_stderr

# before anything imports Keras or TensorFlow
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's own lines; errors are raised

# What Keras and TensorFlow import if it is installed, for what nobody asks of them here: pictures,
# wrappers of scikit-learn, JAX in TensorFlow Lite. It took 38 % of their start.
UNUSED = ("jax", "matplotlib", "sklearn")
STRATEGIES = ("auto", "mirrored", "multiworker")
CLUSTER_VARIABLE = "TF_CONFIG"
CLUSTER_EXAMPLE = (
    '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'
)


def is_multiworker(name: str) -> bool:
    """Whether several processes are to train together.

    Args:
        name: `"auto"` (if TF_CONFIG names more than one worker), `"mirrored"` or `"multiworker"`.

    Raises:
        UserError: If TF_CONFIG is missing where it is needed, or can not be read.
    """
    if name == "mirrored" or (name == "auto" and not os.environ.get(CLUSTER_VARIABLE)):
        return False
    return _workers() > 1 or name == "multiworker"


def replicas(devices: Sequence[str], multiworker: bool) -> int:
    """Returns how many devices will train together; they need not have started.

    Args:
        devices: Those of this machine that are asked for; all GPUs, or the CPU, if there are none.
        multiworker: Whether TF_CONFIG's workers, each with as many, train together.
    """
    import tensorflow as tf

    here = len(devices) or len(tf.config.list_physical_devices("GPU")) or 1
    return here * (_workers() if multiworker else 1)


def _workers() -> int:
    """Returns how many workers TF_CONFIG names.

    Raises:
        UserError: If it is missing, or can not be read.
    """
    text = os.environ.get(CLUSTER_VARIABLE, "")
    try:
        cluster = dict(json.loads(text)["cluster"])
        task = json.loads(text)["task"]
        workers = [*cluster.get("chief", []), *cluster["worker"]]
        cluster[task["type"]][int(task["index"])]
    except (*DAMAGED, IndexError) as error:
        raise UserError(
            f"{CLUSTER_VARIABLE} should name the workers and which of them this is, such as\n"
            f"  {CLUSTER_EXAMPLE}\n"
            f"Received: {text!r} ({type(error).__name__}: {error})."
        ) from error
    return len(workers)


def start_tensorflow(
    devices: Sequence[str] = (),
    threads: tuple[int, int] | None = None,
    multiworker: bool = False,
) -> None:
    """Imports and starts TensorFlow without the lines it writes whatever its log level is.

    Args:
        devices: Devices that are asked for; with `CPU:0 CPU:1` and so on the processor is divided
            into as many logical devices, its cores shared out among them.
        threads: Between operations and within one, 0 for TensorFlow's own number; by default what
            suits these models on a processor.
        multiworker: Whether devices are left to a strategy that must be the first to see them.

    Raises:
        UserError: If one of the devices is not there, or named twice, or not to be named.
    """
    if multiworker and devices:
        raise UserError("--devices is for one machine; several workers use all they have.")
    names = [name.upper() for name in devices]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"--devices names {twice[0]} twice.")
    processors = len({name for name in devices if name.upper().startswith("CPU:")})
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # several may share a GPU
    keep_freed_memory()
    ignore_softmax_of_one()
    with quiet_stderr():
        with without(UNUSED), kept():
            import tensorflow as tf
            import tensorflow_text  # noqa: F401

        if not tf.config.list_physical_devices("GPU"):
            # the products are small: operations side by side, such as the encoder's directions,
            # use the cores better than many threads in each
            parts = max(2, processors)
            between, within = threads or (parts, max(1, cores() // parts))
            tf.config.threading.set_inter_op_parallelism_threads(between)
            tf.config.threading.set_intra_op_parallelism_threads(within)
        if processors > 1:
            tf.config.set_logical_device_configuration(
                tf.config.list_physical_devices("CPU")[0],
                [tf.config.LogicalDeviceConfiguration()] * processors,
            )
        if multiworker:
            return
        devices_there = tf.config.list_logical_devices()
    present = [device.name.removeprefix("/device:") for device in devices_there]
    missing = [name for name in devices if name.upper() not in present]
    if missing:
        raise UserError(f"There is no device {missing[0]}. Present: {', '.join(present)}.")


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Within this block nothing is collected, and what is made in it is never looked at again.

    TensorFlow makes so many objects while it is imported that going through them took a fifth of
    its start, and a tenth of making a graph.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def without(names: Sequence[str]) -> Iterator[None]:
    """Within this block packages are as if they were not installed, if nothing has imported them.

    What is imported in it does without them for good; later imports of them succeed.

    Args:
        names: The packages.
    """
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
