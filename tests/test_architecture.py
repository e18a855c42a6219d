"""The import map of the package, read with `ast`, and rules that every module keeps."""

import ast
import functools
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "dtmt_tf"
OURS = {PACKAGE, "pipelines", "tests"}

# What each room or module directly below `dtmt_tf` may import of ours, itself aside. `room:Name`
# allows that name alone. A new room is added here, with thought.
ALLOWED = {
    "__init__": {"translator", "errors"},
    "errors": set(),
    "settings": {"errors"},
    "languages": {"errors"},
    "config": {"languages", "settings"},
    "settings_file": {"errors", "settings"},
    "sizing": {"errors", "languages"},
    "experiment": {"config", "errors", "languages", "settings", "settings_file"},
    "files": {"errors"},
    "folders": {"errors", "files"},
    "resumable_lines": {"errors", "files"},
    "batched_lines": {"machine", "resumable_lines", "terminal"},
    "refusals": {"errors"},
    "fetch": {"errors", "files", "terminal"},
    "pretrained": {"errors", "fetch", "files", "folders"},
    "quiet": set(),
    "machine": set(),
    "caller": set(),
    "startup": {"errors", "machine", "quiet"},
    "terminal": set(),
    "tasks": {"config"},
    "text": {"config", "errors", "files", "languages", "quiet"},
    "data": {
        *("config", "errors", "fetch", "files", "languages", "sizing", "text"),
        *("folders", "terminal"),
    },
    "cells": set(),
    "layers": {"cells"},
    "models": {"cells", "layers", "config", "settings"},
    "decoding": {"config", "errors"},
    "translator": {
        *("batched_lines", "config", "decoding", "errors", "languages", "pretrained", "quiet"),
        "startup",
    },
    "training": {
        *("config", "errors", "files", "models", "data", "settings"),
        *("layers:SeedStream", "cells:products_in"),
        "terminal",
    },
    "evaluation": {"errors", "files", "languages", "terminal"},
    "export": {
        *("config", "errors", "files", "folders", "settings", "text", "decoding", "models"),
        *("cells:products_in", "languages", "translator", "pretrained"),
    },
    "runs": {  # where the rooms meet; only commands and pipelines import it
        *("config", "experiment", "errors", "files", "resumable_lines", "machine", "tasks"),
        *("text", "data", "models", "decoding", "training", "evaluation", "export", "settings"),
        *("batched_lines", "folders", "languages", "sizing", "terminal"),
        *("translator:live_versions", "layers:masked_mean"),
    },
    "planning": {
        *("config", "experiment", "errors", "quiet", "startup", "tasks", "data", "models"),
        "training",
        "terminal",
    },
    "server": {"errors", "files", "quiet", "translator"},
    "client": {"errors", "quiet", "refusals", "resumable_lines", "terminal"},
    "commands": {
        *("batched_lines", "caller", "config", "experiment", "errors", "files", "startup", "tasks"),
        *("data", "models", "training", "evaluation", "export", "runs"),
        *("planning", "client", "resumable_lines", "settings", "settings_file", "translator"),
        *("folders", "sizing", "fetch", "pretrained", "text", "languages"),
        *("machine", "quiet", "refusals", "server", "terminal"),
    },
    "cli": {"caller", "commands", "errors"},
    "__main__": {"cli"},
}
# Rooms that know no framework but Keras: no tensorflow, no numpy.
KERAS_ALONE = {"cells", "layers", "models"}
# It does with TensorFlow, if that is the backend, what Keras has no operation for.
BEYOND_KERAS = {("dtmt_tf/cells/operations.py", "tensorflow")}

MODULES = sorted((ROOT / PACKAGE).rglob("*.py"))
PIPELINES = sorted((ROOT / "pipelines").rglob("*.py"))


def short(path):
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def room_of(path):
    return path.relative_to(ROOT / PACKAGE).parts[0].removesuffix(".py")


