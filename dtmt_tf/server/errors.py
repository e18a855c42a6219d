"""A request that fails, with the status that TensorFlow Serving would give it."""

import logging

from grpc import StatusCode

logger = logging.getLogger(__name__)


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


def internal(error: Exception) -> ServingError:
    """Returns, in one line, the error of a request on which this server fails; logs all of it."""
    logger.error("A request failed", exc_info=error)
    line = str(error).partition("\n")[0]
    return ServingError(StatusCode.INTERNAL, f"{type(error).__name__}: {line}")
