"""Captions, everyday sentences, office software and news in one corpus, for a model of all four."""

from dtmt_tf.config import DataConfig, Task, TrainingConfig
from dtmt_tf.tasks.language_pair import language_pair
from dtmt_tf.tasks.multi30k import remote_files

NEWS = ["news-test2008", *(f"newstest{year}" for year in range(2009, 2013))]

TASK = Task(
    name="general_ende",
    description="English-German captions, everyday sentences, software and news together",
    model="dtmt_small",
    data=language_pair(
        DataConfig(source_vocab_size=16_000, max_length=150, max_tokens_per_batch=2560),
        "en",
        "de",
        train=[
            *("multi30k/train", "tatoeba_ende/train", "libreoffice_ende/train"),
            *(f"wmt/{name}" for name in NEWS),
        ],
        validation=["multi30k/val", "tatoeba_ende/dev", "libreoffice_ende/dev"],
        test=["multi30k/test_2016_flickr"],
        extra_tests=["wmt/newstest2013"],
    ),
    training=TrainingConfig(  # rates of an earlier recipe of Multi30k; not tuned
        max_steps=12_000,
        learning_rate=2e-4,
        schedule_replicas=8,
        schedule_warmup=31,
        schedule_decay_start=48_000,
        schedule_decay_end=96_000,
        candidate_dropout_rate=0.2,
        validation_steps=1000,
        patience=10,
        average_count=5,
        precision="bfloat16",
    ),
    files=remote_files("multi30k", ("en", "de")),
    unavailable="Below --data-dir belong, one sentence a line (plain, .gz or .xz):\n"
    "  tatoeba_ende/{train,dev}.{en,de}: see what --task tatoeba_ende says\n"
    "  libreoffice_ende/{train,dev}.{en,de}: translations of LibreOffice 7.4 (MPL-2.0), without "
    "tags\n"
    "  wmt/{news-test2008,newstest2009,...,newstest2013}.{en,de}: WMT's news tests, as in "
    "github.com/Helsinki-NLP/OPUS-MT-testsets",
)
