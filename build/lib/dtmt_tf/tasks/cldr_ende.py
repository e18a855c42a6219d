"""Dates, numbers, money, units and names: the embedded default, nothing to download."""

from dtmt_tf.config import DataConfig, EvaluationConfig, Task, TrainingConfig

TASK = Task(
    name="cldr_ende",
    description="English-German dates, numbers, money, units, names, rendered from Unicode CLDR",
    model="dtmt_tiny",
    data=DataConfig(
        source_language="en",
        target_language="de",
        corpus="cldr",
        joint_vocabulary=False,
        source_vocab_size=600,
        target_vocab_size=600,
        split_digits=True,
        max_length=64,
        max_tokens_per_batch=1024,
    ),
    training=TrainingConfig(
        max_steps=1000,
        embedding_dropout_rate=0.0,
        output_dropout_rate=0.0,
        candidate_dropout_rate=0.0,
        learning_rate=2.5e-4,
        schedule_replicas=8,
        schedule_warmup=12,
        schedule_decay_start=4000,
        schedule_decay_end=8000,
        validation_steps=250,
        patience=0,
        average_count=1,
        log_steps=20,
    ),
    evaluation=EvaluationConfig(exact_match=True),
)
