"""TensorFlow Serving's REST interface: JSON to tensors and back, paths, status codes.

It stands on `http.server` of the standard library: it answers this machine alone, for development,
and needs no framework's routes, middleware or workers.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import tensorflow as tf
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from grpc import StatusCode

from dtmt_tf.server.batching import Tensors
from dtmt_tf.server.errors import ServingError, internal, invalid
from dtmt_tf.server.grpc_service import (
    MAX_BYTES,
    SignatureDefMap,
    check_dimensions,
    find_signature,
    model_status,
)
from dtmt_tf.server.models import Models, ServedModel

HTTP_CODES = {
    StatusCode.CANCELLED: 499,
    StatusCode.INVALID_ARGUMENT: 400,
    StatusCode.DEADLINE_EXCEEDED: 504,
    StatusCode.NOT_FOUND: 404,
    StatusCode.ALREADY_EXISTS: 409,
    StatusCode.PERMISSION_DENIED: 403,
    StatusCode.RESOURCE_EXHAUSTED: 429,
    StatusCode.FAILED_PRECONDITION: 400,
    StatusCode.ABORTED: 409,
    StatusCode.OUT_OF_RANGE: 400,
    StatusCode.UNIMPLEMENTED: 501,
    StatusCode.UNAVAILABLE: 503,
    StatusCode.UNAUTHENTICATED: 401,
}  # any other is 500
_MODEL = (
    r"/v1/models/(?P<name>[^/:]+)"
    r"(?:/versions/(?P<version>\d{1,19})|/labels/(?P<label>[^/:]+))?"
)
_PREDICT = re.compile(_MODEL + ":predict", re.IGNORECASE)
_STATUS = re.compile(_MODEL + "(?P<metadata>/metadata)?", re.IGNORECASE)
_ANY = re.compile(".*")
_HERE = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?", re.IGNORECASE)
_IDLE_SECONDS = 300  # then a connection is closed on which nothing comes
Respond = Callable[[re.Match[str], bytes], Any]  # an answer to a path and a body


class RestServer(ThreadingHTTPServer):
    """Answers many clients at once, on loopback.

    Args:
        models: What is served.
        port: 0 for any free one.
        timeout_seconds: How long a prediction may take.
        cors: Whether pages of any other site may ask.

    Raises:
        OSError: If the port is taken.
    """

    request_queue_size = 128
    daemon_threads = True  # a connection that stays open does not keep the process from ending

    def __init__(self, models: Models, port: int, timeout_seconds: float, cors: bool) -> None:
        super().__init__(("127.0.0.1", port), RestHandler)
        self.models, self.timeout_seconds, self.cors = models, timeout_seconds, cors
        self.changed = threading.Condition()
        self.in_flight = 0
        self.stopping = False

    def stop(self, seconds: float) -> None:
        """Takes no more requests, and waits so long for the answers to those that are there."""
        self.shutdown()
        with self.changed:
            self.stopping = True
            self.changed.wait_for(lambda: not self.in_flight, seconds)
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a client that has left."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class RestHandler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: RestServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes
    timeout = _IDLE_SECONDS

    def do_GET(self) -> None:
        """Status and metadata."""
        self._answer(_STATUS, self._describe)

    def do_POST(self) -> None:
        """Predictions."""
        self._answer(_PREDICT, self._predict)

    def do_OPTIONS(self) -> None:
        """What a browser asks before it posts to another site."""
        self._answer(_ANY, lambda path, body: None)

    def log_message(self, *unused: Any) -> None:
        """Says nothing."""

    def _answer(self, pattern: re.Pattern[str], respond: Respond) -> None:
        """Reads the body; sends what `respond(match of the path, body)` gives, or its error."""
        if not self.server.cors and self._is_of_a_page_elsewhere():
            self.close_connection = True
            self._send(403, _error("ask localhost or 127.0.0.1; pages of others need --cors"))
            return
        length = self.headers.get("Content-Length", "" if self.command == "POST" else "0")
        known = length.isascii() and length.isdigit() and "Transfer-Encoding" not in self.headers
        if not known or len(length) > 18 or int(length) > MAX_BYTES:
            self.close_connection = True  # what comes next is no request
            message = f"a body needs a Content-Length of at most {MAX_BYTES}"
            self._send(413 if known else 411, _error(message))
            return
        body = self.rfile.read(int(length))
        if self.headers.get("Content-Encoding", "").lower() == "gzip":
            body = _unpacked(body)
            if len(body) > MAX_BYTES:
                self._send(413, _error(f"a body has at most {MAX_BYTES} bytes when unpacked"))
                return
        with self.server.changed:
            stopping = self.server.stopping
            self.server.in_flight += not stopping
        if stopping:
            self.close_connection = True
            self._send(503, _error("the server is stopping"))
            return
        try:
            self._send(*self._outcome(pattern, respond, body))
        finally:
            with self.server.changed:
                self.server.in_flight -= 1
                self.server.changed.notify_all()

    def _is_of_a_page_elsewhere(self) -> bool:
        """Whether a page asks by a name of its own that leads here, or is of another site.

        Browsers tell the site; what they send without asking first (`no-cors`) has work done.
        """
        site = self.headers.get("Sec-Fetch-Site", "none")
        named = _HERE.fullmatch(self.headers.get("Host", "localhost"))
        return not named or site in ("cross-site", "same-site")

    def _outcome(
        self, pattern: re.Pattern[str], respond: Respond, body: bytes
    ) -> tuple[int, bytes]:
        try:
            return 200, _to_bytes(respond(self._match(pattern), body))
        except ServingError as error:
            failure = error
        except Exception as error:  # of ours; the connection and the others live on
            failure = internal(error)
        return HTTP_CODES.get(failure.code, 500), _error(str(failure))

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Returns the request's path as it has the parts of a pattern."""
        try:
            path = urlsplit(self.path).path
        except ValueError as error:
            raise invalid(f"{self.path} is no address: {error}") from error
        match = pattern.fullmatch(path)
        if match is None:
            known = path.lower().startswith("/v1/")
            code = StatusCode.INVALID_ARGUMENT if known else StatusCode.NOT_FOUND
            raise ServingError(code, f"{self.command} does not know {path}")
        return match

    def _find(self, path: re.Match[str]) -> ServedModel:
        version = int(path["version"]) if path["version"] else None
        return self.server.models.find(unquote(path["name"]), version, path["label"] or "")

    def _describe(self, path: re.Match[str], body: bytes) -> Any:
        """Returns a model's status, or the signatures if the path ends in `/metadata`."""
        model = self._find(path)
        if not path["metadata"]:
            return _to_dict(model_status(model))
        signatures = _to_dict(SignatureDefMap(signature_def=model.signatures))
        spec = {"name": model.name, "signature_name": "", "version": str(model.version)}
        return {"model_spec": spec, "metadata": {"signature_def": signatures}}

    def _predict(self, path: re.Match[str], body: bytes) -> Any:
        """Returns the answer to `:predict`, in the form of the request."""
        request = _parse(body)
        model = self._find(path)
        name = request.get("signature_name", "")
        signature = find_signature(model, name, StatusCode.INVALID_ARGUMENT)
        if ("instances" in request) == ("inputs" in request):
            raise invalid("a request has either 'instances', a row each, or 'inputs', by column")
        infos = model.signatures[signature].inputs
        by_row = "instances" in request
        columns = _rows_to_columns(request["instances"], infos) if by_row else request["inputs"]
        if not isinstance(columns, dict) or _is_base64(columns):
            if len(infos) > 1:
                raise invalid(f"several inputs need an object with {', '.join(sorted(infos))}")
            columns = dict.fromkeys(infos, columns)
        inputs = {name: _to_array(columns[name], infos[name]) for name in infos if name in columns}
        outputs = model.predict(signature, inputs, (), self.server.timeout_seconds)
        if by_row:
            return {"predictions": _columns_to_rows(outputs)}
        values = {name: _to_json(name, array) for name, array in outputs.items()}
        return {"outputs": values if len(values) > 1 else next(iter(values.values()))}

    def _send(self, code: int, body: bytes) -> None:
        """Sends JSON, or nothing."""
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        if self.server.cors:
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Access-Control-Allow-Methods", "POST, GET")
            self.send_header("Access-Control-Allow-Headers", "Content-Type")
        self.end_headers()
        self.wfile.write(body)


