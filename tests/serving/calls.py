"""What the tests of the protocols send and compare."""

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

LINES = ["a small dog runs", "two dogs run in the grass", "", "the cat sleeps on a mat"]
# what to give an input, by its name
TEXTS = {
    "text": LINES,
    "source": LINES,
    "target": ["the cat sleeps", "two dogs run", "a mat", ""],
    "prefix": ["the", "", "two dogs", "a"],
}


def predict_request(model, signature="", version=None, outputs=(), **inputs):
    """Returns a request of the official client; texts become string tensors."""
    request = predict_pb2.PredictRequest(output_filter=outputs)
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    for name, value in inputs.items():
        array = np.array(value)
        dtype = tf.string if array.dtype.kind in "USO" or not array.size else None
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value, dtype, array.shape))
    return request


def arrays(response):
    """Returns a response's outputs as arrays."""
    return {name: tf.make_ndarray(proto) for name, proto in response.outputs.items()}


def assert_same(actual, expected, message=""):
    """Compares outputs by name: texts and integers equal, other numbers within 1e-5."""
    assert set(actual) == set(expected), message
    for name, value in expected.items():
        value = np.asarray(value)
        found = np.asarray(actual[name], value.dtype)
        assert found.shape == value.shape, f"{message} {name}"
        if value.dtype.kind == "f":
            np.testing.assert_allclose(found, value, atol=1e-5, err_msg=f"{message} {name}")
        else:
            np.testing.assert_array_equal(found, value, err_msg=f"{message} {name}")


def as_text(outputs):
    """Returns outputs as JSON would have them: nested lists, with `str` for bytes."""

    def convert(value):
        if isinstance(value, list):
            return [convert(item) for item in value]
        return value.decode() if isinstance(value, bytes) else value

    return {name: convert(value.tolist()) for name, value in outputs.items()}
