"""What an experiment costs, before it is trained."""
