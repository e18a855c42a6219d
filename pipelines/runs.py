"""`dtmt runs` from this checkout."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dtmt_tf.cli import run  # noqa: E402

if __name__ == "__main__":
    run("runs", sys.argv[1:])
