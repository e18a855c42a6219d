"""What `dtmt client` runs: lines through a TensorFlow Serving."""
