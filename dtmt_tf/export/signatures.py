"""What a client can ask of an exported model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Signature:
    """One way to call the model.

    Every input is strings `[B]`; every output is dense with the batch first.

    Attributes:
        inputs: Names of the inputs.
        outputs: Names of the outputs.
        purpose: What it answers, in a few words.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    purpose: str


_TRANSLATE = Signature(("text",), ("translation", "score"), "the best translation")

SIGNATURES = {
    "serving_default": _TRANSLATE,
    "translate": _TRANSLATE,
    "translate_nbest": Signature(
        ("text",),
        ("translations", "scores", "lengths"),
        "the translations of the beam, the best first; unfinished ones where none ended",
    ),
    "align": Signature(
        ("text",),
        (
            *("translation", "source_subwords", "target_subwords"),
            *("attention", "source_length", "target_length"),
        ),
        "the translation and what each of its sub-words attends to",
    ),
    "score": Signature(
        ("source", "target"), ("log_probability", "tokens"), "how probable a given translation is"
    ),
    "complete": Signature(
        ("source", "prefix"),
        ("translation", "score"),
        "the best translation that begins as it is told",
    ),
    "info": Signature(("text",), ("info",), "this model card as JSON, whatever the text"),
}
