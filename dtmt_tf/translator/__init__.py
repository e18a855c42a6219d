"""Translation from Python: exported models as objects that take and return strings."""

import sys

from dtmt_tf import startup

if "tensorflow" not in sys.modules:  # else it runs as its user has started it
    startup.start_tensorflow()

from dtmt_tf.decoding import Sampling  # noqa: E402
from dtmt_tf.translator.constraints import Constraints  # noqa: E402
from dtmt_tf.translator.places import find_model, latest_version, live_versions  # noqa: E402
from dtmt_tf.translator.translator import (  # noqa: E402
    Candidate,
    Score,
    Translation,
    Translator,
)
from dtmt_tf.translator.words import Alignment  # noqa: E402

__all__ = [
    "Alignment",
    "Candidate",
    "Constraints",
    "Sampling",
    "Score",
    "Translation",
    "Translator",
    "find_model",
    "latest_version",
    "live_versions",
]
