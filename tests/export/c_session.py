"""Runs a SavedModel through TensorFlow's C API, the loader and session of a C++ server.

Loading a model in Python hides faults that a server meets: variables restored into the wrong
place, operations that need Python, functions that demand XLA. This runner needs neither a
compiler nor any package but the libraries inside the installed tensorflow and tensorflow_text,
neither of which it imports.

    python c_session.py MODEL_DIR --signature serving_default --input text --batch 8 < lines

writes one line of JSON per batch, `{"output name": [...]}`. Bytes that are not UTF-8 appear as
lone surrogates ("surrogateescape"), so nothing is lost either way.
"""

import argparse
import ctypes
import itertools
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping
from ctypes import c_char_p, c_int64, c_void_p
from typing import Any

from c_api import Buffer, CSessionError, Output, call, load_library

_Tensors = dict[str, tuple[str, int]]  # {input or output name: (tensor name, data type)}
# TensorFlow's numbers of the data types, from types.proto.
_STRING = 7
_NUMBERS: dict[int, Any] = {
    1: ctypes.c_float,
    2: ctypes.c_double,
    3: ctypes.c_int32,
    9: c_int64,
    10: ctypes.c_bool,
}
_TSTRING_BYTES = 24


class CSession:
    """A SavedModel loaded through the C API, as text in and Python lists out.

    Args:
        model_dir: Folder that holds `saved_model.pb`.

    Attributes:
        signatures: `{signature: ({input: (tensor, dtype)}, {output: (tensor, dtype)})}`, read
            from the model, where a tensor is named as in `"serving_default_text:0"`.

    Example:
    >>> with CSession("saved_models/demo/1") as session:
    ...     session.run("serving_default", {"text": ["A dog runs."]})
    {'translation': ['Ein Hund rennt.']}
    """

    def __init__(self, model_dir: str | os.PathLike[str]) -> None:
        self._lib = load_library()
        self._session = None
        self._graph = self._lib.TF_NewGraph()
        self._options = self._lib.TF_NewSessionOptions()
        meta_graph = self._lib.TF_NewBuffer()
        tags = (c_char_p * 1)(b"serve")
        try:
            self._session = call(
                self._lib, "TF_LoadSessionFromSavedModel", self._options, None,
                os.fsencode(model_dir), tags, 1, self._graph, meta_graph
            )  # fmt: skip
            buffer = Buffer.from_address(meta_graph)
            content = ctypes.string_at(buffer.data, buffer.length)
        except CSessionError:
            self.close()
            raise
        finally:
            self._lib.TF_DeleteBuffer(meta_graph)
        self.signatures = _read_signatures(content)

    def run(self, signature: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Runs one signature.

        Args:
            signature: Its name, such as `"serving_default"`.
            inputs: `{input name: nested list}`, of any rank. Text is `str` or `bytes`.

        Returns:
            `{output name: nested list}`, text as `str`.

        Raises:
            CSessionError: If a name is unknown or the model fails, with TensorFlow's message.
        """
        tensors = self.run_flat(signature, inputs).items()
        return {name: _nest(shape, flat) for name, (shape, flat) in tensors}

    def run_flat(
        self,
        signature: str,
        inputs: Mapping[str, Any],
        outputs: Iterable[str] = (),
        options: bytes = b"",
    ) -> dict[str, tuple[list[int], list[Any]]]:
        """Runs one signature; safe to call from several threads at once.

        Args:
            signature: Its name.
            inputs: As `run` takes them.
            outputs: Names of the wanted outputs; all if empty.
            options: A serialised `RunOptions` message, which can set a timeout.

        Returns:
            `{output name: (shape, elements in row-major order)}`.

        Raises:
            CSessionError: As `run` does; its `code` is DEADLINE_EXCEEDED after a timeout.
        """
        if signature not in self.signatures:
            raise CSessionError(
                f"Unknown signature '{signature}'. The model has: {_names(self.signatures)}."
            )
        input_infos, output_infos = self.signatures[signature]
        if set(inputs) != set(input_infos):
            raise CSessionError(
                f"Signature '{signature}' takes the inputs: {_names(input_infos)}. "
                f"Received: {_names(inputs)}."
            )
        if outputs:
            output_infos = {name: output_infos[name] for name in outputs}
        feeds = (Output * len(inputs))(*(self._find(input_infos[name][0]) for name in inputs))
        fetches = (Output * len(output_infos))(
            *(self._find(tensor) for tensor, _ in output_infos.values())
        )
        values = (c_void_p * len(inputs))()
        results = (c_void_p * len(output_infos))()
        run_options = self._lib.TF_NewBufferFromString(options, len(options))
        try:
            for i, (name, value) in enumerate(inputs.items()):
                values[i] = self._to_tensor(value, input_infos[name][1])
            call(
                self._lib, "TF_SessionRun", self._session, run_options, feeds, values, len(values),
                fetches, results, len(results), None, 0, None
            )  # fmt: skip
            tensors = [self._to_flat(result) for result in results if result]
            return dict(zip(output_infos, tensors, strict=True))
        finally:
            self._lib.TF_DeleteBuffer(run_options)
            # Outputs first: one may share its memory with an input.
            for tensor in filter(None, results):
                self._lib.TF_DeleteTensor(tensor)
            for tensor in filter(None, values):
                self._delete_input(tensor)

    def close(self) -> None:
        """Frees the session. Safe to call twice."""
        if self._session:
            call(self._lib, "TF_CloseSession", self._session)
            call(self._lib, "TF_DeleteSession", self._session)
            self._session = None
        if self._graph:
            self._lib.TF_DeleteSessionOptions(self._options)
            self._lib.TF_DeleteGraph(self._graph)
            self._options = self._graph = None

    def __enter__(self) -> "CSession":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def _find(self, tensor_name: str) -> Output:
        """Returns the graph's tensor of that name."""
        operation_name, _, index = tensor_name.partition(":")
        operation = self._lib.TF_GraphOperationByName(self._graph, operation_name.encode())
        if not operation:
            raise CSessionError(f"The graph has no operation named '{operation_name}'.")
        return Output(operation, int(index or 0))

    def _to_tensor(self, value: Any, dtype: int) -> int:
        """Returns a new tensor that holds a nested list."""
        if dtype != _STRING and dtype not in _NUMBERS:
            raise CSessionError(f"Inputs of data type number {dtype} cannot be made here.")
        shape: list[int] = []
        flat: list[Any] = [value]
        while flat and isinstance(flat[0], list):
            shape.append(len(flat[0]))
            flat = list(itertools.chain.from_iterable(flat))
        if len(flat) != math.prod(shape):
            raise CSessionError(f"The input is not rectangular: {value!r}")
        size = _TSTRING_BYTES if dtype == _STRING else ctypes.sizeof(_NUMBERS[dtype])
        dims = (c_int64 * len(shape))(*shape)
        tensor = self._lib.TF_AllocateTensor(dtype, dims, len(shape), size * len(flat))
        data = self._lib.TF_TensorData(tensor)
        if dtype == _STRING:
            for i, text in enumerate(flat):
                octets = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
                self._lib.TF_StringInit(data + _TSTRING_BYTES * i)
                self._lib.TF_StringCopy(data + _TSTRING_BYTES * i, octets, len(octets))
        elif flat:
            (_NUMBERS[dtype] * len(flat)).from_address(data)[:] = flat
        return tensor

    def _to_flat(self, tensor: int) -> tuple[list[int], list[Any]]:
        """Returns a tensor's shape and its elements."""
        dtype = self._lib.TF_TensorType(tensor)
        if dtype != _STRING and dtype not in _NUMBERS:
            raise CSessionError(f"Outputs of data type number {dtype} cannot be read here.")
        shape = self._shape(tensor)
        count = math.prod(shape)
        data = self._lib.TF_TensorData(tensor)
        if not count:
            flat: list[Any] = []
        elif dtype == _STRING:
            addresses = range(data, data + _TSTRING_BYTES * count, _TSTRING_BYTES)
            flat = [self._read_string(address) for address in addresses]
        else:
            flat = list((_NUMBERS[dtype] * count).from_address(data))
        return shape, flat

    def _read_string(self, address: int) -> str:
        size = self._lib.TF_StringGetSize(address)
        octets = ctypes.string_at(self._lib.TF_StringGetDataPointer(address), size)
        return octets.decode(errors="surrogateescape")

    def _shape(self, tensor: int) -> list[int]:
        return [self._lib.TF_Dim(tensor, i) for i in range(self._lib.TF_NumDims(tensor))]

    def _delete_input(self, tensor: int) -> None:
        if self._lib.TF_TensorType(tensor) == _STRING:
            data = self._lib.TF_TensorData(tensor)
            for i in range(math.prod(self._shape(tensor))):
                self._lib.TF_StringDealloc(data + _TSTRING_BYTES * i)
        self._lib.TF_DeleteTensor(tensor)


def _nest(shape: list[int], flat: list[Any]) -> Any:
    """Returns elements as a list nested to the rank of their shape."""
    for i in range(len(shape) - 1, 0, -1):
        rows, width = math.prod(shape[:i]), shape[i]
        flat = [flat[row * width : (row + 1) * width] for row in range(rows)]
    return flat if shape else flat[0]


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _fields(content: bytes, wanted: int) -> list[Any]:
    """Returns the values of one field number in a serialised protocol buffer message."""
    position = 0
    values: list[Any] = []

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = content[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(content):
        number, wire_type = divmod(varint(), 8)
        if wire_type == 0:
            value: Any = varint()
        else:
            size = {1: lambda: 8, 2: varint, 5: lambda: 4}[wire_type]()
            value = content[position : position + size]
            position += size
        if number == wanted:
            values.append(value)
    return values


def _map(content: bytes, number: int) -> dict[str, bytes]:
    """Returns a map field; each entry is a message with its key in field 1, value in field 2."""
    entries = _fields(content, number)
    return {_fields(entry, 1)[0].decode(): _fields(entry, 2)[0] for entry in entries}


def _read_signatures(meta_graph: bytes) -> dict[str, tuple[_Tensors, _Tensors]]:
    """Returns the tensors of each signature in a serialised MetaGraphDef.

    Field numbers: MetaGraphDef.signature_def 5; SignatureDef.inputs 1, .outputs 2;
    TensorInfo.name 1, .dtype 2. Others, such as the initialiser's signature, are left out.
    """

    def tensors(signature: bytes, number: int) -> _Tensors:
        infos = _map(signature, number).items()
        return {key: (_fields(i, 1)[0].decode(), _fields(i, 2)[0]) for key, i in infos}

    return {
        name: (tensors(signature, 1), tensors(signature, 2))
        for name, signature in _map(meta_graph, 5).items()
        if not name.startswith("__saved_model_")
    }


def main() -> int:
    """Reads lines, runs them in batches and writes JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model_dir", metavar="MODEL_DIR")
    parser.add_argument("--signature", default="serving_default")
    parser.add_argument("--input", default="text", help="name of the text input")
    parser.add_argument("--batch", type=int, default=1, help="lines per call")
    arguments = parser.parse_args()
    if arguments.batch < 1:
        parser.error(f"--batch should be positive. Received: {arguments.batch}")
    lines = (line.removesuffix(b"\n") for line in sys.stdin.buffer)
    try:
        with CSession(arguments.model_dir) as session:
            while batch := list(itertools.islice(lines, arguments.batch)):
                outputs = session.run(arguments.signature, {arguments.input: batch})
                print(json.dumps(outputs), flush=True)
    except CSessionError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
