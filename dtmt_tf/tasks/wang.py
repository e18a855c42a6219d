"""How Wang et al. (2017) train DeepLAU and DeepGRU: their three language pairs.

The vocabularies are the most frequent words of each language; others are <unk>. To replace these,
as the rows with "PosUnk" do, evaluate or export with --set decoding.replace_unknown=true, and
decoding.dictionary=FILE, or =train for one that is made of the training text. Their last row of
Table 2 is `dtmt ensemble` of eight.

Otherwise than there, how many validations without a better score halve the clipping norm, 5, and
how far they are apart are ours; they say "until the BLEU score does not change much". Words are
counted in at most a million lines. Test sentences of more than 80 words are translated in parts.

How the scores of NIST are made is told in `tasks/nist_zhen.py`; theirs are NIST's own BLEU, without
regard to case, whose tokenizer is sacreBLEU's 13a: in place of multi-bleu, give the command there
`--tokenize 13a --lowercase`. Those of WMT14 are multi-bleu on tokenised text, with case.
"""

import dataclasses

from dtmt_tf.config import DataConfig, DecodingConfig, EvaluationConfig, Task, TrainingConfig
from dtmt_tf.tasks.language_pair import language_pair
from dtmt_tf.tasks.nist_zhen import OF_LDC

SPECIAL = 3  # <pad>, <eos> and <unk>


def _words(source: int, target: int) -> DataConfig:
    """Returns what the corpora share, for so many words of each side."""
    return DataConfig(
        vocabulary_kind="word",
        joint_vocabulary=False,
        source_vocab_size=source + SPECIAL,
        target_vocab_size=target + SPECIAL,
        max_length=81,  # with <eos>
        sentences_per_batch=128,
    )


NIST_ZHEN = Task(
    name="nist_zhen_lau",
    description="NIST Chinese-English, as Wang et al. train DeepLAU; the files are your own",
    model="deep_lau_4_4",
    replicas=1,
    data=language_pair(
        _words(30_000, 30_000),
        "zh",
        "en",
        train=["nist/train"],
        validation=["nist/MT02"],
        extra_tests=[f"nist/MT0{year}" for year in (3, 4, 5, 6)],
    ),
    training=TrainingConfig(
        max_steps=1_000_000,  # patience ends it before
        label_smoothing=0.0,
        loss_unit="sentences",
        embedding_dropout_rate=0.0,
        output_dropout_rate=0.5,
        candidate_dropout_rate=0.0,
        optimizer="adadelta",
        adadelta_rho=0.95,
        adadelta_epsilon=1e-6,
        schedule="constant",
        learning_rate=1.0,
        clip_norm=1.0,
        clip_patience=5,
        validation_steps=2000,
    ),
    decoding=DecodingConfig(
        beam_size=10,
        length_penalty=1.0,
        length_offset=0.0,  # scores are divided by the length
    ),
    evaluation=EvaluationConfig(tokenize="13a", lowercase=True),
    unavailable=f"{OF_LDC}\n"
    "  nist/MT02.{zh,en}: NIST 2002, with the first of its four references, for validation\n"
    "  nist/{MT03,MT04,MT05,MT06}.{zh,en}: the tests, likewise",
)


def _wmt14(language: str, sizes: tuple[int, int], pairs: str) -> Task:
    """Returns the task of English and another language of WMT14."""
    folder = f"wmt14_en{language}"
    return dataclasses.replace(
        NIST_ZHEN,
        name=f"{folder}_lau",
        description=f"WMT14 en-{language} in words, as Wang et al. train DeepLAU; bring the files",
        data=language_pair(
            _words(*sizes),
            "en",
            language,
            train=[f"{folder}/train"],
            validation=[f"{folder}/newstest2012", f"{folder}/newstest2013"],
            test=[f"{folder}/newstest2014"],
        ),
        evaluation=EvaluationConfig(tokenize="multi-bleu"),
        unavailable="These models read words, so the text must be tokenised, say by Moses's "
        "tokenizer. Below --data-dir belong,\none sentence a line (plain, .gz or .xz):\n"
        f"  {folder}/train.{{en,{language}}}: WMT14's text; {pairs} pairs of it in the paper\n"
        f"  {folder}/{{newstest2012,newstest2013}}.{{en,{language}}}: both validate\n"
        f"  {folder}/newstest2014.{{en,{language}}}: the test",
    )


WMT14_ENDE = _wmt14("de", (120_000, 80_000), "4.5 million")
WMT14_ENFR = _wmt14("fr", (30_000, 30_000), "12 million")
