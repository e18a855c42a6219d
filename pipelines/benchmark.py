"""Measures training, translation, input pipeline and export on this machine."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dtmt_tf.commands.common import main  # noqa: E402
from pipelines.benchmark.command import command  # noqa: E402

if __name__ == "__main__":
    main(command)
