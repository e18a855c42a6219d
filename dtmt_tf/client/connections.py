"""Connections to a running TensorFlow Serving, over gRPC and REST: lines to translations."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from http.client import HTTPException, IncompleteRead, RemoteDisconnected
from typing import Any, Protocol
from urllib.parse import quote

from dtmt_tf.errors import DAMAGED, UserError
from dtmt_tf.quiet import quiet_stderr

# what a server's answer means; what is not here is a refusal
_MEANINGS = {
    "UNAVAILABLE": "cannot be reached or is busy (another address: --grpc, --rest)",
    "RESOURCE_EXHAUSTED": "is busy",
    "DEADLINE_EXCEEDED": "did not answer in time (--timeout, --batch-size)",
    "NOT_FOUND": "has no model of that name (--model)",
    "TOO_LARGE": "does not take so large a request (--batch-size)",
}
_TEMPORARY = {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}
_OF_THE_LINES = {"INVALID_ARGUMENT", "TOO_LARGE"}  # fewer of them may be taken
_HTTP_CODES = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    413: "TOO_LARGE",
    429: "RESOURCE_EXHAUSTED",
    499: "UNAVAILABLE",  # the model was let go meanwhile
    502: "UNAVAILABLE",  # of a proxy before the server
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_OF_LARGE_MESSAGES = "larger than max"  # gRPC's words, with a code that it shares with others
MOST_PORT = 65535
_URLS = ("http://", "https://")
_STATUS_SECONDS = 5.0  # for which an answer is awaited that none needs
_MOST_TEXT = 500  # characters of a server's own words


class TemporaryFailure(Exception):
    """A request that failed and may succeed when it is sent again."""


class LateAnswer(TemporaryFailure):
    """One whose answer did not come in time; that to fewer lines may."""


class Refusal(UserError):
    """A request that the server does not take; it may take parts of it."""


class Connection(Protocol):
    """What sends one request at a time to a server.

    Attributes:
        versions: Those that answered, as far as answers tell (over gRPC).
    """

    versions: set[int]

    def translate(self, lines: list[str]) -> list[str]:
        """Returns a translation for each of one line or more.

        Raises:
            TemporaryFailure: If another try may help.
            Refusal: If none will, but fewer lines may.
            UserError: If nothing will.
        """

    def version(self) -> str:
        """Returns the version that answers now; "" if the server does not tell.

        Raises:
            TemporaryFailure: If it is away, busy or late, or has loaded none yet.
            UserError: If it has no such model.
        """

    def close(self) -> None:
        """Ends the connection, and a request that is under way if that is possible."""


class GrpcConnection:
    """Sends requests over gRPC, with the server's own stubs.

    What gRPC's library would write to standard error by itself is silenced, unless the environment
    sets GRPC_VERBOSITY: a failed request is told of anyway.

    Args:
        address: Host and port, such as `"localhost:8500"`.
        model: Name under which the server has the model.
        signature: One that makes `translation` from `text`.
        timeout_seconds: How long a request may take.

    Raises:
        UserError: If the address is a URL or has no port, or the stubs are not installed.
    """

    def __init__(self, address: str, model: str, signature: str, timeout_seconds: float) -> None:
        if address.startswith(_URLS):
            raise UserError(f"--grpc takes host:port; a URL goes to --rest. Received: {address}.")
        port = address.rpartition(":")[2]
        is_port = port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= MOST_PORT
        if not (is_port or address.startswith("unix:")):
            raise UserError(
                f"--grpc takes host:port, such as localhost:8500, with a port from 1 to "
                f"{MOST_PORT}. Received: {address}."
            )
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # read when gRPC starts
        try:
            with quiet_stderr():  # the stubs import TensorFlow
                import grpc
                import tensorflow as tf
                from tensorflow_serving.apis import (
                    get_model_status_pb2,
                    model_service_pb2_grpc,
                    predict_pb2,
                    prediction_service_pb2_grpc,
                )
        except ModuleNotFoundError as error:
            raise UserError(
                "gRPC needs the server's stubs: pip install tensorflow-serving-api. "
                "Or name the server's other address, such as --rest http://localhost:8501."
            ) from error
        self._tf, self._error = tf, grpc.RpcError
        self._address, self._timeout = address, timeout_seconds
        self.versions: set[int] = set()
        self._request = predict_pb2.PredictRequest()
        self._request.model_spec.name = model
        self._request.model_spec.signature_name = signature
        self._channel = grpc.insecure_channel(
            address,
            [
                ("grpc.max_receive_message_length", -1),  # no limit
                ("grpc.max_reconnect_backoff_ms", 5000),  # else two minutes
            ],
        )
        stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._predict = stub.Predict
        self._status = model_service_pb2_grpc.ModelServiceStub(self._channel).GetModelStatus
        self._asked = get_model_status_pb2.GetModelStatusRequest()
        self._asked.model_spec.name = model

    def translate(self, lines: list[str]) -> list[str]:
        """Returns a translation for each line, see `Connection`."""
        import numpy as np

        # of a list TensorFlow would make an array first that gives each line the longest's room
        text = np.array([line.encode() for line in lines], object)
        self._request.inputs["text"].CopyFrom(self._tf.make_tensor_proto(text))
        try:
            response = self._predict(self._request, timeout=self._timeout)
        except self._error as error:
            raise _failure(self._address, error.code().name, error.details()) from error
        self.versions |= {response.model_spec.version.value} - {0}
        texts = [
            text.decode("utf-8", "replace") for text in response.outputs["translation"].string_val
        ]
        return _checked(texts, lines, self._address)

    def version(self) -> str:
        """Returns the version that answers now, see `Connection`."""
        try:
            states = self._status(self._asked, timeout=_STATUS_SECONDS).model_version_status
        except self._error as error:
            if (code := error.code().name) in (*_TEMPORARY, "NOT_FOUND"):
                raise _failure(self._address, code, error.details()) from error
            return ""
        there = [each.version for each in states if each.state == each.AVAILABLE]
        return _newest(there, self._address)

    def close(self) -> None:
        """Ends the connection; a request under way fails."""
        self._channel.close()


class RestConnection:
    """Sends requests over REST; TensorFlow is not imported.

    Args:
        address: Such as `"http://localhost:8501"`.
        model: Name under which the server has the model.
        signature: One that makes `translation` from `text`.
        timeout_seconds: How long a request may take.

    Raises:
        UserError: If the address is no URL, or names a model.
    """

    def __init__(self, address: str, model: str, signature: str, timeout_seconds: float) -> None:
        import requests

        if not address.startswith(_URLS):
            raise UserError(f"--rest takes a URL, http://host:port. Received: {address}.")
        if "/v1/models" in address:
            raise UserError(
                "--rest takes the server's address alone: --model names the model. Received: "
                f"{address}. Leave out what begins with /v1/models."
            )
        self._requests = requests
        # a connection that takes too long to begin is one of the first, and no late answer
        self._lost = (requests.ConnectionError, requests.exceptions.ChunkedEncodingError)
        self._address, self._timeout = address, timeout_seconds
        self.versions: set[int] = set()
        self._model = f"{address.rstrip('/')}/v1/models/{quote(model, safe='')}"
        self._signature = signature
        self._session = requests.Session()

    def translate(self, lines: list[str]) -> list[str]:
        """Returns a translation for each line, see `Connection`."""
        body: dict[str, Any] = {"signature_name": self._signature, "inputs": {"text": lines}}
        response = self._asked("POST", f"{self._model}:predict", self._timeout, json=body)
        if response.request.method != "POST":  # 301 and 302 lose the lines
            raise UserError(
                f"The server at {self._address} sends on to {response.url.partition('/v1/')[0]}. "
                "Name that address behind --rest."
            )
        text = response.content.decode("utf-8", "replace")
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
        if response.status_code != 200:
            code = _HTTP_CODES.get(response.status_code, f"HTTP {response.status_code}")
            told = answer.get("error", text) if isinstance(answer, dict) else text
            raise _failure(self._address, code, str(told))
        outputs = answer.get("outputs") if isinstance(answer, dict) else None
        # a server gives a signature's only output without its name
        texts = outputs.get("translation") if isinstance(outputs, dict) else outputs
        return _checked(texts, lines, self._address)

    def _asked(self, method: str, address: str, timeout: float, **options: Any) -> Any:
        """Returns what a server answers to a request, of whatever status."""
        try:
            return self._session.request(method, address, timeout=timeout, **options)
        except self._lost as error:
            if _is_no_http(error):
                raise UserError(
                    f"What answers at {self._address} speaks no HTTP. Is that the port of gRPC "
                    "(--grpc)? That of REST is 8501 unless the server was told otherwise."
                ) from error
            raise _failure(self._address, "UNAVAILABLE", str(_cause(error))) from error
        except self._requests.Timeout as error:
            raise _failure(self._address, "DEADLINE_EXCEEDED", str(_cause(error))) from error
        except (self._requests.RequestException, ValueError) as error:
            raise UserError(f"{self._address}: {error}") from error

    def version(self) -> str:
        """Returns the version that answers now, see `Connection`."""
        try:
            answer = self._asked("GET", self._model, _STATUS_SECONDS)
        except UserError:  # no HTTP, or an address that is none
            return ""
        if (code := _HTTP_CODES.get(answer.status_code)) in _TEMPORARY:
            raise _failure(self._address, code, answer.reason)
        try:
            told = json.loads(answer.content)
            if code == "NOT_FOUND" and "error" in told:  # else an address that nobody answers
                raise _failure(self._address, code, str(told["error"]))
            states = told["model_version_status"]
            there = [int(each["version"]) for each in states if each["state"] == "AVAILABLE"]
        except DAMAGED:
            return ""
        return _newest(there, self._address)

    def close(self) -> None:
        """Ends the connection; a request under way goes on."""
        self._session.close()


def _newest(versions: Sequence[int], address: str) -> str:
    """Returns the version that a server answers with.

    Raises:
        TemporaryFailure: If there is none.
    """
    if not versions:
        raise TemporaryFailure(f"The server at {address} has not loaded the model yet.")
    return str(max(versions))


def _failure(address: str, code: str, text: str | None) -> Exception:
    """Returns what to raise for a server's error, or for the lack of an answer."""
    if code == "CANCELLED":  # the model was let go meanwhile
        code = "UNAVAILABLE"
    if code == "RESOURCE_EXHAUSTED" and _OF_LARGE_MESSAGES in (text or ""):
        code = "TOO_LARGE"
    meaning = _MEANINGS.get(code, f"refuses the request ({code})")
    refused = Refusal if code in _OF_THE_LINES else UserError
    late = LateAnswer if code == "DEADLINE_EXCEEDED" else TemporaryFailure
    kind = late if code in _TEMPORARY else refused
    words = (text or code)[:_MOST_TEXT]
    told = "".join(c if c.isprintable() else " " for c in words).strip().rstrip(".")
    return kind(f"The server at {address} {meaning}: {told}.")


def _cause(error: BaseException) -> BaseException:
    """Returns the first error, of which others were made on the way up."""
    while error.__context__:
        error = error.__context__
    return error


def _is_no_http(error: BaseException) -> bool:
    """Whether an answer came that was not HTTP."""
    cause = _cause(error)
    cut_off = isinstance(cause, RemoteDisconnected | IncompleteRead)
    return isinstance(cause, HTTPException) and not cut_off


def _checked(texts: Any, lines: list[str], address: str) -> list[str]:
    """Returns texts if they are one for each line."""
    if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            raise UserError(f"The server at {address} gives text that is not Unicode.") from None
        if len(texts) == len(lines):
            return texts
    raise UserError(
        f"The server at {address} gives no `translation` for each line (--signature; is it "
        "TensorFlow Serving?)."
    )
