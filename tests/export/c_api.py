"""TensorFlow's C API by ctypes, found in the installed package without importing it."""

import ctypes
import importlib.util
import os
import sys
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any

_CODES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS "
    "PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE "
    "UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED"
).split()
_DISABLE_XLA = "_ZN10tensorflow21DisableXlaCompilationEv"  # tensorflow::DisableXlaCompilation()
# One letter for the result, then one for each argument: p pointer, s text, i int, q int64_t,
# z size_t, - nothing.
_LETTERS: dict[str, Any] = {
    "p": c_void_p,
    "s": c_char_p,
    "i": c_int,
    "q": c_int64,
    "z": c_size_t,
    "-": None,
}
_PROTOTYPES = {
    "TF_NewStatus": "p",
    "TF_GetCode": "ip",
    "TF_Message": "sp",
    "TF_DeleteStatus": "-p",
    "TF_LoadLibrary": "psp",
    "TF_DeleteLibraryHandle": "-p",
    "TF_NewBuffer": "p",
    "TF_NewBufferFromString": "psz",
    "TF_DeleteBuffer": "-p",
    "TF_NewGraph": "p",
    "TF_DeleteGraph": "-p",
    "TF_GraphOperationByName": "pps",
    "TF_NewSessionOptions": "p",
    "TF_DeleteSessionOptions": "-p",
    "TF_LoadSessionFromSavedModel": "pppspippp",
    "TF_SessionRun": "-ppppippipipp",
    "TF_CloseSession": "-pp",
    "TF_DeleteSession": "-pp",
    "TF_AllocateTensor": "pipiz",
    "TF_DeleteTensor": "-p",
    "TF_TensorType": "ip",
    "TF_NumDims": "ip",
    "TF_Dim": "qpi",
    "TF_TensorData": "pp",
    "TF_StringInit": "-p",
    "TF_StringCopy": "-psz",
    "TF_StringDealloc": "-p",
    "TF_StringGetDataPointer": "pp",
    "TF_StringGetSize": "zp",
}


class CSessionError(RuntimeError):
    """A call of the C API failed, or the model has no such signature, input or output.

    Attributes:
        code: TensorFlow's name of the error, such as `"NOT_FOUND"`.
    """

    def __init__(self, message: str, code: str = "INVALID_ARGUMENT") -> None:
        super().__init__(message)
        self.code = code


class Buffer(ctypes.Structure):
    """TF_Buffer: bytes owned by TensorFlow."""

    _fields_ = [("data", c_void_p), ("length", c_size_t), ("deallocator", c_void_p)]


class Output(ctypes.Structure):
    """TF_Output: one output of one operation, which is to say a tensor of the graph."""

    _fields_ = [("operation", c_void_p), ("index", c_int)]


def load_library() -> ctypes.CDLL:
    """Returns TensorFlow's C API with the operations of an export known and XLA off."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    folder = _package_folder("tensorflow")
    for name in ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2"):
        lib = ctypes.CDLL(os.path.join(folder, name), mode=ctypes.RTLD_GLOBAL)
    for name, letters in _PROTOTYPES.items():
        function = getattr(lib, name)
        function.restype, *function.argtypes = [_LETTERS[letter] for letter in letters]
    try:
        disable_xla = getattr(lib, _DISABLE_XLA)
    except AttributeError:
        print("This TensorFlow has no DisableXlaCompilation: XLA stays on.", file=sys.stderr)
    else:
        disable_xla.restype, disable_xla.argtypes = None, []
        disable_xla()
    folder = _package_folder("tensorflow_text")
    for name in ("_sentencepiece_tokenizer.so", "_normalize_ops.so"):
        library = os.path.join(folder, "python", "ops", name)
        lib.TF_DeleteLibraryHandle(call(lib, "TF_LoadLibrary", os.fsencode(library)))
    return lib


def call(lib: ctypes.CDLL, name: str, *arguments: Any) -> Any:
    """Calls a function whose last argument is a status; raises `CSessionError` if it is not OK."""
    status = lib.TF_NewStatus()
    try:
        result = getattr(lib, name)(*arguments, status)
        code = lib.TF_GetCode(status)
        if code:
            message = lib.TF_Message(status).decode(errors="replace")
            label = _CODES[code] if code < len(_CODES) else f"code {code}"
            raise CSessionError(f"{name} failed, {label}: {message}", label)
        return result
    finally:
        lib.TF_DeleteStatus(status)


def _package_folder(name: str) -> str:
    """Returns the folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise CSessionError(f"The package {name} is not installed.")
    return spec.submodule_search_locations[0]
