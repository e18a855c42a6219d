"""Facts about text files; each file is read once until it changes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from dtmt_tf.data.lines import FileFacts, facts_of
from dtmt_tf.errors import DAMAGED
from dtmt_tf.files import write_atomically
from dtmt_tf.folders import locked


class KnownTexts:
    """Hashes and numbers of lines.

    A file counts as unchanged while its size, its time and that of its inode stay as they were.

    Args:
        memory: The JSON file that remembers them.
    """

    def __init__(self, memory: Path) -> None:
        self.memory = memory

    def __call__(self, path: Path) -> FileFacts:
        """Returns the facts about a file, which is read if necessary.

        Raises:
            UserError: If the file is damaged.
            FileNotFoundError: If it is missing.
        """
        key = str(path.resolve())
        if path.is_symlink():  # its own name says how it is packed
            key += path.suffix
        with locked(self.memory.with_suffix(".lock")):
            known = self._remembered()
            status = path.stat()
            state = [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
            try:
                if known[key]["state"] == state:
                    return FileFacts(**known[key]["text"])
            except (KeyError, TypeError):  # not there, or not ours
                pass
            facts = facts_of(path)
            known[key] = {"state": state, "text": dataclasses.asdict(facts)}
            write_atomically(self.memory, json.dumps(known, indent=1).encode())
            return facts

    def _remembered(self) -> dict[str, Any]:
        """Returns what is known of files by path; nothing if the memory is missing or damaged."""
        try:
            known = json.loads(self.memory.read_text("utf-8"))
        except (FileNotFoundError, *DAMAGED):
            return {}
        return known if isinstance(known, dict) else {}
