"""Any parallel text of the user's own."""

from dtmt_tf.config import DataConfig, Task, TrainingConfig

TASK = Task(
    name="custom",
    description="Your own parallel text: --set data.train_source=a.en data.train_target=a.de ...",
    model="dtmt_small",
    data=DataConfig(max_length=100),
    training=TrainingConfig(
        max_steps=20_000,
        learning_rate=1.25e-4,
        schedule_replicas=8,
        schedule_warmup=62,
        schedule_decay_start=40_000,
        schedule_decay_end=160_000,
        candidate_dropout_rate=0.2,
        validation_steps=500,
    ),
    unavailable="Name the files with --set, for example\n"
    "  --set data.train_source=train.en data.train_target=train.de \\\n"
    "        data.validation_source=dev.en data.validation_target=dev.de \\\n"
    "        data.source_language=en data.target_language=de",
)
