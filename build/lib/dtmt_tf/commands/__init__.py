"""The commands of `dtmt`, a module each."""
