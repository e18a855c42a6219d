"""Many clients at once at a model that `dtmt serve` serves; every answer checked.

    python -m tests.serving.load --model-dir saved_models/TASK/NAME --lines FILE

starts `dtmt serve` with the batching that `pipelines/serving/` recommends, has each
line translated alone, then lets clients ask for one to four of them at a time, half of the clients
over gRPC, half over REST. Fails (exit code 1) if a request fails, if a translation is not the
line's own, or if the server's memory grows.
"""

import argparse
import json
import math
import queue
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import psutil
import requests
from tensorflow_serving.apis import prediction_service_pb2_grpc
from tqdm import tqdm

from dtmt_tf.data.lines import byte_lines
from dtmt_tf.errors import UserError
from tests.serving.calls import arrays, predict_request
from tests.serving.load_report import Report, Row
from tests.serving.running import ROOT, Running, running_server

_PARAMETERS = ROOT / "pipelines" / "serving" / "batching_parameters.txt"
_MOST_LINES = 4  # in a request
_TIMEOUT_SECONDS = 30  # the server's own limit for REST
_SAMPLE_SECONDS = 1.0
_LONGEST_WORDS = 200  # of an error; those with equal words are counted together
_MODEL, _REFERENCE = "model", "reference"  # names in the server

Ask = Callable[[Sequence[str]], list[Row]]


def references(running: Running, model: str, lines: Sequence[str]) -> dict[str, Row]:
    """Has each line translated with no other one beside it."""
    with _over_grpc(running, model) as ask:
        return {line: ask([line])[0] for line in _bar(lines, "alone", "line")}


def load(
    running: Running,
    model: str,
    right: Mapping[str, Row],
    clients: int,
    count: int,
    minutes: float,
    seed: int,
    report: Report,
) -> None:
    """Sends requests of many clients, and checks the answers.

    Args:
        running: The server.
        model: The model's name.
        right: What each line's answer should be.
        clients: How many ask at once.
        count: How many requests they send in all.
        minutes: When to end in any case.
        seed: Decides which lines are asked for; the k-th client's are always the same.
        report: Is filled in, also when the load is interrupted.
    """
    texts = list(right)
    answers: queue.Queue[Any] = queue.Queue()
    stopped = threading.Event()

    def work(client: int) -> None:
        """Is one client: sends its share of the requests one after the other."""
        generator = random.Random(f"{seed} {client}")
        protocol, connect = (("gRPC", _over_grpc), ("REST", _over_rest))[client % 2]
        with connect(running, model) as ask:
            for _ in range(client, count, clients):
                if stopped.is_set():
                    break
                lines = generator.choices(texts, k=generator.randint(1, _MOST_LINES))
                begin = time.monotonic()
                try:
                    rows: list[Row] | str = ask(lines)
                except Exception as error:  # whatever it is, it is counted
                    rows = _words(error)
                answers.put((protocol, lines, rows, time.monotonic() - begin))
        answers.put(None)

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(clients)]
    server = psutil.Process(running.process.pid)
    start = sampled = time.monotonic()
    for thread in threads:
        thread.start()
    try:
        with _bar(range(count), "load", "request") as bar:
            working = clients
            while working:
                answer = answers.get()
                if answer is None:
                    working -= 1
                    continue
                report.add(right, *answer)
                bar.update()
                report.seconds = time.monotonic() - start
                if running.process.poll() is not None:
                    report.errors["the server has ended"] += 1
                    return
                if time.monotonic() - sampled > _SAMPLE_SECONDS or report.requests == count:
                    sampled = time.monotonic()
                    megabytes = server.memory_info().rss / 2**20
                    report.memory.append((report.seconds, report.requests, megabytes))
                if report.seconds > 60 * minutes:
                    stopped.set()
    finally:
        stopped.set()


