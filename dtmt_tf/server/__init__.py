"""TensorFlow Serving's protocols for exported models, for development on one machine."""

from dtmt_tf.server.batching import Batching
from dtmt_tf.server.models import Models
from dtmt_tf.server.server import Server

__all__ = ["Batching", "Models", "Server"]
