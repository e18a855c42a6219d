"""Writes the generated parts of the pages, and the pictures, from the records of finished runs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dtmt_tf.cli import start  # noqa: E402

if __name__ == "__main__":
    start("pipelines.papers.report")
