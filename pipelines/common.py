"""What the pipelines share: arguments, settings, and errors without a traceback."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's own lines; errors are raised

from dtmt_tf.errors import UserError  # noqa: E402
from dtmt_tf.experiment import Experiment, resolve  # noqa: E402
from dtmt_tf.files import is_of_full_disk  # noqa: E402
from dtmt_tf.machine import cores  # noqa: E402
from dtmt_tf.quiet import quiet_stderr  # noqa: E402

DATA_DIR_VARIABLE = "DTMT_DATA_DIR"
DEFAULT_TASK = "cldr_ende"
STRATEGIES = ("auto", "mirrored", "multiworker")
CLUSTER_VARIABLE = "TF_CONFIG"
CLUSTER_EXAMPLE = (
    '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'
)


def parser(description: str, epilog: str = "") -> argparse.ArgumentParser:
    """Returns a parser with the arguments that name a run."""
    from dtmt_tf.tasks import TASKS

    result = argparse.ArgumentParser(
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    group = result.add_argument_group("which run")
    group.add_argument(
        "--task",
        default=DEFAULT_TASK,
        metavar="NAME",
        help=f"one of {', '.join(TASKS)} (default: %(default)s)",
    )
    group.add_argument(
        "--model",
        metavar="NAME",
        help="a preset that train.py --list-models names (default: the task's)",
    )
    group.add_argument("--name", help="name of the run (default: the model's)")
    add_folders(group)
    return result


def add_folders(group: argparse._ActionsContainer) -> None:
    """Adds the folders of runs and of data to a parser."""
    group.add_argument(
        "--output-dir",
        type=Path,
        default=ROOT / "saved_models",
        metavar="DIR",
        help="runs lie at DIR/<task>/<name> (default: saved_models)",
    )
    group.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        default=os.environ.get(DATA_DIR_VARIABLE),
        help="where data sets lie; what is missing is downloaded "
        f"(default: the environment variable {DATA_DIR_VARIABLE})",
    )


def is_multiworker(name: str) -> bool:
    """Whether several processes are to train together.

    Args:
        name: `"auto"` (if TF_CONFIG names more than one worker), `"mirrored"` or `"multiworker"`.

    Raises:
        UserError: If TF_CONFIG is missing where it is needed, or can not be read.
    """
    text = os.environ.get(CLUSTER_VARIABLE, "")
    if name == "mirrored" or (name == "auto" and not text):
        return False
    try:
        cluster = dict(json.loads(text)["cluster"])
        task = json.loads(text)["task"]
        workers = [*cluster.get("chief", []), *cluster["worker"]]
        cluster[task["type"]][int(task["index"])]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UserError(
            f"{CLUSTER_VARIABLE} should name the workers and which of them this is, such as\n"
            f"  {CLUSTER_EXAMPLE}\n"
            f"Received: {text!r} ({type(error).__name__}: {error})."
        ) from error
    return name == "multiworker" or len(workers) > 1


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
    with quiet_stderr():
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


def add_set(
    group: argparse._ActionsContainer,
    text: str = "change settings; train.py --show-config lists them",
) -> None:
    """Adds `--set` to a parser."""
    group.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="SECTION.NAME=VALUE",
        help=text,
    )


def add_devices(group: argparse._ActionsContainer) -> None:
    """Adds `--devices` to a parser."""
    group.add_argument(
        "--devices",
        nargs="+",
        default=[],
        metavar="DEVICE",
        help="devices to train on, such as GPU:0 GPU:1, or CPU:0 CPU:1 for one on each half of the "
        "cores (default: all GPUs, or the CPU)",
    )


def run_folder(args: argparse.Namespace) -> Path:
    """Returns the folder of the run that the arguments name."""
    from dtmt_tf.tasks import TASKS

    task = _choose(args.task, TASKS, "task")
    return args.output_dir / task.name / (args.name or args.model or task.model)


def data_dir(args: argparse.Namespace) -> Path | None:
    """Returns the data directory, if one is named.

    Raises:
        UserError: If it does not exist.
    """
    if args.data_dir is None:
        return None
    folder = Path(args.data_dir)
    if not folder.is_dir():
        raise UserError(f"--data-dir (or {DATA_DIR_VARIABLE}): {folder} is not a directory.")
    return folder


def cache_dir() -> Path:
    """Returns where downloads are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dtmt_tf"


def experiment(args: argparse.Namespace) -> tuple[Experiment, dict[str, str]]:
    """Resolves task, model and `--set` into settings and their origins."""
    from dtmt_tf.models import MODELS
    from dtmt_tf.tasks import TASKS

    task = _choose(args.task, TASKS, "task")
    name = args.model or task.model
    return resolve(task, name, _choose(name, MODELS, "model"), args.set)


def read_text(path: Path | None) -> list[str]:
    """Returns the lines of a file, or of standard input if there is none."""
    from dtmt_tf.data.corpus import read_lines

    if path:
        return read_lines(path)
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    return lines if text else []


def write_text(path: Path | None, lines: Iterable[str]) -> None:
    """Writes lines to a file, whole or not at all, or to standard output if there is none."""
    from dtmt_tf.files import write_atomically

    output = "".join(line.replace("\n", " ") + "\n" for line in lines).encode()
    if path:
        write_atomically(path, output)
    else:
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()


def _choose(name: str, choices: dict, kind: str):  # type: ignore[no-untyped-def,type-arg]
    if name not in choices:
        raise UserError(f"Unknown {kind} {name!r}. Choose one of {', '.join(choices)}.")
    return choices[name]


def main(command: Callable[[], int | None]) -> None:
    """Runs a command; mistakes of the user end with exit code 2 and no traceback."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("absl").setLevel(logging.ERROR)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    try:
        code = command() or 0
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2
    except BrokenPipeError:  # the reader of our output left
        sys.stderr.close()
        code = 141
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        code = 130
    except Exception as error:
        full = is_of_full_disk(error)  # TensorFlow has errors of its own for that
        if not (full or isinstance(error, OSError)):
            raise
        print("error:", str(error).partition("\n")[0], file=sys.stderr)
        if full:
            print("Make room and run the same command again.", file=sys.stderr)
        code = 2
    sys.exit(code)
