"""REST clients, plain `curl` among them, get what Python computes, and the right status."""

import base64
import gzip
import json
import shutil
import subprocess
from http.client import HTTPConnection

import numpy as np
import pytest
import requests

from dtmt_tf.server.rest import MAX_BYTES, _unpacked
from tests.serving.calls import LINES, TEXTS, as_text, assert_same

TRANSLATE = "/v1/models/translator:predict"


@pytest.fixture(scope="module")
def rest(server):
    """Calls the server: `rest(method, path, body)`, where a body is text or becomes JSON."""
    with requests.Session() as session:
        session.trust_env = False  # no proxy stands between us and loopback

        def call(method, path, body=None):
            data = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
            return session.request(method, server.rest + path, data=data, timeout=1800)

        yield call


@pytest.fixture
def connection(server):
    """A connection to the server."""
    connection = HTTPConnection(server.rest.partition("//")[2], timeout=1800)
    yield connection
    connection.close()


def _by_row(outputs):
    """Returns columns as the rows of an answer: an object each, or a value if there is one."""
    rows = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
    return rows if len(outputs) > 1 else next(iter(outputs.values()))


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_plain_curl_translates(server, in_python):
    body = json.dumps({"instances": LINES})
    command = ["curl", "--silent", "--noproxy", "*", "-d", body, server.rest + TRANSLATE]
    result = subprocess.run(command, capture_output=True, timeout=1800, check=True)
    answer = json.loads(result.stdout)
    assert list(answer) == ["predictions"]
    expected = as_text(in_python("translate", text=LINES))
    assert [row["translation"] for row in answer["predictions"]] == expected["translation"]
    scores = [row["score"] for row in answer["predictions"]]
    assert scores == pytest.approx(expected["score"], abs=1e-5)
    assert [str(np.float32(score)) for score in scores] == list(map(str, scores))  # no more digits


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_sees_a_failure(server):
    command = ["curl", "--silent", "--fail", "--noproxy", "*", "-d", "{}", server.rest + TRANSLATE]
    assert (
        subprocess.run(command, capture_output=True, timeout=1800).returncode == 22
    )  # 400 or more


def test_every_signature_gives_what_python_gives_by_column_and_by_row(rest, in_python):
    for signature, function in in_python.signatures.items():
        _, names = function.structured_input_signature
        inputs = {name: TEXTS[name] for name in names}
        expected = as_text(in_python(signature, **inputs))
        body = {"signature_name": signature, "inputs": inputs}
        columns = rest("POST", TRANSLATE, body).json()["outputs"]
        if len(expected) == 1:
            columns = dict.fromkeys(expected, columns)
        assert_same(columns, expected, signature)
        body = {"signature_name": signature, "instances": _by_row(inputs)}
        rows = rest("POST", TRANSLATE, body).json()["predictions"]
        if len(expected) > 1:
            assert all(set(row) == set(expected) for row in rows)
            rows = {name: [row[name] for row in rows] for name in expected}
        else:
            rows = dict.fromkeys(expected, rows)
        assert_same(rows, expected, signature)


def test_names_versions_and_content_types_are_free(rest, server, in_python):
    expected = as_text(in_python("serving_default", text=LINES))["translation"]
    for body in (
        {"inputs": LINES},
        {"inputs": {"text": LINES}, "signature_name": ""},
        {"instances": [{"text": line} for line in LINES]},
        {"instances": [{"b64": base64.b64encode(line.encode()).decode()} for line in LINES]},
    ):
        for path in (TRANSLATE, "/v1/models/translator/versions/2:predict", TRANSLATE.upper()):
            if path == TRANSLATE.upper():
                path = path.replace("TRANSLATOR", "translator")  # all but the model's name
            answer = rest("POST", path, body).json()
            if "outputs" in answer:
                assert answer["outputs"]["translation"] == expected
            else:
                assert [row["translation"] for row in answer["predictions"]] == expected


