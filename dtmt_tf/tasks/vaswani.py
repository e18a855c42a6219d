"""How Vaswani et al. (2017), "Attention Is All You Need", train the Transformer.

Otherwise than there: a batch is 8 x 4,096 tokens of the longer side, padding included, where they
have about 25,000 of each side; checkpoints that are averaged stand as many updates apart as theirs
made in 10 minutes; and there are 32,000 sub-words and three tables, as of DTMT, where they share
one table of about 37,000: the base model has 93 M parameters here, 65 M there. The positional
signal has the frequencies of tensor2tensor's code. The model of Hao et al. has 88 M, and 108 M from
Chinese: they do not say of how many sub-words of each language.
"""

import dataclasses
import math

from dtmt_tf.config import TrainingConfig

WARMUP = 4000


def _peak(model_dim: int) -> float:
    """Returns the highest rate of their Eq. (3)."""
    return 1 / math.sqrt(model_dim * WARMUP)


BASE = TrainingConfig(
    max_steps=100_000,
    label_smoothing=0.1,
    embedding_dropout_rate=0.1,
    output_dropout_rate=0.0,  # theirs is on embeddings and on what is added to a state
    candidate_dropout_rate=0.1,
    schedule="inverse_sqrt",
    peak_learning_rate=_peak(512),
    warmup_updates=WARMUP,
    adam_beta_2=0.98,
    adam_epsilon=1e-9,
    clip_norm=1e9,  # they do not clip
    validation_steps=1500,
    patience=0,
    average="last",
    average_count=5,
)
BIG = dataclasses.replace(
    BASE,
    max_steps=300_000,
    embedding_dropout_rate=0.3,
    candidate_dropout_rate=0.3,
    peak_learning_rate=_peak(1024),
    validation_steps=600,
    keep_last=20,
    average_count=20,
)
