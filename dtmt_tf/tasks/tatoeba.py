"""Tatoeba: everyday sentences, as manythings.org/anki packs them."""

import dataclasses

from dtmt_tf.config import DataConfig, Task, TrainingConfig
from dtmt_tf.tasks.language_pair import language_pair

LANGUAGES = {"de": ("German", "deu"), "fr": ("French", "fra"), "zh": ("Chinese", "cmn")}

DATA = DataConfig(source_vocab_size=8000, max_length=80, max_tokens_per_batch=2560)
CHINESE = dataclasses.replace(DATA, character_coverage=0.9995, max_tokens_per_batch=1280)

# The peak rate of an earlier recipe of Multi30k; neither it nor the schedule is tuned here
TRAINING = TrainingConfig(
    max_steps=10_000,
    learning_rate=2e-4,
    schedule_replicas=8,
    schedule_warmup=31,
    schedule_decay_start=40_000,
    schedule_decay_end=80_000,
    candidate_dropout_rate=0.2,
    validation_steps=500,
    patience=0,
    average="none",  # nothing is chosen by the scores, as there is no test split
    precision="bfloat16",
)


def _task(target: str, data: DataConfig = DATA, training: TrainingConfig = TRAINING) -> Task:
    language, code = LANGUAGES[target]
    folder = f"tatoeba_en{target}"
    return Task(
        name=folder,
        description=f"English-{language} everyday sentences; no test split, scored on validation",
        model="dtmt_small",
        data=language_pair(
            data, "en", target, train=[f"{folder}/train"], validation=[f"{folder}/dev"]
        ),
        training=training,
        unavailable=f"https://www.manythings.org/anki/{code}-eng.zip holds the sentences (Tatoeba, "
        "CC BY 2.0 FR, English,\na tab, the translation) but changes with time, so it has no "
        "checksum here. Put one sentence a line\n"
        f"at {folder}/train.en, train.{target}, dev.en and dev.{target} below --data-dir (plain, "
        ".gz or .xz).\nIt is sorted by length: shuffle it, and let no English sentence of dev "
        "stand in train as well.",
    )


TATOEBA = (
    _task("de"),
    _task("fr"),
    _task(
        "zh",
        CHINESE,
        dataclasses.replace(
            TRAINING,
            max_steps=2000,  # a seventh of the sentences
            schedule_decay_start=8_000,
            schedule_decay_end=16_000,
            ema_decay=0.998,
        ),
    ),
)
