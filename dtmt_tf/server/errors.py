"""A request that fails, with the status that TensorFlow Serving would give it."""

from grpc import StatusCode


class ServingError(Exception):
    """A request that fails.

    Attributes:
        code: The status of the call; `dtmt_tf.server.rest` translates it for HTTP.
    """

    def __init__(self, code: StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def invalid(message: str) -> ServingError:
    """Returns the error of a request that can not be understood."""
    return ServingError(StatusCode.INVALID_ARGUMENT, message)
