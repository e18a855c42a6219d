"""Neural machine translation with deep-transition recurrent networks, in Keras 3.

`Translator` loads an exported model; TensorFlow starts when it is first named.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dtmt_tf.errors import UserError
    from dtmt_tf.translator import (
        Alignment,
        Candidate,
        Constraints,
        Sampling,
        Score,
        Translation,
        Translator,
    )

__all__ = [
    "Alignment",
    "Candidate",
    "Constraints",
    "Sampling",
    "Score",
    "Translation",
    "Translator",
    "UserError",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "UserError":
        from dtmt_tf.errors import UserError

        return UserError
    from dtmt_tf import translator

    return getattr(translator, name)
