"""The cost of an experiment, told before it is trained."""
