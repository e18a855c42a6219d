"""From parallel text to batches: corpora, checks and the input pipeline."""