@contextmanager
def _over_grpc(running: Running, model: str) -> Iterator[Ask]:
    with grpc.insecure_channel(running.grpc) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

        def ask(lines: Sequence[str]) -> list[Row]:
            request = predict_request(model, text=lines)
            outputs = arrays(stub.Predict(request, timeout=_TIMEOUT_SECONDS))
            texts = [text.decode() for text in outputs["translation"]]
            return list(zip(texts, outputs["score"].tolist(), strict=True))

        yield ask


@contextmanager
def _over_rest(running: Running, model: str) -> Iterator[Ask]:
    with requests.Session() as session:
        session.trust_env = False  # no proxy stands between us and loopback

        def ask(lines: Sequence[str]) -> list[Row]:
            url = f"{running.rest}/v1/models/{model}:predict"
            body: dict[str, Any] = {"instances": lines}
            response = session.post(url, json=body, timeout=_TIMEOUT_SECONDS)
            if response.status_code != 200:
                raise RuntimeError(f"{response.status_code}: {response.text}")
            return [(row["translation"], row["score"]) for row in response.json()["predictions"]]

        yield ask


def _words(error: Exception) -> str:
    if isinstance(error, grpc.RpcError):
        return f"{error.code().name}: {error.details()}"[:_LONGEST_WORDS]
    return f"{type(error).__name__}: {error}"[:_LONGEST_WORDS]


def _bar(items: Sequence[Any], text: str, unit: str) -> Any:
    terminal = sys.stderr.isatty()
    return tqdm(
        items,
        text,
        unit=unit,
        leave=False,
        ncols=79,
        delay=0 if terminal else 20,  # seconds; a log wants few lines
        mininterval=0.2 if terminal else 20,
    )


def _batching() -> list[str]:
    """Returns the server's options for the batching that the ready file describes."""
    text = _PARAMETERS.read_text(encoding="utf-8")
    sizes = re.findall(r"^allowed_batch_sizes: (\d+)$", text, re.MULTILINE)
    (wait,) = re.findall(r"^batch_timeout_micros { value: (\d+) }$", text, re.MULTILINE)
    return ["--batch-sizes", *sizes, f"--batch-timeout-micros={wait}"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model-dir", type=Path, required=True, help="holds numbered versions")
    parser.add_argument("--lines", type=Path, required=True, help="a text file to draw from")
    parser.add_argument("--clients", type=int, default=16, help="default: %(default)s")
    parser.add_argument("--requests", type=int, default=20000, help="default: %(default)s")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="end then at the latest (default: never)"
    )
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="write the numbers there, too")
    parser.add_argument(
        "--reference-dir",
        type=Path,
        help="a model that gives the right answers (default: the same, a line at a time)",
    )
    return parser


def main() -> int:
    """Serves, asks, reports; returns 1 if something was wrong."""
    parser = _parser()
    args = parser.parse_args()
    models = {_MODEL: args.model_dir}
    if args.reference_dir:
        models[_REFERENCE] = args.reference_dir
    for folder in models.values():
        if not any(path.name.isdigit() for path in folder.glob("*")):
            parser.error(f"{folder} holds no exported version")
    try:
        lines = list(dict.fromkeys(line.decode() for line in byte_lines(args.lines)))
    except UserError as error:
        parser.error(str(error))
    if not lines or args.clients < 1 or args.requests < 1:
        parser.error("there should be at least one line, one client and one request")

    report, stopped = Report(), False
    try:
        with running_server(models, *_batching()) as running:
            right = references(running, list(models)[-1], lines)
            load(
                *(running, _MODEL, right, args.clients, args.requests, args.minutes),
                *(args.seed, report),
            )
    except KeyboardInterrupt:
        stopped = True
    print(report.text())
    if args.json:
        args.json.write_text(json.dumps(report.numbers(), indent=2, ensure_ascii=False) + "\n")
    if stopped:
        print("Stopped.", file=sys.stderr)
        return 130
    return 0 if report.passed() else 1


if __name__ == "__main__":
    sys.exit(main())
