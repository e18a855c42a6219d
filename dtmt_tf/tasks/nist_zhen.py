"""NIST Chinese-English with the paper's settings; LDC's corpora are the user's own.

The paper scores without case, on tokenised text, by `multi-bleu.perl` against four references at
once, and takes the mean of five sets. Training scores against the first reference alone. All four
take the files that `evaluate.py` has made of the splits MT02 to MT08, such as `train/MT02.txt`:

    dtmt evaluate --tokenize multi-bleu --lowercase
        --references MT02.en MT02.en1 MT02.en2 MT02.en3 --hypotheses MT02.txt
        --references MT03.en MT03.en1 MT03.en2 MT03.en3 --hypotheses MT03.txt
"""

from dtmt_tf.config import DataConfig, EvaluationConfig, Task, TrainingConfig
from dtmt_tf.tasks.language_pair import language_pair

OF_LDC = """\
LDC licenses these corpora; none can be downloaded. Below --data-dir belong, one sentence a line \
(plain, .gz or .xz),
Chinese cut into words, English tokenised and in lower case:
  nist/train.{zh,en}: the 1.25 million pairs from LDC"""

TASK = Task(
    name="nist_zhen",
    description="NIST Chinese-English, the paper's settings (2 GPUs); the files are your own",
    model="dtmt4",
    replicas=2,
    data=language_pair(
        DataConfig(
            joint_vocabulary=False,
            source_vocab_size=40_067,  # what 30K merges came to in the authors' release
            target_vocab_size=29_405,
            max_length=128,
            max_tokens_per_batch=4096,
        ),
        "zh",
        "en",
        train=["nist/train"],
        validation=["nist/MT06"],
        extra_tests=[f"nist/MT0{year}" for year in (2, 3, 4, 5, 8)],
    ),
    training=TrainingConfig(
        max_steps=120_000,  # the authors' script
        label_smoothing=0.1,
        embedding_dropout_rate=0.5,
        output_dropout_rate=0.5,
        candidate_dropout_rate=0.3,
        learning_rate=1e-3,
        schedule_replicas=2,
        schedule_warmup=500,
        schedule_decay_start=8_000,
        schedule_decay_end=64_000,
        validation_steps=2000,
    ),
    evaluation=EvaluationConfig(tokenize="multi-bleu", lowercase=True),
    unavailable=f"{OF_LDC}\n"
    "  nist/MT06.{zh,en}: NIST 2006, with the first of its four references, for validation\n"
    "  nist/{MT02,MT03,MT04,MT05,MT08}.{zh,en}: the tests, likewise",
)
