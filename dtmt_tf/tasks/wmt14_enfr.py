"""WMT14 English-French with the paper's settings.

The paper trains on 36 million pairs; TFDS holds about 41, all that WMT14 offered. To prepare them
TFDS reads each file whole, the largest of 22 million lines: a matter of memory. As in `wmt14_ende`,
sub-words are of raw text, the paper's BLEU is multi-bleu on tokenised text, and no 13a score
compares with it.
"""

import dataclasses

from dtmt_tf.config import Task
from dtmt_tf.tasks.wmt14_ende import TASK as ENDE

TASK = Task(
    name="wmt14_enfr",
    description="WMT14 English-French, the paper's settings (8 GPUs)",
    model=ENDE.model,
    replicas=8,
    data=dataclasses.replace(ENDE.data, target_language="fr", tfds_name="wmt14_translate/fr-en"),
    training=dataclasses.replace(
        ENDE.training,
        max_steps=750_000,
        embedding_dropout_rate=0.2,
        output_dropout_rate=0.2,
        candidate_dropout_rate=0.1,
        schedule_decay_start=400_000,
        schedule_decay_end=3_000_000,
    ),
)
