"""A stand-in for TensorFlow Serving in tests: its protocols over the C++ session, on loopback.

    python -m tests.serving.double --model NAME=FOLDER --rest-port 0 --grpc-port 0

serves the newest version in each folder, prints `{"rest_port": ..., "grpc_port": ...}` when ready
and runs until it is told to stop (SIGTERM, Ctrl-C). Port 0 means any free port.

Statuses, shapes of answers and batching follow the server; its scheduling, its limits and the
texts of its errors do not.
"""

import argparse
import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import ThreadingHTTPServer
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import grpc  # noqa: E402
from tensorflow_serving.apis import (  # noqa: E402
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from tests.serving.grpc_service import ModelService, PredictionService  # noqa: E402
from tests.serving.rest import RestHandler  # noqa: E402
from tests.serving.session_runner import Batching, Models  # noqa: E402

_THREADS = 64
_MAX_MESSAGE_BYTES = 2**31 - 1  # as the server


class _RestServer(ThreadingHTTPServer):
    """Many clients may connect at once, and none keeps the process from ending."""

    request_queue_size = 128
    daemon_threads = True


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--batch-sizes", metavar="1,4,16", help="allowed sizes; turns on batching")
    parser.add_argument("--batch-timeout-micros", type=int, default=0, metavar="N")
    parser.add_argument("--rest-timeout-ms", type=int, default=30000, metavar="N")
    parser.add_argument("--rest-port", type=int, default=0, metavar="N")
    parser.add_argument("--grpc-port", type=int, default=0, metavar="N")
    return parser.parse_args()


def main() -> None:
    """Serves until SIGTERM or Ctrl-C."""
    stops = {signal.SIGTERM, signal.SIGINT}
    # taken by sigwait alone: an event that handlers set would hang if both signals come at once
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    arguments = _parse()
    batching = None
    if arguments.batch_sizes:
        sizes = sorted(int(size) for size in arguments.batch_sizes.split(","))
        batching = Batching(sizes, arguments.batch_timeout_micros / 1e6)
    pairs = (pair.split("=", 1) for pair in arguments.model)
    models = Models({name: Path(folder) for name, folder in pairs}, batching)

    seconds = arguments.rest_timeout_ms / 1000
    handler = type("Handler", (RestHandler,), {"models": models, "timeout_seconds": seconds})
    rest = _RestServer(("127.0.0.1", arguments.rest_port), handler)
    threading.Thread(target=rest.serve_forever, daemon=True).start()
    server = grpc.server(
        ThreadPoolExecutor(_THREADS),
        options=[
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.so_reuseport", 0),  # a port that is taken is an error
        ],
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(models), server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(models), server)
    grpc_port = server.add_insecure_port(f"127.0.0.1:{arguments.grpc_port}")
    server.start()

    print(json.dumps({"rest_port": rest.server_port, "grpc_port": grpc_port}), flush=True)
    signal.sigwait(stops)
    server.stop(grace=1).wait()
    os._exit(0)  # whatever a request without a deadline still does


if __name__ == "__main__":
    main()