def test_bytes_and_numbers_of_every_kind_travel(rest):
    texts = [{"b64": "ZG9n/wA="}, "Grüße", ""]
    answer = rest("POST", "/v1/models/toy:predict", {"inputs": texts}).json()
    assert answer["outputs"] == {
        "text_bytes": [{"b64": "ZG9n/wA="}, {"b64": "R3LDvMOfZQ=="}, {"b64": ""}],
        "length": [5, 7, 0],
        "half": [2.5, 3.5, 0.0],
        "is_long": [True, True, False],
    }
    body = {"signature_name": "sums", "instances": [[1, 2], [3, 4.5]]}
    assert rest("POST", "/v1/models/toy:predict", body).json() == {"predictions": [3.0, 7.5]}


def test_one_number_for_all_rows_travels_by_column_alone(rest):
    body = {"signature_name": "total", "inputs": LINES}
    assert rest("POST", "/v1/models/toy:predict", body).json() == {"outputs": 4}
    body = {"signature_name": "total", "instances": LINES}
    assert rest("POST", "/v1/models/toy:predict", body).status_code == 400


def test_a_column_that_no_input_reads_is_left_out(rest):
    answers = [
        rest("POST", TRANSLATE, {"inputs": {"text": LINES, **more}}) for more in ({}, {"id": [7]})
    ]
    assert answers[0].status_code == 200 and answers[0].json() == answers[1].json()


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (400, '{"instances": ["a"'),
        (400, ""),
        (400, '["a"]'),
        (400, {}),
        (400, {"instances": LINES, "inputs": LINES}),
        (400, {"instances": []}),
        (400, {"instances": "a"}),
        (400, {"instances": ["a", ["b"]]}),
        (400, {"instances": [["a"], ["b", "c"]]}),
        (400, {"instances": ["a", {"text": "b"}]}),
        (400, {"instances": [{"text": "a", "more": "b"}]}),
        (400, {"instances": [{"source": "a"}], "signature_name": "score"}),
        (400, {"instances": LINES, "signature_name": "score"}),
        (400, {"inputs": LINES, "signature_name": "score"}),
        (400, {"inputs": {"source": LINES}, "signature_name": "score"}),
        (400, {"inputs": {"txt": LINES}}),
        (400, {"inputs": [1, 2]}),
        (400, {"inputs": [None]}),
        (400, {"inputs": [{"b64": "not base64!"}]}),
        (400, {"inputs": LINES, "signature_name": "summarise"}),
        (400, {"inputs": LINES, "signature_name": 7}),
        (400, {"inputs": {}, "signature_name": "__saved_model_init_op"}),  # TensorFlow's own
        (400, {"inputs": LINES, "signature_name": "\ud800"}),  # half a character
        (400, {"inputs": {"\ud800": LINES}}),
        (400, {"inputs": ["\ud800"]}),
        *((400, {"inputs": body}) for body in ("a dog", [[line] for line in LINES], [LINES])),
        (400, {"instances": [[line] for line in LINES]}),
        (400, {"instances": [[line] for line in LINES], "signature_name": "info"}),
        *(
            (400, {"inputs": {"source": LINES, "target": LINES[:k]}, "signature_name": "score"})
            for k in (0, 1, 2)
        ),
        (400, {"inputs": {"source": LINES[:2], "target": LINES}, "signature_name": "score"}),
        (400, {"inputs": {"source": LINES, "prefix": ["a"]}, "signature_name": "complete"}),
    ],
)
def test_a_wrong_body_is_refused(rest, code, body):
    response = rest("POST", TRANSLATE, body)
    assert response.status_code == code
    assert isinstance(response.json()["error"], str)


def test_a_refusal_has_the_models_own_reason(rest):
    body = {"inputs": {"source": LINES, "target": LINES[:1]}, "signature_name": "score"}
    error = rest("POST", TRANSLATE, body).json()["error"]
    assert error.startswith("[All inputs should have as many texts.]")
    body = {"inputs": ["no number"], "signature_name": "count"}
    error = rest("POST", "/v1/models/toy:predict", body).json()["error"]
    assert error == "StringToNumberOp could not correctly convert string: no number"


def test_an_input_has_few_dimensions(rest):
    texts = LINES
    for _ in range(8):
        texts = [texts]
    error = rest("POST", TRANSLATE, {"inputs": texts}).json()["error"]
    assert error == "an input may have at most 8 dimensions. Received: 9"
    assert "dimensions" not in rest("POST", TRANSLATE, {"inputs": texts[0]}).json()["error"]


