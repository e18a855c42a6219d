"""Requests that the server joins get what each gets alone."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import requests

from dtmt_tf.server.batching import Batcher, Batching, _Task
from dtmt_tf.server.errors import ServingError, invalid
from tests.serving.calls import LINES, TEXTS, arrays, assert_same, predict_request


def _at_once(stub, messages):
    """Sends requests side by side; returns the outputs of each."""
    with ThreadPoolExecutor(len(messages)) as pool:
        responses = pool.map(lambda message: stub.Predict(message, timeout=1800), messages)
        return [arrays(response) for response in responses]


def _joined(make, joined):
    """Makes requests side by side until they were joined, which a busy machine may take apart."""
    for _ in range(100):
        if joined(found := make()):
            break
    return found


def _code(stub, request):
    with pytest.raises(grpc.RpcError) as caught:
        stub.Predict(request, timeout=1800)
    return caught.value.code().name


def test_a_batch_is_padded_with_the_first_row_of_the_last_request(batching_stub):
    texts = [["one", "two"], ["three"]]
    messages = [predict_request("toy", "batch", text=text) for text in texts]
    first, second = _joined(
        lambda: _at_once(batching_stub, messages), lambda found: found[1]["size"].tolist() == [4]
    )
    assert first["size"].tolist() == [4, 4]
    assert second["size"].tolist() == [4]
    assert first["last"].tolist() == [second["last"][0]] * 2
    assert second["last"][0] in (b"one", b"three")


@pytest.mark.parametrize(("rows", "size"), [(1, 1), (2, 4), (4, 4), (5, 16), (16, 16)])
def test_a_request_alone_is_padded_to_an_allowed_size(batching_stub, rows, size):
    request = predict_request("toy", "batch", text=[f"row {k}" for k in range(rows)])
    outputs = arrays(batching_stub.Predict(request, timeout=1800))
    assert outputs["size"].tolist() == [size] * rows
    last = b"row 0" if size > rows else b"row %d" % (rows - 1)
    assert outputs["last"].tolist() == [last] * rows


def test_a_full_batch_does_not_wait_and_the_rest_make_another(batching_stub):
    messages = [predict_request("toy", "batch", text=["x"] * 9) for _ in range(2)]
    first, second = _at_once(batching_stub, messages)  # 18 rows do not fit
    assert first["size"].tolist() == second["size"].tolist() == [16] * 9


def test_requests_of_another_signature_or_other_outputs_are_not_joined(batching_stub):
    messages = [
        predict_request("toy", "batch", text=["a", "b"]),
        predict_request("toy", "batch", outputs=["size"], text=["a"]),
        predict_request("toy", "grid", text=["a"]),
    ]
    whole, sizes, grid = _at_once(batching_stub, messages)
    assert whole["size"].tolist() == [4, 4]
    assert_same(sizes, {"size": [1]})
    assert grid["grid"].tolist() == [[b"a"] * 5]


def test_joined_requests_get_what_each_gets_alone(batching_stub, in_python):
    random_ = random.Random(5)
    for signature in ("translate", "score"):
        _, names = in_python.signatures[signature].structured_input_signature
        chosen = [random_.choices(range(len(LINES)), k=k) for k in (1, 5, 2, 3, 1, 7, 4, 1)]
        inputs = [{name: [TEXTS[name][k] for k in rows] for name in names} for rows in chosen]
        messages = [predict_request("translator", signature, **values) for values in inputs]
        results = _at_once(batching_stub, messages)
        for values, outputs in zip(inputs, results, strict=True):
            assert_same(outputs, in_python(signature, **values), f"{signature} {values}")


def test_joined_alignments_differ_in_padding_alone(batching_stub, in_python):
    texts = [[LINES[1]], [LINES[0], LINES[3]]]
    messages = [predict_request("translator", "align", text=text) for text in texts]
    for text, outputs in zip(texts, _at_once(batching_stub, messages), strict=True):
        expected = in_python("align", text=text)
        _, t, s = expected["attention"].shape
        assert not outputs["attention"][:, t:].any() and not outputs["attention"][:, :, s:].any()
        outputs["attention"] = outputs["attention"][:, :t, :s]
        outputs["source_subwords"] = outputs["source_subwords"][:, :s]
        outputs["target_subwords"] = outputs["target_subwords"][:, :t]
        assert_same(outputs, expected)


@pytest.mark.parametrize(
    ("code", "request_"),
    [
        ("INVALID_ARGUMENT", predict_request("toy", "batch", text=["x"] * 17)),
        ("INVALID_ARGUMENT", predict_request("toy", "batch", text="no row")),
        ("INVALID_ARGUMENT", predict_request("translator", "score", source=["a"], target=[])),
        ("FAILED_PRECONDITION", predict_request("toy", "total", text=["x"])),
    ],
)
def test_what_cannot_be_joined_or_cut_is_refused(batching_stub, code, request_):
    assert _code(batching_stub, request_) == code


def test_no_rows_give_no_rows(batching_stub):
    outputs = arrays(batching_stub.Predict(predict_request("toy", "grid", text=[]), timeout=1800))
    assert outputs["grid"].shape == (0, 5)


def test_of_joined_requests_a_bad_one_fails_alone(batching_stub):
    messages = [predict_request("toy", "count", text=[text]) for text in ("3", "no number")]

    def send(message):
        try:
            batching_stub.Predict(message, timeout=1800)
        except grpc.RpcError as error:
            return error.code().name
        return "OK"

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(send, messages)) == ["OK", "INVALID_ARGUMENT"]
    outputs = arrays(batching_stub.Predict(predict_request("toy", "count", text=["3"])))
    assert outputs["last"].tolist() == [3]


def test_joined_requests_of_unequal_rows_run_alone():
    def run(inputs, seconds):
        if inputs["text"].ndim > 1:
            raise invalid("a text has one dimension")
        return inputs

    batcher = Batcher(run, Batching([2, 4], 1800))
    with ThreadPoolExecutor(2) as pool:
        inputs = [{"text": np.array(each, object)} for each in (["a", "b"], [["a"], ["b"]])]
        first, second = [pool.submit(batcher, each, 1800) for each in inputs]
        assert first.result()["text"].tolist() == ["a", "b"]
        with pytest.raises(ServingError, match="one dimension"):
            second.result()
    batcher.close()


def _limited(most, error):
    """Returns what gives texts back, at most so many at once, and the sizes that it was asked."""
    asked = []

    def run(inputs, seconds):
        asked.append(len(inputs["text"]))
        if sum(map(len, inputs["text"])) > most:
            raise error
        return inputs

    return run, asked


@pytest.mark.parametrize("texts", [["aa", "b", "cccc", "d"], ["aa"]], ids=["joined", "padded"])
def test_what_is_refused_for_rows_of_others_runs_alone(texts):
    run, sizes = _limited(3, invalid("too much (export.max_tokens)"))
    batcher = Batcher(run, Batching([4], 1800 if len(texts) > 1 else 0))

    def ask(text):
        try:
            return batcher({"text": np.array([text], object)}, 1800)["text"].tolist()
        except ServingError as error:
            return str(error)

    with ThreadPoolExecutor(len(texts)) as pool:
        answers = list(pool.map(ask, texts))
    alone = [[text] if len(text) <= 3 else "too much (export.max_tokens)" for text in texts]
    assert (answers, sizes) == (alone, [4, *[1] * len(texts)])


def test_a_request_that_waited_for_another_batch_waits_no_second_time():
    begun, go_on = threading.Event(), threading.Event()

    def run(inputs, seconds):
        begun.set()
        assert go_on.wait(1800)
        return inputs

    batcher = Batcher(run, Batching([1, 4], 60.0))
    with ThreadPoolExecutor(2) as pool:
        full = pool.submit(batcher, {"text": np.array(list("abcd"), object)}, 1800)
        assert begun.wait(1800)
        second = _Task({"text": np.array(["e"], object)}, time.monotonic() + 1800)
        second.came -= 60.0  # as if the first had taken a minute
        batcher._queue.put(second)
        start = time.monotonic()
        go_on.set()
        assert second.answer.result(1800)["text"].tolist() == ["e"]
        assert time.monotonic() - start < 50
        full.result(1800)


def test_a_request_that_waited_too_long_is_not_computed_with_others():
    begun, go_on, asked = threading.Event(), threading.Event(), []

    def run(inputs, seconds):
        asked.append(inputs["text"].tolist())
        begun.set()
        assert go_on.wait(1800)
        return inputs

    batcher = Batcher(run, Batching([4], 0.1))
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(batcher, {"text": np.array(["a"], object)}, 1800)
        assert begun.wait(1800)
        late = pool.submit(batcher, {"text": np.array(["late"], object)}, 0.01)
        time.sleep(0.05)
        last = pool.submit(batcher, {"text": np.array(["b"], object)}, 1800)
        go_on.set()
        with pytest.raises(ServingError, match="waited for too long") as caught:
            late.result(1800)
        assert caught.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
        assert [each.result(1800)["text"].tolist() for each in (first, last)] == [["a"], ["b"]]
    assert asked == [["a"] * 4, ["b"] * 4]


def test_a_deadline_is_kept_whatever_those_of_the_same_batch_may_take():
    go_on = threading.Event()

    def run(inputs, seconds):
        assert go_on.wait(1800)
        return inputs

    batcher = Batcher(run, Batching([2], 1800))
    with ThreadPoolExecutor(2) as pool:
        patient = pool.submit(batcher, {"text": np.array(["a"], object)}, 1800)
        hurried = pool.submit(batcher, {"text": np.array(["b"], object)}, 0.2)
        with pytest.raises(ServingError, match="waited for too long"):
            hurried.result(1800)
        assert not patient.done()
        go_on.set()
        assert patient.result(1800)["text"].tolist() == ["a"]


def test_what_fails_otherwise_runs_once():
    run, sizes = _limited(0, ServingError(grpc.StatusCode.INTERNAL, "broken"))
    with pytest.raises(ServingError, match="broken"):
        Batcher(run, Batching([4], 0))({"text": np.array(["a"], object)}, 1800)
    assert sizes == [4]


def test_a_deadline_stops_the_session(batching_stub, batching_server):
    request = predict_request("toy", "count", text=[str(10**15)])
    with pytest.raises(grpc.RpcError) as caught:
        batching_stub.Predict(request, timeout=1.0)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    body = {"signature_name": "count", "instances": [str(10**15)]}
    with requests.Session() as session:
        session.trust_env = False
        url = f"{batching_server.rest}/v1/models/toy:predict"
        assert session.post(url, json=body, timeout=1800).status_code == 504
    # the queue of this signature has one worker: it must be free again
    request = predict_request("toy", "count", text=["7"])
    outputs = arrays(batching_stub.Predict(request, timeout=1800))
    np.testing.assert_array_equal(outputs["last"], [7])
