"""The official gRPC client gets what Python computes, and the right status for what is wrong."""

import grpc
import numpy as np
import pytest
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
)

from dtmt_tf.server.grpc_service import _to_array
from tests.serving.calls import LINES, TEXTS, arrays, assert_same, predict_request


def _code(call, *arguments, **options):
    """Returns the status that a call fails with."""
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, timeout=1800, **options)
    return caught.value.code().name


def test_every_signature_gives_what_python_gives(stub, in_python):
    for signature, function in in_python.signatures.items():
        _, names = function.structured_input_signature
        inputs = {name: TEXTS[name] for name in names}
        response = stub.Predict(predict_request("translator", signature, **inputs), timeout=1800)
        assert_same(arrays(response), in_python(signature, **inputs), signature)
        assert response.model_spec.name == "translator"
        assert response.model_spec.signature_name == signature
        assert response.model_spec.version.value == 2


def test_translations_of_different_texts_differ(stub):
    outputs = arrays(stub.Predict(predict_request("translator", text=LINES)))
    assert len(set(outputs["translation"])) == len(LINES)  # else equality would prove little


def test_no_name_means_the_default_signature(stub, in_python):
    response = stub.Predict(predict_request("translator", "", version=2, text=LINES))
    assert response.model_spec.signature_name == "serving_default"
    assert_same(arrays(response), in_python("serving_default", text=LINES))


def test_a_filter_chooses_the_outputs(stub, in_python):
    request = predict_request("translator", outputs=["score"], text=LINES)
    expected = in_python("serving_default", text=LINES)["score"]
    assert_same(arrays(stub.Predict(request)), {"score": expected})


def test_bytes_and_numbers_of_every_kind_travel(stub):
    texts = [b"", b"dog\xff\0", "Grüße".encode()]
    outputs = arrays(stub.Predict(predict_request("toy", text=texts)))
    expected = {
        "text_bytes": np.array(texts, object),
        "length": np.array([0, 5, 7], np.int32),
        "half": np.array([0, 2.5, 3.5]),
        "is_long": np.array([False, True, True]),
    }
    for name, value in expected.items():
        assert outputs[name].dtype == value.dtype
        np.testing.assert_array_equal(outputs[name], value)
    proto = stub.Predict(predict_request("toy", text=texts)).outputs  # as other languages read it
    assert list(proto["length"].int_val) == [0, 5, 7]
    assert list(proto["is_long"].bool_val) == [False, True, True]
    numbers = np.array([[1, 2], [3, 4.5]], np.float32)
    outputs = arrays(stub.Predict(predict_request("toy", "sums", numbers=numbers)))
    assert outputs["sum"].tolist() == [3, 7.5]


def test_no_rows_give_no_rows(stub, in_python):
    for signature, function in in_python.signatures.items():
        _, names = function.structured_input_signature
        inputs = dict.fromkeys(names, [])
        outputs = arrays(stub.Predict(predict_request("translator", signature, **inputs)))
        expected = in_python(signature, **inputs)
        for name, value in outputs.items():
            assert value.shape[0] == 0
            assert (value.shape, value.dtype) == (expected[name].shape, expected[name].dtype)
    assert arrays(stub.Predict(predict_request("toy", "grid", text=[])))["grid"].shape == (0, 5)


@pytest.mark.parametrize(
    ("code", "request_"),
    [
        ("FAILED_PRECONDITION", predict_request("translator", "summarise", text=LINES)),
        ("FAILED_PRECONDITION", predict_request("translator", "__saved_model_init_op")),
        ("NOT_FOUND", predict_request("absent", text=LINES)),
        ("NOT_FOUND", predict_request("translator", version=1, text=LINES)),
        ("NOT_FOUND", predict_request("translator", version=3, text=LINES)),
        ("INVALID_ARGUMENT", predict_request("", text=LINES)),
        ("INVALID_ARGUMENT", predict_request("translator")),
        ("INVALID_ARGUMENT", predict_request("translator", txt=LINES)),
        ("INVALID_ARGUMENT", predict_request("translator", text=LINES, more=LINES)),
        ("INVALID_ARGUMENT", predict_request("translator", "score", source=LINES)),
        ("INVALID_ARGUMENT", predict_request("translator", text=[1.5, 2.5])),
        ("INVALID_ARGUMENT", predict_request("translator", outputs=["scores"], text=LINES)),
        ("INVALID_ARGUMENT", predict_request("translator", outputs=["score"] * 2, text=LINES)),
        ("INVALID_ARGUMENT", predict_request("toy", "count", text=["not a number"])),
    ],
)
def test_a_wrong_request_has_the_servers_status(stub, code, request_):
    assert _code(stub.Predict, request_) == code


