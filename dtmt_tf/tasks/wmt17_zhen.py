"""WMT17 Chinese-English, the corpus of Hao et al. (2019), for Transformers as they train them.

They follow Vaswani et al. (2017), but with 32K merges for each language: Chinese and English share
hardly a piece. Otherwise than there:

- they train on 20.6 million pairs; TFDS holds about 25, all that WMT17 offered;
- SentencePiece makes 32,000 sub-words for each language of raw text: 93 M parameters, 108 M there.
"""

import dataclasses

from dtmt_tf.config import DataConfig, Task
from dtmt_tf.tasks.vaswani import BASE, BIG

TASK = Task(
    name="wmt17_zhen",
    description="WMT17 Chinese-English, as Vaswani et al. train the base Transformer (8 GPUs)",
    model="transformer_base",
    replicas=8,
    data=DataConfig(
        source_language="zh",
        target_language="en",
        corpus="tfds",
        tfds_name="wmt17_translate/zh-en",  # newsdev2017 validates, newstest2017 tests
        joint_vocabulary=False,
        source_vocab_size=32_000,
        target_vocab_size=32_000,
        character_coverage=0.9995,
        max_length=256,
        max_tokens_per_batch=4096,
    ),
    training=BASE,
)
BIG_TASK = dataclasses.replace(
    TASK,
    name="wmt17_zhen_big",
    description="WMT17 Chinese-English, as they train the big Transformer",
    model="transformer_big",
    training=BIG,
)
