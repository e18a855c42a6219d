"""Serves exported models with TensorFlow Serving's protocols, or writes its list of models."""

from __future__ import annotations

import argparse
import re
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtmt_tf import startup
from dtmt_tf.caller import as_called
from dtmt_tf.commands import common, options
from dtmt_tf.errors import UserError
from dtmt_tf.quiet import let_python_pass

if TYPE_CHECKING:
    from dtmt_tf.server import Models, Server

ALONE = "dtmt"  # what clients call a model unless told otherwise
MOUNTED = "/models"  # where the server of compose.yaml sees the folder of runs
MICROS = 5000  # that a request waits for others
POLL_SECONDS = 1.0  # between looks for a newer version
GRACE_SECONDS = 10.0  # for requests under way when the server is stopped
NAMED = re.compile(r"([\w.-]+)=(.+)")


def command(arguments: Sequence[str] | None = None) -> int:
    """Serves until Ctrl-C or SIGTERM."""
    args = _parser().parse_args(arguments)
    for name, least, most in (
        *(("rest_port", 0, 65535), ("grpc_port", 0, 65535)),
        *(("timeout", 0.001, 1e6), ("batch_timeout_micros", 0, 10**9)),
    ):
        common.check_range(args, name, least, most)
    if args.batch_timeout_micros is not None and not args.batch_sizes:
        raise UserError("--batch-timeout-micros goes with --batch-sizes.")
    if args.batch_sizes and not 1 <= min(args.batch_sizes) <= max(args.batch_sizes) <= 10_000:
        raise UserError(f"--batch-sizes are from 1 to 10,000. Received: {args.batch_sizes}.")
    folders = _folders(args)
    if args.models_config:
        print(models_config(folders, args.output_dir), end="")
        return 0
    let_python_pass()  # a version that is loaded would swallow what other requests log
    startup.start_tensorflow()
    from dtmt_tf.server import Batching, Models, Server

    batching = None
    if args.batch_sizes:
        micros = MICROS if args.batch_timeout_micros is None else args.batch_timeout_micros
        batching = Batching(sorted(args.batch_sizes), micros / 1e6)
    models = Models(folders, batching)
    server = Server(models, args.rest_port, args.grpc_port, args.timeout, args.cors)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print(_told(models, server), flush=True)
        while True:
            time.sleep(POLL_SECONDS)
            models.refresh()
    except KeyboardInterrupt:
        server.stop(GRACE_SECONDS)
    return 0


def served_names(folders: Sequence[Path]) -> list[str]:
    """Returns how clients call runs: `dtmt` one that is alone, else `<task>-<name>`."""
    if len(folders) == 1:
        return [ALONE]
    return [f"{folder.parent.name}-{folder.name}" for folder in map(Path.resolve, folders)]


def models_config(folders: Mapping[str, Path], runs: Path) -> str:
    """Returns the file that TensorFlow Serving's `--model_config_file` names.

    Args:
        folders: Of runs, by the name that clients use.
        runs: Their common folder, which the server sees as `/models`.

    Raises:
        UserError: If a run lies elsewhere.
    """
    from google.protobuf import text_format
    from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

    config = ModelServerConfig()
    for name, folder in folders.items():
        try:
            place = folder.resolve().relative_to(runs.resolve())
        except ValueError as error:
            raise UserError(
                f"{folder} lies outside {runs}, which the server sees as {MOUNTED} (--output-dir)."
            ) from error
        config.model_config_list.config.add(
            name=name, base_path=f"{MOUNTED}/{place.as_posix()}", model_platform="tensorflow"
        )
    head = f"# What is served: --model_config_file=THIS. {MOUNTED} is the folder of runs.\n"
    return head + text_format.MessageToString(config, as_utf8=True)


