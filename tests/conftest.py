"""What every test shares: quiet TensorFlow, a seeded generator, a dtype policy that is put back."""

import gc
import os
import signal

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # GPUs round more, and processes would share their memory
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before anything imports TensorFlow

import numpy as np  # noqa: E402
import pytest  # noqa: E402

from dtmt_tf.machine import keep_freed_memory  # noqa: E402
from dtmt_tf.startup import UNUSED, kept, without  # noqa: E402

# what `nohup` and shells in the background ignore, tests send to processes that they start
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """Starts TensorFlow, but not in the process that only hands xdist's others their tests."""
    if not config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        start_tensorflow()


def start_tensorflow():
    """Imports it as commands do, for small models."""
    keep_freed_memory()
    with without(UNUSED), kept():
        import tensorflow as tf
    # four logical CPUs, before TensorFlow starts, for the tests of replicas
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 4
    )
    tf.config.threading.set_intra_op_parallelism_threads(1)  # toys' products are too small for more
    tf.config.threading.set_inter_op_parallelism_threads(2)
    # the graph optimiser takes a third of the time of a graph that runs a few times
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


def pytest_addoption(parser):
    """An option of this project's tests."""
    parser.addoption(
        "--differences",
        action="store_true",
        help="show the largest relative error that each test of numbers measured; needs -n0",
    )


def pytest_terminal_summary(terminalreporter, config):
    """Shows `--differences`."""
    if config.getoption("--differences"):
        from tests.cells.twin import measured

        for test, errors in sorted(measured.items()):
            terminalreporter.write_line(f"{max(errors):.1e} of {len(errors):>3}  {test}")


def pytest_collection_finish():
    """What is imported stays, and need not be looked through for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """A cache of the tests' own: prepared corpora are neither found nor left in the user's.

    Nor do the user's data sets and terminal count, but for tests of those data sets.
    """
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        for name in ("DTMT_DATA_DIR", "COLUMNS"):  # of whoever runs the tests
            patch.delenv(name, raising=False)
        for name in ("no_proxy", "NO_PROXY"):  # servers of tests are on this machine
            patch.setenv(name, f"127.0.0.1,localhost,{os.environ.get(name, '')}")
        yield folder / "dtmt_tf"


@pytest.fixture
def rng():
    """A generator with the same numbers in every test."""
    return np.random.default_rng(0)


@pytest.fixture
def dtype_policy():
    """Sets Keras's global policy until the end of the test: `dtype_policy("float64")`."""
    import keras

    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


# what is computed from the repository's records is remembered in a process
OF_ALL_RECORDS = ("test_results.py", "test_deep_architectures.py", "test_pictures.py")


def pytest_make_parametrize_id(val, argname):
    """Bytes are named by their argument: those of a gzip file hold the time, and can be long.

    xdist refuses to start where two processes find tests of different names.
    """
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Keeps a file's tests, and those that share what is costly, in one process of xdist.

    The longest come first, so that neither process is left waiting for the other.
    """
    items.sort(key=lambda item: not {"end_to_end", "training"} & set(item.path.parts))
    for item in items:
        costly = [name for name in ("workshop", "served_models") if name in item.fixturenames]
        if item.path.name in OF_ALL_RECORDS:
            costly = ["records"]
        shared = costly[0] if costly else item.path.as_posix()
        item.add_marker(pytest.mark.xdist_group(shared))
