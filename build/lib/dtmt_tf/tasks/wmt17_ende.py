"""WMT17 English-German with the settings of Miceli Barone et al. (2017).

Otherwise than there:

- validation is newstest2016, which TFDS has, not newstest2013 (BLEU stops training, not entropy);
  `data.validation_source` and `data.validation_target` name other files, `data.extra_tests` more
  tests, such as their newstest2014 and 2015;
- SentencePiece makes 90,000 joint sub-words of raw text, in place of 90,000 merges of truecased
  tokens;
- sentences of more than 50 sub-words, which training leaves out, are translated in parts;
- a batch holds 80 sentences where they are longest, and more where they are shorter;
- scores are divided by ((5 + length) / 6), not by the length.
"""

from dtmt_tf.config import DataConfig, DecodingConfig, Task, TrainingConfig

TASK = Task(
    name="wmt17_ende",
    description="WMT17 English-German, as Miceli Barone et al. (2017) train their deep models",
    model="dtmt4",
    data=DataConfig(
        source_language="en",
        target_language="de",
        corpus="tfds",
        tfds_name="wmt17_translate/de-en",  # newstest2016 validates, newstest2017 tests
        joint_vocabulary=True,
        source_vocab_size=90_000,
        target_vocab_size=90_000,
        max_length=50,
        max_tokens_per_batch=80 * 50,
    ),
    training=TrainingConfig(
        max_steps=1_000_000,  # patience ends it before
        label_smoothing=0.0,
        embedding_dropout_rate=0.0,
        output_dropout_rate=0.0,
        candidate_dropout_rate=0.0,
        learning_rate=1e-4,  # from the first to the last update
        schedule_replicas=1,
        schedule_decay_start=1_000_000,
        schedule_decay_end=2_000_000,
        adam_epsilon=1e-8,
        clip_norm=1.0,
        validation_steps=10_000,
        patience=10,
    ),
    decoding=DecodingConfig(beam_size=12, length_penalty=1.0),
)
