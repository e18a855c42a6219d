"""`python -m dtmt_tf` is the command `dtmt`."""

from dtmt_tf.cli import main

main()
