"""How the user called this process: as `dtmt NAME`, or by a script in a checkout's `pipelines/`.

Help and messages speak of `dtmt train`; `as_called` says it the way the user did.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

COMMANDS = {  # in dtmt_tf.commands, a module each
    "train": "train a model, score it and export it; go on with a training",
    "translate": "translate text with an exported model",
    "runs": "list the runs that there are, and how far each has come",
    "evaluate": "score a run, or compare files of translations",
    "report": "write a page about a run: curves, scores, sentences, settings",
    "contrast": "compare probabilities of correct and of faulty translations",
    "probe": "tell what a run's encoder knows of a sentence",
    "export": "export a trained run as a SavedModel",
    "verify": "check that an exported model is whole",
    "pack": "pack an exported model for others, to be found by its name",
    "prepare": "check a corpus and write its training pairs as records",
    "data": "write a page about a corpus: lengths, faults, filters, samples",
    "vocab": "tell what sub-words there are, and how they fit a text",
    "ensemble": "make a run of trained runs that predict together",
    "distill": "train a model on the translations of teachers, which it trains",
    "backtranslate": "train a model on text of the target language too",
    "config": "compare settings of runs and files, or list all settings",
    "serve": "serve exported models on this machine, for development",
    "client": "translate text with a running TensorFlow Serving",
}
COMPLETING = "_ARGCOMPLETE"  # is set by a shell: the place of the command's name in the line
NAMED = re.compile(rf"(?<![\w/'\"-])dtmt ({'|'.join(COMMANDS)})\b(?![/'\"])")  # not in a path


def checkout() -> Path | None:
    """Returns the checkout whose `pipelines/` holds the script that runs, if one does."""
    script = Path(sys.argv[0])
    folder = script.resolve().parent
    return folder.parent if script.suffix == ".py" and folder.name == "pipelines" else None


def as_called(text: str) -> str:
    """Returns a text with `dtmt NAME` in the form in which the user calls commands."""
    if not (root := checkout()):
        return text
    folder = os.path.relpath(root / "pipelines")
    return NAMED.sub(lambda found: f"python {shlex.quote(f'{folder}/{found[1]}.py')}", text)


def runs_folder() -> Path:
    """Returns where runs lie unless told otherwise: in the checkout, else in the present folder."""
    return (checkout() or Path()) / "saved_models"


def again(without: str) -> str:
    """Returns the command line that started this process, less one of its options."""
    script = [os.path.relpath(sys.executable), sys.argv[0]] if checkout() else ["dtmt"]
    return shlex.join([*script, *(word for word in sys.argv[1:] if word != without)])
