"""Pipelines import each other as scripts do: by name, from their own folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "pipelines"))