def imports(tree, package):
    """Yields `(line, dotted module, name or None)` of every import, wherever it stands.

    Args:
        tree: A parsed module.
        package: The dotted package it lies in, to resolve relative imports.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, None
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join([*parts, *([base] if base else [])])
            for alias in node.names:
                yield node.lineno, base, alias.name


def violations(tree, room, package):
    """Lists the imports a module of this room may not have, as `line: what`."""
    found = []
    for line, module, name in imports(tree, package):
        first, _, rest = module.partition(".")
        if first == PACKAGE:
            # `from dtmt_tf import files` and `from dtmt_tf.files import x` name the same room.
            other, _, _ = rest.partition(".") if rest else (name or "__init__", "", "")
            if other != room and not {other, f"{other}:{name}"} & ALLOWED[room]:
                found.append(f"{line}: {room} imports {other}" + (f" ({name})" if name else ""))
        elif first in OURS:
            found.append(f"{line}: {room} imports {first}")
        elif room in KERAS_ALONE and first != "keras" and first not in sys.stdlib_module_names:
            found.append(f"{line}: {room} imports {first}")
    return found


def module_violations(path):
    package = ".".join(path.relative_to(ROOT).with_suffix("").parts[:-1])
    allowed = {f"{room_of(path)} imports {name}" for of, name in BEYOND_KERAS if of == short(path)}
    found = violations(tree_of(path), room_of(path), package)
    return [each for each in found if each.partition(": ")[2] not in allowed]


def public_without_docstring(tree):
    """Names of public classes and functions of a module, and the module, that say nothing."""
    found = [] if ast.get_docstring(tree) else ["the module"]
    for node in tree.body:
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, kinds) and node.name[0] != "_" and not ast.get_docstring(node):
            found.append(node.name)
    return found


def faulty(faults_of, paths=MODULES):
    """Names of modules, and the faults of each, where there are any."""
    return {short(path): faults for path in paths if (faults := faults_of(path))}


def prints(tree):
    """Lines that call `print`."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]


def reads_of_json(tree):
    """Lines that read JSON within a `try` which damage of all kinds does not end in."""
    found = []
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.Try)):
        caught = {name.id for handler in node.handlers for name in ast.walk(handler.type or handler)
                  if isinstance(name, ast.Name)}  # fmt: skip
        calls = [
            each for part in node.body for each in ast.walk(part) if isinstance(each, ast.Call)
        ]
        found += [
            call.lineno
            for call in calls
            if ast.unparse(call.func) in ("json.load", "json.loads")
            and not {"DAMAGED", "RecursionError"} & caught
        ]
    return found


# The package.


def test_there_is_something_to_check():
    rooms = {room_of(path) for path in MODULES}
    assert {"cells", "layers", "models", "text", "data", "decoding", "config"} <= rooms


def test_every_room_is_in_the_map():
    assert {room_of(path) for path in MODULES} - set(ALLOWED) == set()


def test_imports_follow_the_map():
    assert faulty(module_violations) == {}


def test_the_map_allows_nothing_that_nobody_imports():
    used = {room: set() for room in ALLOWED}
    for path in MODULES:
        package = ".".join(path.relative_to(ROOT).with_suffix("").parts[:-1])
        for _, module, name in imports(tree_of(path), package):
            first, _, rest = module.partition(".")
            other = rest.partition(".")[0] if rest else name or "__init__"
            used[room_of(path)] |= {other, f"{other}:{name}"} if first == PACKAGE else set()
    assert {
        room: ALLOWED[room] - used[room] for room in ALLOWED if ALLOWED[room] - used[room]
    } == {}


def test_a_module_is_readable_in_one_sitting():
    def lines_too_many(path):
        return max(0, len(path.read_text(encoding="utf-8").splitlines()) - 400)

    assert faulty(lines_too_many, MODULES + PIPELINES) == {}


def test_public_names_have_docstrings():
    assert faulty(lambda path: public_without_docstring(tree_of(path))) == {}


