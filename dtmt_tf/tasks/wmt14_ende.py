"""WMT14 English-German with DTMT's settings, and with those of Vaswani et al. for Transformers.

Training and `evaluate.py` report BLEU of detokenised text by tokenizer 13a. No number of DTMT's
paper is one: Tables 2 and 5 are multi-bleu on tokenised references, with case. The tokenizers cut
some text otherwise, so a 13a score is no evidence that 28.70 was reached or missed. Differences
between systems that are scored alike can be compared. For the paper's measure, tokenise references
and translations with Moses's tokenizer, then

    dtmt evaluate --tokenize multi-bleu --references FILE --hypotheses FILE

The paper cuts tokens by 32K merges of both languages; here SentencePiece makes 32,000 sub-words of
raw text, so that the exported model takes and returns plain text.

Lines of the run's translations, `train/test.txt`, are in the order of TFDS, not in that of
newstest2014's file: `dtmt prepare --task wmt14_ende --text FOLDER` writes the references in it.
"""

import dataclasses

from dtmt_tf.config import DataConfig, Task, TrainingConfig
from dtmt_tf.tasks.vaswani import BASE, BIG

TASK = Task(
    name="wmt14_ende",
    description="WMT14 English-German, the paper's settings (8 GPUs, multi-bleu 28.70)",
    model="dtmt4",
    replicas=8,
    data=DataConfig(
        source_language="en",
        target_language="de",
        corpus="tfds",
        tfds_name="wmt14_translate/de-en",  # newstest2013 validates, newstest2014 tests
        joint_vocabulary=True,
        source_vocab_size=32_000,
        target_vocab_size=32_000,
        max_length=256,
        max_tokens_per_batch=4096,
    ),
    training=TrainingConfig(
        max_steps=300_000,
        label_smoothing=0.1,
        embedding_dropout_rate=0.3,
        output_dropout_rate=0.3,
        candidate_dropout_rate=0.1,
        learning_rate=1e-4,
        schedule_replicas=8,
        schedule_warmup=50,
        schedule_decay_start=200_000,
        schedule_decay_end=1_200_000,
        validation_steps=2000,
    ),
)
TRANSFORMER = dataclasses.replace(
    TASK,
    name="wmt14_ende_base",
    description="WMT14 English-German, as Vaswani et al. train the base Transformer (8 GPUs)",
    model="transformer_base",
    training=BASE,
)
TRANSFORMER_BIG = dataclasses.replace(
    TASK,
    name="wmt14_ende_big",
    description="WMT14 English-German, as they train the big Transformer",
    model="transformer_big",
    training=BIG,
)
