"""TensorFlow Serving's gRPC interface: PredictionService and ModelService of its own stubs."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from dtmt_tf.server.errors import ServingError, internal, invalid
from dtmt_tf.server.models import FOREVER_SECONDS, Models, ServedModel
from dtmt_tf.translator.exported import TRANSLATE

MAX_BYTES = 2**26  # of a request
MAX_DIMENSIONS = 8  # of an input; work on a shape can grow faster than the bytes that name it
MAX_MESSAGE = 600  # of an error; gRPC sends 8 KiB at most, in which a character can take 12 bytes
FIELDS = {  # of a TensorProto, by type; TensorFlow's own function packs numbers into bytes
    **dict.fromkeys((tf.int8, tf.int16, tf.int32, tf.uint8, tf.uint16), "int_val"),
    **{tf.float32: "float_val", tf.float64: "double_val", tf.bool: "bool_val"},
    **{tf.int64: "int64_val", tf.uint32: "uint32_val", tf.uint64: "uint64_val"},
}

SignatureDefMap = get_model_metadata_pb2.SignatureDefMap


def find_signature(model: ServedModel, name: str, code: grpc.StatusCode) -> str:
    """Returns the name of a signature that clients may call; an empty one means the default.

    Raises:
        ServingError: With a code, if there is none, or it is TensorFlow's own.
    """
    name = name or TRANSLATE
    there = sorted(each for each in model.signatures if not each.startswith("__"))
    if name not in there:
        raise ServingError(code, f"no signature {name}. There are: {', '.join(there)}")
    return name


def model_status(model: ServedModel) -> get_model_status_pb2.GetModelStatusResponse:
    """Returns that a model's version is there."""
    response = get_model_status_pb2.GetModelStatusResponse()
    state = get_model_status_pb2.ModelVersionStatus.AVAILABLE
    response.model_version_status.add(version=model.version, state=state).status.SetInParent()
    return response


def _with_codes(method: Callable[..., Any]) -> Callable[..., Any]:
    """Makes what a method raises the call's status."""

    @wraps(method)
    def call(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return method(self, request, context)
        except ServingError as error:
            failure = error
        except Exception as error:  # of ours
            failure = internal(error)
        context.abort(failure.code, str(failure)[:MAX_MESSAGE])

    return call


def check_dimensions(number: int) -> None:
    """Raises a ServingError if an input has too many dimensions."""
    if number > MAX_DIMENSIONS:
        raise invalid(f"an input may have at most {MAX_DIMENSIONS} dimensions. Received: {number}")


def _to_array(name: str, proto: Any) -> np.ndarray:
    """Returns an input of a request."""
    check_dimensions(len(proto.tensor_shape.dim))
    shape = [dim.size for dim in proto.tensor_shape.dim]
    try:
        itemsize = np.dtype(tf.as_dtype(proto.dtype).as_numpy_dtype).itemsize
    except (KeyError, TypeError) as error:  # of no array, or unknown
        raise invalid(f"input {name} can not have the type {proto.dtype}") from error
    # the last value may stand for all that follow: a few bytes can name a tensor of any size
    elements = math.prod(shape)
    if 0 < len(proto.string_val) < elements:
        itemsize = max(itemsize, len(proto.string_val[-1]))
    if min(shape, default=0) < 0 or elements * itemsize > MAX_BYTES:
        raise invalid(f"input {name} can not have the shape {shape}: it may hold at most "
                      f"{MAX_BYTES // itemsize} elements")  # fmt: skip
    try:
        return tf.make_ndarray(proto)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise invalid(f"input {name} is not a tensor: {error}") from error


def _to_proto(array: np.ndarray, dtype: tf.DType) -> tensor_pb2.TensorProto:
    """Returns a tensor with its values in the field of their type, as TensorFlow Serving does."""
    if not (field := FIELDS.get(dtype)):
        return tf.make_tensor_proto(array, dtype, array.shape)
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    proto.tensor_shape.CopyFrom(tf.TensorShape(array.shape).as_proto())
    getattr(proto, field).extend(array.ravel().tolist())
    return proto


def _find(models: Models, spec: model_pb2.ModelSpec) -> ServedModel:
    version = spec.version.value if spec.HasField("version") else None
    return models.find(spec.name, version, spec.version_label)


def _fill(spec: model_pb2.ModelSpec, model: ServedModel, signature: str = "") -> None:
    spec.name, spec.signature_name = model.name, signature
    spec.version.value = model.version


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predict and GetModelMetadata; the stubs' base answers UNIMPLEMENTED to the others."""

    def __init__(self, models: Models) -> None:
        self._models = models

    @_with_codes
    def Predict(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Runs a signature; the client's deadline is the session's timeout."""
        model = _find(self._models, request.model_spec)
        name, code = request.model_spec.signature_name, grpc.StatusCode.FAILED_PRECONDITION
        signature = find_signature(model, name, code)
        inputs = {name: _to_array(name, proto) for name, proto in request.inputs.items()}
        seconds = min(context.time_remaining(), FOREVER_SECONDS)
        outputs = model.predict(signature, inputs, list(request.output_filter), seconds)
        response = predict_pb2.PredictResponse()
        _fill(response.model_spec, model, signature)
        for name, array in outputs.items():
            dtype = model.signatures[signature].outputs[name].dtype
            response.outputs[name].CopyFrom(_to_proto(array, tf.as_dtype(dtype)))
        return response

    @_with_codes
    def GetModelMetadata(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Returns the signatures."""
        model = _find(self._models, request.model_spec)
        if set(request.metadata_field) != {"signature_def"}:
            raise invalid("the one field of metadata is signature_def")
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        _fill(response.model_spec, model)
        response.metadata["signature_def"].Pack(SignatureDefMap(signature_def=model.signatures))
        return response


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """GetModelStatus; a model that is served is there."""

    def __init__(self, models: Models) -> None:
        self._models = models

    @_with_codes
    def GetModelStatus(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Returns the status of the version that is served."""
        return model_status(_find(self._models, request.model_spec))