def test_only_commands_print():
    silent = [path for path in MODULES if room_of(path) not in ("cli", "commands")]
    assert faulty(lambda path: prints(tree_of(path)), silent) == {}


def test_json_that_is_damaged_is_told_however_it_is_damaged():
    assert faulty(lambda path: reads_of_json(tree_of(path))) == {}


def test_the_map_has_no_circle():
    done = set()
    while len(done) < len(ALLOWED):
        free = {
            room
            for room, others in ALLOWED.items()
            if room not in done and {other.partition(":")[0] for other in others} <= done
        }
        assert free, f"circle among {set(ALLOWED) - done}"
        done |= free


# The checks themselves.


@pytest.mark.parametrize(
    "room, line, caught",
    [
        ("cells", "import tensorflow as tf", True),
        ("cells", "import numpy as np", True),
        ("cells", "from keras import ops", False),
        ("cells", "import abc", False),
        ("cells", "from dtmt_tf.config import ModelConfig", True),
        ("cells", "from dtmt_tf.cells.gates import Gates", False),
        ("cells", "from . import gates", False),
        ("cells", "from ..layers import attention", True),
        ("cells", "from .. import layers", True),
        ("layers", "from dtmt_tf.cells import GRUCell", False),
        ("layers", "from tensorflow.keras import layers", True),
        ("layers", "from dtmt_tf import text", True),
        ("models", "def f():\n    import tensorflow", True),
        ("models", "import dtmt_tf.decoding.beam_search", True),
        ("models", "from dtmt_tf.data.batch import Batch", True),
        ("models", "from dtmt_tf.training import x", True),
        ("decoding", "from dtmt_tf.models import DTMT", True),
        ("decoding", "from dtmt_tf.cells import LGRUCell", True),
        ("decoding", "from dtmt_tf.config import DecodingConfig", False),
        ("decoding", "import tensorflow as tf", False),
        ("text", "from dtmt_tf.training import loss", True),
        ("data", "from dtmt_tf.models import MODELS", True),
        ("tasks", "from dtmt_tf.data.cldr import PHRASES", True),
        ("tasks", "from dtmt_tf.config import Task", False),
        ("training", "from dtmt_tf.layers import SeedStream", False),
        ("training", "from dtmt_tf.layers import Readout", True),
        ("training", "from dtmt_tf.layers import SeedStream, Readout", True),
        ("training", "from dtmt_tf.decoding import beam_search", True),
        ("training", "from dtmt_tf.text import Vocabulary", True),
        ("evaluation", "from dtmt_tf.models import DTMT", True),
        ("export", "from dtmt_tf.training.checkpoint import Checkpoint", True),
        ("export", "from dtmt_tf.evaluation import Scores", True),
        ("export", "from pipelines import train", True),
        ("errors", "import dtmt_tf", True),
        ("config", "from tests.reference import numpy_dtmt", True),
        ("files", "from dtmt_tf.config import DataConfig", True),
    ],
)
def test_a_forbidden_import_is_caught(room, line, caught):
    assert bool(violations(ast.parse(line), room, f"{PACKAGE}.{room}")) == caught


def test_a_missing_docstring_and_a_print_are_caught():
    code = '"""Doc."""\ndef f():\n    print(1)\nclass C:\n    """Doc."""\ndef _g(): pass\n'
    assert public_without_docstring(ast.parse(code)) == ["f"]
    assert public_without_docstring(ast.parse("x = 1")) == ["the module"]
    assert prints(ast.parse(code)) == [3]
    assert prints(ast.parse("logger.info('print(1)')")) == []


def test_json_that_is_read_without_regard_to_depth_is_caught():
    code = "try:\n    x = json.loads(y)\nexcept {}:\n    pass"
    assert reads_of_json(ast.parse(code.format("ValueError"))) == [2]
    assert reads_of_json(ast.parse(code.format("(OSError, *DAMAGED)"))) == []
