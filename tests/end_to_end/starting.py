"""Imports TensorFlow as commands do, which takes less; to be imported before what needs it."""

from dtmt_tf import startup

with startup.without(startup.UNUSED), startup.kept():
    import tensorflow  # noqa: F401
