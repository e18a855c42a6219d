"""How the user called this process: as `dtmt NAME`, or by a script in a checkout's `pipelines/`.

Help and messages speak of `dtmt train`; `as_called` says it the way the user did.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

COMMAND = re.compile(r"\bdtmt (train|evaluate|translate|export|prepare|ensemble|client)\b")


def checkout() -> Path | None:
    """Returns the checkout whose `pipelines/` holds the script that runs, if one does."""
    script = Path(sys.argv[0])
    folder = script.resolve().parent
    return folder.parent if script.suffix == ".py" and folder.name == "pipelines" else None


def as_called(text: str) -> str:
    """Returns a text with `dtmt NAME` in the form in which the user calls commands."""
    return COMMAND.sub(r"python pipelines/\1.py", text) if checkout() else text


def runs_folder() -> Path:
    """Returns where runs lie unless told otherwise: in the checkout, else in the present folder."""
    return (checkout() or Path()) / "saved_models"


def again(without: str) -> str:
    """Returns the command line that started this process, less one of its options."""
    script = [os.path.relpath(sys.executable), sys.argv[0]] if checkout() else ["dtmt"]
    return shlex.join([*script, *(word for word in sys.argv[1:] if word != without)])