def _to_dict(message: Message) -> Any:
    return MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _to_bytes(content: Any) -> bytes:
    """Returns JSON; nothing for `None`."""
    text = "" if content is None else json.dumps(content, ensure_ascii=False, indent=4)
    return text.encode(errors="surrogateescape")


def _error(message: str) -> bytes:
    """Returns the JSON of an error, whatever it repeats of the request."""
    return _to_bytes({"error": message.encode(errors="backslashreplace").decode()})


def _unpacked(body: bytes) -> bytes:
    """Returns the beginning of what gzip packed, or the body as it is, which is no JSON then."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        found = unpacker.decompress(body, MAX_BYTES + 1)
    except zlib.error:
        return body
    return found if unpacker.eof or len(found) > MAX_BYTES else body


def _parse(body: bytes) -> dict[str, Any]:
    """Returns a request: an object, in which the signature's name is text."""
    try:
        request = json.loads(body.decode(errors="surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise invalid(f"not JSON: {error}") from error
    if not isinstance(request, dict):
        raise invalid("the request is not an object")
    if not isinstance(request.get("signature_name", ""), str):
        raise invalid("signature_name is not a string")
    return request


def _rows_to_columns(rows: Any, infos: Mapping[str, Any]) -> Any:
    """Returns lists by input for rows of objects, and plain rows as they are."""
    if not isinstance(rows, list) or not rows:
        raise invalid("'instances' is not a list of something")
    named = {isinstance(row, dict) and not _is_base64(row) for row in rows}
    if named == {False}:
        return rows
    if named != {True} or any(set(row) != set(infos) for row in rows):
        raise invalid(f"every row should name: {sorted(infos)}")
    return {name: [row[name] for row in rows] for name in infos}


def _columns_to_rows(outputs: Tensors) -> list[Any]:
    """Returns one value, or one object of several values, for each row."""
    rows = {array.shape[:1] for array in outputs.values()}
    if len(rows) != 1 or rows == {()}:
        raise invalid("outputs do not share dimension 0")
    columns = {name: _to_json(name, array) for name, array in outputs.items()}
    if len(columns) == 1:
        return next(iter(columns.values()))
    values = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"b64"} and isinstance(value["b64"], str)


def _to_array(value: Any, info: Any) -> np.ndarray:
    """Returns nested lists as an array of an input's type."""
    shape: list[int] = []
    first = value
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    check_dimensions(len(shape))
    dtype = tf.as_dtype(info.dtype)
    try:
        flat = [_element(leaf, dtype) for leaf in _leaves(value, shape)]
        return np.array(flat, dtype.as_numpy_dtype).reshape(shape)
    except (ValueError, OverflowError, RecursionError) as error:
        raise invalid(str(error)) from error


def _leaves(value: Any, shape: list[int]) -> Iterator[Any]:
    """Yields the elements of nested lists that should have this shape."""
    if isinstance(value, list) != bool(shape) or (shape and len(value) != shape[0]):
        raise ValueError("the lists are not rectangular")
    if not shape:
        yield value
        return
    for item in value:
        yield from _leaves(item, shape[1:])


def _element(leaf: Any, dtype: Any) -> Any:
    """Returns a JSON value as an element of a tensor."""
    if dtype == tf.string:
        if _is_base64(leaf):
            return base64.b64decode(leaf["b64"], validate=True)
        kinds: Any = str
    elif dtype in (tf.float32, tf.float64):
        kinds = (int, float)
    elif dtype.is_integer or dtype.is_bool:
        kinds = bool if dtype.is_bool else int
    else:
        raise ServingError(StatusCode.UNIMPLEMENTED, f"{dtype.name} does not travel as JSON")
    if not isinstance(leaf, kinds) or isinstance(leaf, bool) != dtype.is_bool:
        raise ValueError(f"{leaf!r} is not of type {dtype.name}")
    return leaf.encode(errors="surrogateescape") if dtype == tf.string else leaf


def _to_json(name: str, array: np.ndarray) -> Any:
    """Returns an output as nested lists, bytes as text, or in base64 if its name says so."""

    def convert(value: Any) -> Any:
        if isinstance(value, list):
            return [convert(item) for item in value]
        if not isinstance(value, bytes):
            return value
        if name.endswith("_bytes"):
            return {"b64": base64.b64encode(value).decode()}
        return value.decode(errors="surrogateescape")

    if array.dtype == np.float32:  # with as many digits as it has
        array = array.astype(str).astype(np.float64)
    return convert(array.tolist())
