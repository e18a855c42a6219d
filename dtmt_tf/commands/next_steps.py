"""What can be done with a model that was just exported, as commands to copy."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from dtmt_tf import caller

PAGE_PORT = 8080


def next_steps(folder: Path, split: str, data_dir: Path | None = None) -> str:
    """Returns commands for an exported run: translate, score, TensorBoard, server, web page.

    Args:
        folder: The run's folder.
        split: What it can be scored on.
        data_dir: Where the text was found, if a command has to be told.
    """
    from dtmt_tf.export.model_card import SERVED_AS, SERVER_IMAGE, SERVER_OPTIONS

    place = os.path.relpath(folder) if folder.resolve().is_relative_to(Path.cwd()) else str(folder)
    runs = os.path.dirname(os.path.dirname(place)) or "."  # where TensorBoard calls it task/name
    named = place if os.sep in place else os.path.join(".", place)
    mount = place if os.path.isabs(place) else f"$PWD/{place}"
    found = f" --data-dir {shlex.quote(str(data_dir))}" if data_dir else ""
    steps = [
        ("translate", [f"dtmt translate --model {shlex.quote(named)}"]),
        ("score it", [f"dtmt evaluate {shlex.quote(named)} --split {shlex.quote(split)}{found}"]),
        ("look at its training", [f"tensorboard --logdir {shlex.quote(runs)}"]),
        (
            "serve it",
            [
                f"docker run --rm -p 127.0.0.1:8501:8501 -e MODEL_NAME={SERVED_AS} \\",
                f'    -v "{mount}:/models/{SERVED_AS}" \\',
                f"    {SERVER_IMAGE} {SERVER_OPTIONS}",
            ],
        ),
    ]
    if checkout := caller.checkout():
        page = os.path.relpath(checkout / "pipelines" / "serving" / "page")
        server = f"python -m http.server -b 127.0.0.1 -d {shlex.quote(page)} {PAGE_PORT}"
        about = "show it on a web page; the server needs --rest_api_enable_cors_support=true"
        steps.append((about, [server]))
    lines = ["What to do next:"]
    for title, command in steps:
        lines += [f"  {title}", *(f"    {line}" for line in command)]
    return caller.as_called("\n".join(lines))
