"""Any parallel text of the user's own."""

from dtmt_tf.config import DataConfig, Task, TrainingConfig

TASK = Task(
    name="custom",
    description="Your own parallel text: --train a.en a.de --dev b.en b.de --from en --to de",
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
    unavailable="Name the files, and all settings are sized from them:\n"
    "  --train train.en train.de --dev dev.en dev.de --from en --to de\n"
    "To set everything yourself, use --set data.train_source=train.en data.train_target=train.de "
    "...",
)
