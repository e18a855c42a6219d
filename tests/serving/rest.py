"""The server's REST interface: JSON to tensors and back, paths, status codes."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import tensorflow as tf
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from tests.serving.grpc_service import SignatureDefMap, default_signature, model_status
from tests.serving.session_runner import Models, ServedModel, ServingError, Tensors

HTTP_CODES = {
    "CANCELLED": 499,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "UNAUTHENTICATED": 401,
}  # any other is 500
_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_PREDICT = re.compile(_MODEL + ":predict", re.IGNORECASE)
_STATUS = re.compile(_MODEL + "(?P<metadata>/metadata)?", re.IGNORECASE)


class RestHandler(BaseHTTPRequestHandler):
    """Answers one connection; a subclass sets `models` and `timeout_seconds`."""

    models: Models
    timeout_seconds: float
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes

    def do_GET(self) -> None:
        """Status and metadata."""
        self._answer(_STATUS, self._describe)

    def do_POST(self) -> None:
        """Predictions."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(_PREDICT, lambda path: self._predict(path, body))

    def do_OPTIONS(self) -> None:
        """What a browser asks before it posts to another site."""
        self._send(200, b"")

    def log_message(self, *unused: Any) -> None:
        """Says nothing."""

    def _answer(self, pattern: re.Pattern[str], respond: Any) -> None:
        """Sends what `respond(match of the path)` gives, or its error."""
        path = urlsplit(self.path).path
        match = pattern.fullmatch(path)
        try:
            if match is None:
                known = path.lower().startswith("/v1/")
                raise ServingError("INVALID_ARGUMENT" if known else "NOT_FOUND", path)
            code, content = 200, respond(match)
        except ServingError as error:
            code, content = HTTP_CODES.get(error.code, 500), {"error": str(error)}
        text = json.dumps(content, ensure_ascii=False, indent=4)
        self._send(code, text.encode(errors="surrogateescape"))

    def _find(self, path: re.Match[str]) -> ServedModel:
        version = int(path["version"]) if path["version"] else None
        return self.models.find(unquote(path["name"]), version, path["label"] or "")

    def _describe(self, path: re.Match[str]) -> Any:
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
        signature = default_signature(request.get("signature_name", ""))
        if signature not in model.signatures:
            raise ServingError("INVALID_ARGUMENT", f"no signature {signature}")
        if ("instances" in request) == ("inputs" in request):
            raise ServingError("INVALID_ARGUMENT", "expecting either 'inputs' or 'instances'")
        infos = model.signatures[signature].inputs
        by_row = "instances" in request
        columns = _rows_to_columns(request["instances"], infos) if by_row else request["inputs"]
        if not isinstance(columns, dict) or _is_base64(columns):
            if len(infos) > 1:
                raise ServingError("INVALID_ARGUMENT", "several inputs need an object")
            columns = dict.fromkeys(infos, columns)
        inputs = {name: _to_array(columns[name], infos[name]) for name in infos if name in columns}
        outputs = model.predict(signature, inputs, (), self.timeout_seconds)
        if by_row:
            return {"predictions": _columns_to_rows(outputs)}
        values = {name: _to_json(name, array) for name, array in outputs.items()}
        return {"outputs": values if len(values) > 1 else next(iter(values.values()))}

    def _send(self, code: int, content: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Access-Control-Allow-Methods", "POST, GET")
        self.send_header("Access-Control-Allow-Headers", "Content-Type")
        self.end_headers()
        self.wfile.write(content)


def _to_dict(message: Message) -> Any:
    return MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _parse(body: bytes) -> dict[str, Any]:
    """Returns a request: an object, in which the signature's name is text."""
    try:
        request = json.loads(body.decode(errors="surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise ServingError("INVALID_ARGUMENT", f"not JSON: {error}") from error
    if not isinstance(request, dict):
        raise ServingError("INVALID_ARGUMENT", "the request is not an object")
    if not isinstance(request.get("signature_name", ""), str):
        raise ServingError("INVALID_ARGUMENT", "signature_name is not a string")
    return request


def _rows_to_columns(rows: Any, infos: Mapping[str, Any]) -> Any:
    """Returns lists by input for rows of objects, and plain rows as they are."""
    if not isinstance(rows, list) or not rows:
        raise ServingError("INVALID_ARGUMENT", "'instances' is not a list of something")
    named = {isinstance(row, dict) and not _is_base64(row) for row in rows}
    if named == {False}:
        return rows
    if named != {True} or any(set(row) != set(infos) for row in rows):
        raise ServingError("INVALID_ARGUMENT", f"every row should name: {sorted(infos)}")
    return {name: [row[name] for row in rows] for name in infos}


def _columns_to_rows(outputs: Tensors) -> list[Any]:
    """Returns one value, or one object of several values, for each row."""
    rows = {array.shape[:1] for array in outputs.values()}
    if len(rows) != 1 or rows == {()}:
        raise ServingError("INVALID_ARGUMENT", "outputs do not share dimension 0")
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
    dtype = tf.as_dtype(info.dtype)
    try:
        flat = [_element(leaf, dtype) for leaf in _leaves(value, shape)]
        return np.array(flat, dtype.as_numpy_dtype).reshape(shape)
    except (ValueError, OverflowError) as error:
        raise ServingError("INVALID_ARGUMENT", str(error)) from error


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
        raise ServingError("UNIMPLEMENTED", f"{dtype.name} does not travel as JSON")
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

    return convert(array.tolist())
