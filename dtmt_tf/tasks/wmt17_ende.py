"""WMT17 English-German with the settings of Miceli Barone et al. (2017).

Otherwise than there:

- validation is newstest2016, which TFDS has, and the test newstest2017. Theirs are newstest2013,
  and newstest2014, 2015 and 2016, of which one would choose the weights here: name their files by
  `data.validation_source`, `data.validation_target` and `data.extra_tests`;
- SentencePiece makes 90,000 joint sub-words of raw text, in place of 90,000 merges of truecased
  tokens, of which more are left with their threshold of 50: embeddings are smaller; to train on
  tokens, truecase them before and name the files (`data.corpus=files`);
- a validation searches with beam 12, theirs with 5; its cross entropy has what 50 sub-words hold of
  a longer pair, which they leave out;
- sentences of 50 and more sub-words, which training leaves out, are translated in parts, and
  a part's translation ends 150 sub-words after its length, not at 200;
- hypotheses that end take no place from those that go on.
"""

from dtmt_tf.config import DataConfig, DecodingConfig, Task, TrainingConfig

TASK = Task(
    name="wmt17_ende",
    description="WMT17 English-German, as Miceli Barone et al. (2017) train their deep models",
    model="rnn_bideep4x2",  # their best
    replicas=1,
    data=DataConfig(
        source_language="en",
        target_language="de",
        corpus="tfds",
        tfds_name="wmt17_translate/de-en",  # newstest2016 validates, newstest2017 tests
        joint_vocabulary=True,
        source_vocab_size=90_000,
        target_vocab_size=90_000,
        max_length=50,  # with <eos>: fewer than 50 sub-words
        sentences_per_batch=80,
    ),
    training=TrainingConfig(
        max_steps=1_000_000,  # patience ends it before
        label_smoothing=0.0,
        loss_unit="sentences",
        embedding_dropout_rate=0.0,
        output_dropout_rate=0.0,
        candidate_dropout_rate=0.0,
        schedule="constant",
        learning_rate=1e-4,
        adam_epsilon=1e-8,
        clip_norm=1.0,
        validation_steps=10_000,
        patience=10,
        stop_on="cross_entropy",  # the best BLEU then says which weights translate
    ),
    decoding=DecodingConfig(
        beam_size=12,
        length_penalty=1.0,
        length_offset=0.0,  # scores are divided by the length
        extra_length=150,  # at most 200 sub-words
    ),
)
