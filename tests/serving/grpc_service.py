"""The server's gRPC interface: PredictionService and ModelService of the official stubs."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from tests.serving.session_runner import Models, ServedModel, ServingError

_FOREVER_SECONDS = 1e6  # the timeout of a request without a deadline

SignatureDefMap = get_model_metadata_pb2.SignatureDefMap


def default_signature(name: str) -> str:
    """Returns the name of a signature; an empty one means the default."""
    return name or "serving_default"


def model_status(model: ServedModel) -> get_model_status_pb2.GetModelStatusResponse:
    """Returns that a model's version is there."""
    response = get_model_status_pb2.GetModelStatusResponse()
    state = get_model_status_pb2.ModelVersionStatus.AVAILABLE
    response.model_version_status.add(version=model.version, state=state).status.SetInParent()
    return response


def _with_codes(method: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a method's `ServingError` the call's status."""

    @wraps(method)
    def call(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return method(self, request, context)
        except ServingError as error:
            context.abort(grpc.StatusCode[error.code], str(error))

    return call


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
        signature = default_signature(request.model_spec.signature_name)
        if signature not in model.signatures:
            raise ServingError("FAILED_PRECONDITION", f"no signature {signature}")
        try:
            inputs = {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()}
        except (TypeError, ValueError) as error:
            raise ServingError("INVALID_ARGUMENT", f"not a tensor: {error}") from error
        seconds = min(context.time_remaining(), _FOREVER_SECONDS)
        outputs = model.predict(signature, inputs, list(request.output_filter), seconds)
        response = predict_pb2.PredictResponse()
        _fill(response.model_spec, model, signature)
        for name, array in outputs.items():
            dtype = model.signatures[signature].outputs[name].dtype
            response.outputs[name].CopyFrom(tf.make_tensor_proto(array, dtype, array.shape))
        return response

    @_with_codes
    def GetModelMetadata(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Returns the signatures."""
        model = _find(self._models, request.model_spec)
        if set(request.metadata_field) != {"signature_def"}:
            raise ServingError("INVALID_ARGUMENT", "the one field of metadata is signature_def")
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