def test_a_refusal_has_the_models_own_reason(stub):
    request = predict_request("translator", "score", source=LINES, target=LINES[:1])
    with pytest.raises(grpc.RpcError, match="All inputs should have as many texts"):
        stub.Predict(request, timeout=1800)


def test_a_label_that_no_version_has_is_an_error(stub):
    request = predict_request("translator", text=LINES)
    request.model_spec.version_label = "stable"
    assert _code(stub.Predict, request) == "INVALID_ARGUMENT"


def test_a_long_reason_arrives_in_part(stub):
    request = predict_request("translator", "\N{GRINNING FACE}" * 100_000, text=LINES)
    assert _code(stub.Predict, request) == "FAILED_PRECONDITION"


def _tensor(*shape, **fields):
    """Returns a tensor as a request has it, of strings unless `dtype` says otherwise."""
    dim = [TensorShapeProto.Dim(size=size) for size in shape]
    return TensorProto(tensor_shape=TensorShapeProto(dim=dim), **{"dtype": 7, **fields})


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        *((_tensor(1, dtype=dtype), f"the type {dtype}") for dtype in (0, 20, 21, 120, 999)),
        (_tensor(1, dtype=1, tensor_content=b"odd"), "not a tensor"),
        (_tensor(1, dtype=4, int_val=[300]), "not a tensor"),
        (_tensor(2, string_val=[b"a", b"b", b"c"]), "not a tensor"),
        (_tensor(10**14, string_val=[b"a"]), "at most 8388608 elements"),
        (_tensor(2**32, 2**32, string_val=[b"a"]), "at most 8388608 elements"),
        (_tensor(-1, string_val=[b"a"]), "at most 8388608 elements"),
        (_tensor(10**5, string_val=[b"a" * 1000]), "at most 67108 elements"),
        (_tensor(*[1] * 9, string_val=[b"a"]), "at most 8 dimensions. Received: 9"),
        pytest.param(_tensor(*[2**62] * 20_000), "at most 8 dimensions", id="a long shape"),
    ],
)
def test_a_broken_tensor_is_an_error(stub, tensor, reason):
    request = predict_request("translator")
    request.inputs["text"].CopyFrom(tensor)
    with pytest.raises(grpc.RpcError, match=reason) as caught:
        stub.Predict(request, timeout=1800)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_one_long_text_among_many_is_not_taken_for_all():
    texts = [b"long " * 20_000, *[b"short"] * 999]
    assert _to_array("text", _tensor(1000, string_val=texts)).tolist() == texts


def test_one_value_may_stand_for_all(stub):
    request = predict_request("toy")
    request.inputs["text"].CopyFrom(_tensor(3, string_val=[b"dog"]))
    assert arrays(stub.Predict(request, timeout=1800))["length"].tolist() == [3, 3, 3]


def test_metadata_are_the_signatures(stub, served_models):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "translator"
    response = stub.GetModelMetadata(request)
    assert (response.model_spec.name, response.model_spec.version.value) == ("translator", 2)
    found = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(found)
    content = (served_models["translator"] / "2" / "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    assert dict(found.signature_def) == dict(graph.signature_def)


def test_metadata_have_one_field_and_need_a_model(stub):
    request = get_model_metadata_pb2.GetModelMetadataRequest()
    request.model_spec.name = "translator"
    assert _code(stub.GetModelMetadata, request) == "INVALID_ARGUMENT"
    request.metadata_field.append("weights")
    assert _code(stub.GetModelMetadata, request) == "INVALID_ARGUMENT"
    request.metadata_field[:] = ["signature_def"]
    request.model_spec.name = "absent"
    assert _code(stub.GetModelMetadata, request) == "NOT_FOUND"


def test_status_names_the_version_that_is_served(server):
    with grpc.insecure_channel(server.grpc) as channel:
        service = model_service_pb2_grpc.ModelServiceStub(channel)
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "translator"
        (status,) = service.GetModelStatus(request).model_version_status
        assert (status.version, status.status.error_code) == (2, 0)
        assert status.state == get_model_status_pb2.ModelVersionStatus.AVAILABLE
        request.model_spec.version.value = 1
        assert _code(service.GetModelStatus, request) == "NOT_FOUND"
        request.model_spec.Clear()
        request.model_spec.name = "absent"
        assert _code(service.GetModelStatus, request) == "NOT_FOUND"


def test_a_request_that_takes_too_long_is_given_up(stub):
    request = predict_request("toy", "count", text=[str(10**15)])
    with pytest.raises(grpc.RpcError) as caught:
        stub.Predict(request, timeout=0.3)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    request = predict_request("toy", "count", text=["7", "12"])
    assert arrays(stub.Predict(request, timeout=1800))["last"].tolist() == [12, 12]
