"""Translates standard input, or a file, line by line with a running TensorFlow Serving."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from dtmt_tf.client.connections import GrpcConnection, RestConnection
from dtmt_tf.client.sending import Sending
from dtmt_tf.commands import common, lines
from dtmt_tf.commands.parser import Parser
from dtmt_tf.files import is_special
from dtmt_tf.refusals import Refusals
from dtmt_tf.resumable_lines import ResumableLines

logger = logging.getLogger(__name__)

RANGES = (  # least and most that options may say
    *(("concurrency", 1, 1000), ("batch_size", 1, 100_000), ("retries", 0, 1000)),
    ("timeout", 0.001, 1e6),
)


def command(arguments: Sequence[str] | None = None) -> int:
    """Reads lines, has them translated, writes as many lines."""
    args = _parser().parse_args(arguments)
    for name, least, most in RANGES:
        common.check_range(args, name, least, most)
    lines.check_files(args)
    texts = lines.Lines(args.input, args.replace_invalid)
    total = lines.count(args.input) if args.input else None
    kind, address = (RestConnection, args.rest) if args.rest else (GrpcConnection, args.grpc)
    connections = [
        kind(address, args.model, args.signature, args.timeout) for _ in range(args.concurrency)
    ]
    settings = {"server": address, "model": args.model, "signature": args.signature}
    refusals = Refusals(args.skip_refused)
    sending = Sending(args.batch_size, args.retries, refusals)
    if args.output and not is_special(args.output):  # which another version should not go on with
        settings["version"] = sending.version(connections[0])
    output = ResumableLines(args.output, settings)
    try:
        with refusals, output:
            title = lines.bar_title(args, total)
            sending.run(texts, connections, output, texts.ready, total, title)
    except KeyboardInterrupt:
        of = "" if total is None else f" of {total:,}"
        print(f"Stopped: {output.done:,}{of} lines are written.", file=sys.stderr)
        return 130
    finally:
        began = {int(settings["version"])} if settings.get("version") else set()
        if len(versions := began.union(*(each.versions for each in connections))) > 1:
            there = ", ".join(map(str, sorted(versions)))
            logger.warning(
                "Versions %s answered one after the other: the output has lines of each.", there
            )
    print(sending.summary(), file=sys.stderr)
    return 0


def _parser() -> Parser:
    parser = Parser(
        "dtmt client",
        "Translate text line by line with a model that TensorFlow Serving serves: as many lines "
        "out as in, in their order. SERVING.md says how to start the server.",
        "dtmt client in.en -o out.de",
        "dtmt client --rest http://localhost:8501 < in.en > out.de",
    )
    lines.add_files(parser)
    server = parser.add_argument_group("which server")
    address = server.add_mutually_exclusive_group()
    address.add_argument(
        "--grpc",
        default="localhost:8500",
        metavar="HOST:PORT",
        help="needs tensorflow-serving-api (default: %(default)s)",
    )
    address.add_argument(
        "--rest",
        metavar="URL",
        help="such as http://host:8501; works without TensorFlow",
    )
    server.add_argument(
        "--model", default="dtmt", metavar="NAME", help="its name there (default: %(default)s)"
    )
    server.add_argument(
        "--signature",
        default="serving_default",
        metavar="NAME",
        help="a signature from `text` to `translation` (default: %(default)s)",
    )
    requests = parser.add_argument_group("requests")
    requests.add_argument(
        "--batch-size",
        type=int,
        default=8,
        metavar="N",
        help="lines of a request (default: %(default)s)",
    )
    requests.add_argument(
        "--concurrency",
        type=int,
        default=4,
        metavar="N",
        help="requests at once (default: %(default)s)",
    )
    requests.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="time for an answer (default: %(default)g)",
    )
    requests.add_argument(
        "--retries",
        type=int,
        default=5,
        metavar="N",
        help="tries again if the server is busy, late or away (default: %(default)s)",
    )
    return parser
