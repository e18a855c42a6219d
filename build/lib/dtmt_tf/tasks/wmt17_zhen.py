"""WMT17 Chinese-English, the corpus of Hao et al. (2019), for a Transformer as they train it.

They follow Vaswani et al. (2017) with 32K merges for each language. Otherwise than there:

- they train on 20.6 million pairs; TFDS holds about 25, all that WMT17 offered;
- SentencePiece makes 32,000 sub-words for each language of raw text;
- the rate rises to Vaswani's 7e-4 at update 4,000 as theirs does, then falls by schedule (17), at
  update 100,000 to 1.1e-4 (theirs: 1.4e-4);
- gradients are clipped at norm 5.
"""

from dtmt_tf.config import DataConfig, Task, TrainingConfig

TASK = Task(
    name="wmt17_zhen",
    description="WMT17 Chinese-English, the corpus of Hao et al. (2019), for a Transformer",
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
    training=TrainingConfig(
        max_steps=100_000,
        label_smoothing=0.1,
        embedding_dropout_rate=0.1,
        output_dropout_rate=0.0,  # theirs is on embeddings and between layers
        candidate_dropout_rate=0.1,
        learning_rate=8.75e-5,
        schedule_replicas=8,
        schedule_warmup=500,
        schedule_decay_start=32_000,
        schedule_decay_end=1_200_000,
        adam_beta_2=0.98,
        adam_epsilon=1e-9,
        validation_steps=2000,
    ),
)
