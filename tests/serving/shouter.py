"""A server whose model gives lines back in capitals, or fails as it is told."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from dtmt_tf.server.rest import HTTP_CODES

PATIENCE_SECONDS = 180  # the machine may be busy


class Shouter:
    """A model that gives lines back in capitals, or fails as it is told.

    Args:
        failures: TensorFlow's names of the errors of the first requests; `"DROPPED"` to hang up,
            None for an answer.
        hold: `hold(model, number of the request)` delays an answer as long as it is true.

    Attributes:
        requests: The lines of each request, in the order they came.
        times: When each came.
        answered: How many answers were given.
        most: The most requests that were there at once.
    """

    words = "in my words"  # of its errors

    def __init__(self, failures=(), hold=lambda model, number: False):
        self.failures, self.hold = failures, hold
        self.requests, self.times = [], []
        self.in_flight = self.most = self.answered = 0
        self.changed = threading.Condition()

    def answer(self, lines):
        """Returns the lines in capitals, or the name of an error."""
        with self.changed:
            number = len(self.requests)
            self.requests.append(lines)
            self.times.append(time.monotonic())
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            self.changed.notify_all()
            self.wait_for(lambda: not self.hold(self, number))
            self.in_flight -= 1
            self.answered += 1
            self.changed.notify_all()
        if number < len(self.failures) and self.failures[number]:
            return self.failures[number]
        return [line.upper() for line in lines]

    def wait_for(self, fact):
        """Waits, with the lock held, until something is true."""
        return self.changed.wait_for(fact, timeout=PATIENCE_SECONDS)

    def release(self):
        """Lets all requests go."""
        with self.changed:
            self.hold = lambda model, number: False
            self.changed.notify_all()


@contextmanager
def over_rest(model):
    """Serves a model; yields the client's arguments."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = model.answer(body["inputs"]["text"])
            if answer == "DROPPED":
                self.close_connection = True
                return
            failed = isinstance(answer, str)
            content = {"error": model.words} if failed else {"outputs": {"translation": answer}}
            data = json.dumps(content).encode()
            self.send_response(HTTP_CODES.get(grpc.StatusCode[answer], 500) if failed else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def handle(self):
            try:
                super().handle()
            except ConnectionError:  # the client left
                pass

        def log_message(self, *unused):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield ["--rest", f"http://127.0.0.1:{server.server_port}"]
    finally:
        model.release()
        server.shutdown()
        server.server_close()


@contextmanager
def over_grpc(model):
    """Serves a model; yields the client's arguments."""

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):
            lines = [text.decode() for text in request.inputs["text"].string_val]
            answer = model.answer(lines)
            if isinstance(answer, str):
                code = grpc.StatusCode[answer.replace("DROPPED", "UNAVAILABLE")]
                context.abort(code, model.words)
            response = predict_pb2.PredictResponse()
            response.outputs["translation"].CopyFrom(tf.make_tensor_proto(answer))
            return response

    server = grpc.server(ThreadPoolExecutor(16))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield ["--grpc", f"127.0.0.1:{port}"]
    finally:
        model.release()
        server.stop(None).wait()