def _folders(args: argparse.Namespace) -> dict[str, Path]:
    """Returns the folders of the runs that are meant, by the name that clients use.

    Raises:
        UserError: If there is none, one holds no version, or two have one name.
    """
    from dtmt_tf.translator.places import MODEL, VERSION, latest_version

    if args.runs:
        common.refuse_beside(str(args.runs[0]), args)
    if args.models_config and not args.runs and args.name is args.task is args.model is None:
        versions = [each.parent for each in args.output_dir.glob(f"*/*/*/{MODEL}")]
        found = {each.parent for each in versions if VERSION.fullmatch(each.name)}
        if not found:
            raise UserError(f"{args.output_dir} holds no exported run. dtmt export makes one.")
        args.runs = sorted(map(str, found))
    named = [None if Path(run).is_dir() else NAMED.fullmatch(run) for run in args.runs]
    texts = [name[2] if name else run for run, name in zip(args.runs, named, strict=True)]
    places = [common.named_run(text, args) for text in texts]
    places = places or [common.run_folder(args)]
    names = [
        name[1] if name else default
        for name, default in zip(named or [None], served_names(places), strict=True)
    ]
    for place in places:
        latest_version(place)
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"Two models are called {twice[0]}. Name them: NAME=RUN NAME=RUN.")
    return dict(zip(names, places, strict=True))


def _told(models: Models, server: Server) -> str:
    """Returns what there is, where it is and how to ask it."""
    rows = [f"{model.name}: {model.folder}" for model in models]
    rest = f"http://127.0.0.1:{server.rest_port}"
    first = next(iter(models)).name
    return "\n".join(
        [
            *rows,
            f"REST: {rest}    gRPC: 127.0.0.1:{server.grpc_port}",
            "For development: it answers this machine alone. SERVING.md starts TensorFlow",
            "Serving itself, for all else. Ctrl-C ends this server. To ask it:",
            '  curl -d \'{"instances": ["A text."]}\' \\',
            f"      {rest}/v1/models/{first}:predict",
            as_called(f"  dtmt client --rest {rest} --model {first} \\"),
            "      in.txt -o out.txt",
        ]
    )


def _parser() -> argparse.ArgumentParser:
    parser = options.run_parser(
        "dtmt serve",
        "Serve exported models on this machine with the REST and gRPC protocols of TensorFlow "
        "Serving, for development: without Docker or a second program. In production use "
        "TensorFlow Serving itself, see SERVING.md: this server is Python, and slower under load.",
        "dtmt serve saved_models/multi30k_ende/dtmt_tied",
        "dtmt serve ende=runs/a deen=runs/b",
        "dtmt serve --models-config > models.config",
        model=options.OF_PRESET,
    )
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="[NAME=]RUN",
        help="a run's folder, or its name if only one task has it; NAME is for clients (default: "
        f"the run of --task and --name; NAME: {ALONE}, or TASK-NAME if there are several)",
    )
    parser.add_argument(
        "--models-config",
        action="store_true",
        help="print the list of these models, by default of all exported runs, for TensorFlow "
        "Serving's --model_config_file, and stop",
    )
    group = parser.add_argument_group("server")
    ports: Sequence[tuple[str, int, Any]] = (("rest", 8501, "REST"), ("grpc", 8500, "gRPC"))
    for name, port, protocol in ports:
        group.add_argument(
            f"--{name}-port",
            type=int,
            default=port,
            metavar="N",
            help=f"port of {protocol} on 127.0.0.1; 0 for a free one (default: %(default)s)",
        )
    group.add_argument(
        "--timeout",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="time for an answer over REST; gRPC has the client's deadline (default: %(default)g)",
    )
    group.add_argument(
        "--cors",
        action="store_true",
        help="let every web page that is open on this machine ask, as the translation page does, "
        "and by any name of the machine",
    )
    group.add_argument(
        "--batch-sizes",
        type=int,
        nargs="+",
        default=[],
        metavar="N",
        help="join requests into batches, padded to one of these numbers of lines\n"
        "(default: each alone)",
    )
    group.add_argument(
        "--batch-timeout-micros",
        type=int,
        metavar="N",
        help=f"how long a request waits for others to join it (default: {MICROS})",
    )
    return parser
