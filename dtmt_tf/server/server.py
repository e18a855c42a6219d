"""A server that speaks TensorFlow Serving's protocols, on this machine alone."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from dtmt_tf.errors import UserError
from dtmt_tf.quiet import quiet_stderr
from dtmt_tf.server.grpc_service import MAX_BYTES, ModelService, PredictionService
from dtmt_tf.server.models import Models
from dtmt_tf.server.rest import RestServer

THREADS = 64  # requests over gRPC at once; more wait


class Server:
    """Answers over REST and gRPC, on 127.0.0.1, from when it is made until it is stopped.

    Args:
        models: What is served; warmed up once the ports are had, and closed in the end.
        rest_port: 0 for any free one.
        grpc_port: 0 for any free one.
        timeout_seconds: How long a prediction over REST may take; clients of gRPC say so.
        cors: Whether web pages of other sites may ask over REST.

    Attributes:
        rest_port: Where REST is.
        grpc_port: Where gRPC is.

    Raises:
        UserError: If a port is taken.
    """

    def __init__(
        self,
        models: Models,
        rest_port: int,
        grpc_port: int,
        timeout_seconds: float,
        cors: bool,
    ) -> None:
        self._models = models
        try:
            self._rest = RestServer(models, rest_port, timeout_seconds, cors)
        except OSError as error:
            raise UserError(
                f"REST can not have port {rest_port} ({error.strerror}). --rest-port names another."
            ) from error
        self._grpc = grpc.server(
            ThreadPoolExecutor(THREADS),
            options=[
                ("grpc.max_receive_message_length", MAX_BYTES),
                ("grpc.so_reuseport", 0),  # a port that is taken is an error
            ],
        )
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            PredictionService(models), self._grpc
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(models), self._grpc)
        self.grpc_port = 0
        with quiet_stderr(), contextlib.suppress(RuntimeError):  # it also writes of a taken port
            self.grpc_port = self._grpc.add_insecure_port(f"127.0.0.1:{grpc_port}")
        if not self.grpc_port:
            self._rest.server_close()
            raise UserError(
                f"gRPC can not have port {grpc_port}: it is taken. --grpc-port names another."
            )
        self.rest_port = self._rest.server_port
        threading.Thread(target=self._rest.serve_forever, daemon=True).start()
        self._grpc.start()
        models.warm_up()

    def stop(self, seconds: float) -> None:
        """Takes no more requests; those that are there are answered, or fail after some seconds.

        Args:
            seconds: How long answers may still take.
        """
        try:
            ended = self._grpc.stop(seconds)
            self._rest.stop(seconds)
            ended.wait()
        finally:  # told to hurry, too: what still runs would keep the process
            self._models.close()
