"""What is known of text files, each read once for as long as it does not change."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from dtmt_tf.data.corpus import Text, text_of
from dtmt_tf.files import locked, write_atomically


class KnownTexts:
    """Hashes and numbers of lines.

    A file counts as unchanged while its size, its time and that of its inode stay as they were.

    Args:
        record: The JSON file that remembers them.
    """

    def __init__(self, record: Path) -> None:
        self.record = record

    def __call__(self, path: Path) -> Text:
        """Returns what is known of a file, which is read if need be.

        Raises:
            UserError: If the file is missing or damaged.
        """
        path = path.absolute()
        with locked(self.record.with_suffix(".lock")):
            known = json.loads(self.record.read_text("utf-8")) if self.record.exists() else {}
            status = path.stat()
            state = [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
            entry = known.get(str(path), {})
            if entry.get("state") != state:
                entry = {"state": state, "text": dataclasses.asdict(text_of(path))}
                known[str(path)] = entry
                write_atomically(self.record, json.dumps(known, indent=1).encode())
            return Text(**entry["text"])