@pytest.mark.parametrize(
    ("code", "method", "path"),
    [
        (404, "POST", "/v1/models/absent:predict"),
        (404, "POST", "/v1/models/translator/versions/1:predict"),
        (404, "POST", "/v1/models/translator/versions/3:predict"),
        (400, "POST", "/v1/models/translator/labels/stable:predict"),
        (400, "POST", "/v1/models/translator:translate"),
        (400, "POST", "/v1/models/translator"),
        (404, "POST", "/models/translator:predict"),
        (404, "GET", "/v1/models/absent"),
        (404, "GET", "/v1/models/absent/metadata"),
        (404, "GET", "/v1/models/translator/versions/1"),
        (400, "GET", "/v1/models/translator:predict"),
        (404, "GET", "/"),
        pytest.param(400, "GET", "/v1/models/toy/versions/" + "9" * 5000, id="a long number"),
        (400, "GET", "http://[bad/v1/models/translator"),
        (400, "POST", "http://[bad"),
    ],
)
def test_a_wrong_path_is_refused(connection, code, method, path):
    body = b'{"instances": ["a dog"]}' if method == "POST" else b""
    connection.putrequest(method, path, skip_host=True)  # the host of some can not be read
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    response = connection.getresponse()
    assert response.status == code
    assert isinstance(json.load(response)["error"], str)


def test_a_body_that_nobody_asked_for_is_not_the_next_request(connection):
    for method in ("GET", "OPTIONS", "GET"):
        connection.request(method, "/v1/models/translator", "GET /absent HTTP/1.1\r\n\r\n")
        response = connection.getresponse()
        assert response.status == 200 and b"absent" not in response.read()


def test_a_connection_with_a_body_of_unknown_length_is_closed(connection):
    connection.putrequest("GET", "/v1/models/translator")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()  # no body: the server may be gone before it is sent
    response = connection.getresponse()
    assert response.status == 411 and response.will_close


def test_a_packed_body_is_unpacked(server, in_python, monkeypatch):
    body = json.dumps({"instances": ["dogs"]}).encode()

    def post(content):
        with requests.Session() as session:
            session.trust_env = False
            headers = {"Content-Encoding": "gzip"}
            address = f"{server.rest}/v1/models/toy:predict"
            return session.post(address, data=content, headers=headers, timeout=1800)

    answer = post(gzip.compress(body))
    assert answer.ok and answer.json()["predictions"]
    assert post(body).status_code == 200  # its header is wrong, and nothing is lost
    assert post(gzip.compress(body)[:-9]).status_code == 400
    assert post(gzip.compress(b" " * (MAX_BYTES + 1))).status_code == 413
    monkeypatch.setattr("dtmt_tf.server.rest.MAX_BYTES", 1000)
    assert len(_unpacked(gzip.compress(b" " * 100_000))) == 1001  # no more is unpacked


def test_status_names_the_version_that_is_served(rest):
    status = {"error_code": "OK", "error_message": ""}
    versions = [{"version": "2", "state": "AVAILABLE", "status": status}]
    for path in ("/v1/models/translator", "/v1/models/translator/versions/2"):
        assert rest("GET", path).json() == {"model_version_status": versions}


def test_metadata_are_the_signatures(rest, in_python):
    answer = rest("GET", "/v1/models/translator/metadata").json()
    spec = {"name": "translator", "signature_name": "", "version": "2"}
    assert answer["model_spec"] == spec
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert set(in_python.signatures) <= set(signatures)
    default = signatures["serving_default"]
    assert default["method_name"] == "tensorflow/serving/predict"
    assert set(default["inputs"]) == {"text"}
    assert default["outputs"]["score"]["dtype"] == "DT_FLOAT"
    (dimension,) = default["outputs"]["translation"]["tensor_shape"]["dim"]
    assert dimension["size"] == "-1"


def test_pages_of_other_sites_may_ask(rest):
    responses = [
        rest("OPTIONS", TRANSLATE),
        rest("POST", TRANSLATE, {"instances": ["a dog"]}),
        rest("POST", TRANSLATE, "{"),
        rest("GET", "/v1/models/translator"),
    ]
    assert [response.status_code for response in responses] == [200, 200, 400, 200]
    for response in responses:
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert "POST" in response.headers["Access-Control-Allow-Methods"]
        assert response.headers["Access-Control-Allow-Headers"] == "Content-Type"
