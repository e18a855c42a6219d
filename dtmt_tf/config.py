"""Settings: frozen dataclasses that hold every default once.

An experiment is a task, a model and six sections: tasks give `data`, `training`, `decoding`,
`export` and `evaluation`, presets `model`, and `--set section.name=value` overrides all.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any

from dtmt_tf.languages import check_form
from dtmt_tf.settings import Section, require, setting

FILTERS = ("identical", "length_ratio", "script", "language", "duplicates")
PAD_ID, EOS_ID, UNK_ID = 0, 1, 2  # the first ids of every vocabulary
SPECIAL_PIECES = "<pad>", "<eos>", "<unk>"  # their names
BLANK, UNKNOWN = "\u2581", "\u2047"  # what begins a sub-word after a blank, what <unk> is read as


@dataclass(frozen=True)
class ModelConfig(Section, abc.ABC):
    """Base of every architecture's settings; see `dtmt_tf.models`."""

    section = "model"
    tied_embeddings = "none"  # a setting of the architectures that can tie them

    @property
    def needs_joint_vocabulary(self) -> bool:
        """Whether source and target must have one vocabulary, because they share a table."""
        return self.tied_embeddings == "all"

    @property
    def unread(self) -> dict[str, str]:
        """Settings that change nothing beside the others, each with the reason."""
        return {}

    @abc.abstractmethod
    def build(
        self, source_vocab_size: int, target_vocab_size: int, training: TrainingConfig
    ) -> Any:
        """Returns the architecture's `TranslationModel`, its weights made."""


@dataclass(frozen=True)
class DataConfig(Section):
    """Corpora, sub-words and batches."""

    section = "data"

    source_language: str = setting("", "language code of the source, such as en")
    target_language: str = setting("", "language code of the target, such as de")
    reverse: bool = setting(False, "the other way: source and target change sides")
    corpus: str = setting(
        "files",
        "files: those below; cldr: rendered by Babel; tfds: data.tfds_name",
        choices=("files", "cldr", "tfds"),
    )
    tfds_name: str = setting("", "such as wmt14_translate/de-en; has train, validation, test")
    train_source: tuple[str, ...] = setting(
        (), "plain, .gz or .xz; from here, below --data-dir, or absolute"
    )
    train_target: tuple[str, ...] = setting((), "as many files: file n translates file n")
    validation_source: tuple[str, ...] = setting((), "files whose score says when to stop")
    validation_target: tuple[str, ...] = setting((), "as many files: file n translates file n")
    held_out: int = setting(
        0,
        "training pairs kept for validation where no files are named for it",
        at_least=0,
        at_most=1_000_000,
    )
    filters: tuple[str, ...] = setting((), "drops training pairs; one or more", choices=FILTERS)
    max_length_ratio: float = setting(
        4.0, "of length_ratio: times a side may be longer than usual", above=1, at_most=1000
    )
    test_source: tuple[str, ...] = setting((), "files that are scored at the end")
    test_target: tuple[str, ...] = setting((), "as many files: file n translates file n")
    extra_tests: tuple[str, ...] = setting(
        (), "wmt/newstest2013: the files of that name with .en and .de"
    )
    vocabulary_kind: str = setting(
        "bpe",
        "bpe: sub-words; word: the most frequent words, <unk> for others",
        choices=("bpe", "word"),
    )
    joint_vocabulary: bool = setting(True, "one sub-word model for both languages")
    source_vocab_size: int = setting(
        8000, "sub-words of the source; of both, if joint", at_least=4, at_most=1_000_000
    )
    target_vocab_size: int = setting(
        8000, "sub-words of the target; unused, if joint", at_least=4, at_most=1_000_000
    )
    normalization: str = setting(
        "identity",
        "rule of SentencePiece; one that ends in _cf lower-cases",
        choices=("identity", "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf"),
    )
    character_coverage: float = setting(
        1.0, "share of the text's characters that sub-words spell", at_least=0.9, at_most=1
    )
    split_digits: bool = setting(False, "each digit is a sub-word of its own")
    byte_fallback: bool = setting(False, "unknown characters become bytes, not <unk>")
    reserved_symbols: tuple[str, ...] = setting(
        (), "tags such as <2de>: a sub-word each, wherever they stand"
    )
    max_length: int = setting(
        256,
        "most sub-words with <eos>; longer training pairs are dropped",
        at_least=4,
        at_most=10_000,
    )
    max_tokens_per_batch: int = setting(
        4096, "per replica and accumulation step, padding included", at_least=8, at_most=10_000_000
    )
    sentences_per_batch: int = setting(
        0,
        "above 0: pairs a replica and micro-batch, not max_tokens_per_batch",
        at_least=0,
        at_most=1_000_000,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_form("data.source_language", self.source_language)
        check_form("data.target_language", self.target_language)
        tags = self.reserved_symbols
        require(
            self.vocabulary_kind == "bpe" or not (self.byte_fallback or self.split_digits or tags),
            "`data.byte_fallback`, `data.split_digits` and `data.reserved_symbols` need "
            "`data.vocabulary_kind=bpe`.",
        )
        for tag in tags:
            is_whole = len(tag) > 1 and tag.split() == [tag] and BLANK not in tag
            require(
                is_whole and tag not in SPECIAL_PIECES and tags.count(tag) == 1,
                "`data.reserved_symbols` should be different texts of two characters or more "
                f"without blanks, none of them {', '.join(SPECIAL_PIECES)}. Received: {tag!r}.",
            )
        named = self.tfds_name and self.source_language and self.target_language
        require(
            named or self.corpus != "tfds",
            "`data.corpus=tfds` needs `data.tfds_name`, `data.source_language` and "
            f"`data.target_language`. Received: {self.tfds_name!r}, {self.source_language!r} and "
            f"{self.target_language!r}.",
        )
        require(
            not self.extra_tests or len({"", self.source_language, self.target_language}) == 3,
            "`data.extra_tests` needs `data.source_language` and `data.target_language`, two codes "
            f"to end in. Received: {self.source_language!r} and {self.target_language!r}.",
        )

    def batch_size(self, length: int) -> int:
        """Returns how many pairs of a length one micro-batch holds, at least one."""
        return self.sentences_per_batch or max(1, self.max_tokens_per_batch // length)

    @property
    def batch_limit(self) -> str:
        """What one micro-batch holds, in words."""
        sentences = self.sentences_per_batch
        return f"{sentences:,} sentences" if sentences else f"{self.max_tokens_per_batch:,} tokens"


def _rate(default: float, meaning: str) -> Any:
    """Returns the field of a share of what there is, never all of it."""
    return setting(default, meaning, at_least=0, below=1)


def _precision(where: str) -> Any:
    """Returns the field of the precision of products with weights."""
    meaning = f"of products with weights in {where}"
    return setting("float32", meaning, choices=("float32", "bfloat16"))


@dataclass(frozen=True)
class TrainingConfig(Section):
    """Loss, optimiser, schedule, and when to stop."""

    section = "training"

    seed: int = setting(1, "fixes weights, order of batches and dropout", at_least=0)
    max_steps: int = setting(300_000, "optimiser updates", at_least=1)
    accumulation_steps: int = setting(
        1, "micro-batches in one update, so that 1 device replaces n", at_least=1, at_most=100_000
    )
    label_smoothing: float = _rate(0.1, "share of the target spread evenly over the other tokens")
    loss_unit: str = setting(
        "tokens", "what an update's loss is divided by", choices=("tokens", "sentences")
    )
    word_dropout_rate: float = _rate(
        0.0, "share of tokens, of source and translation so far, not read"
    )
    embedding_dropout_rate: float = _rate(0.3, "share of the elements of embeddings left out")
    output_dropout_rate: float = _rate(0.3, "share of the layer before prediction left out")
    candidate_dropout_rate: float = _rate(
        0.1, "share of cell candidates left out; Transformers: of sub-layer results"
    )
    subword_dropout_rate: float = _rate(
        0.0, "share of merges left out when a training sentence is cut up"
    )
    r_drop_alpha: float = setting(
        0.0,
        "weight of R-Drop; above 0 each batch is read twice, at twice the cost",
        at_least=0,
        at_most=1000,
    )
    schedule: str = setting(
        "dtmt",
        "how the rate changes; dtmt: formula (17) of the paper",
        choices=("dtmt", "constant", "inverse_sqrt", "peak"),
    )
    learning_rate: float = setting(
        1e-4, "lr0 of schedule (17); the rate of schedule constant", above=0, at_most=1000
    )
    schedule_replicas: int = setting(8, "n of schedule (17), whatever the devices", at_least=1)
    schedule_warmup: int = setting(50, "p: the peak n * lr0 comes after n * p updates", at_least=1)
    schedule_decay_start: int = setting(200_000, "s: decay begins after s / n updates", at_least=0)
    schedule_decay_end: int = setting(
        1_200_000, "e: lr0 / 2 is reached after e / n updates", at_least=1
    )
    learning_rate_floor: float = setting(
        0.0,
        "smallest rate of schedule (17), whose formula never stops decaying",
        at_least=0,
        at_most=1000,
    )
    peak_learning_rate: float = setting(
        8e-4, "highest rate of schedules inverse_sqrt and peak", above=0, at_most=1000
    )
    warmup_updates: int = setting(
        400, "updates until the rate is highest, of inverse_sqrt and peak", at_least=1
    )
    decay_start_updates: int = setting(25_000, "schedule peak: updates before decay", at_least=0)
    decay_end_updates: int = setting(150_000, "schedule peak: updates until decay ends", at_least=1)
    final_learning_rate: float = setting(
        5e-5, "schedule peak: the rate after decay", above=0, at_most=1000
    )
    optimizer: str = setting("adam", "what makes the updates", choices=("adam", "adadelta"))
    adam_beta_1: float = _rate(0.9, "decay of the gradient's moving average")
    adam_beta_2: float = _rate(0.999, "decay of the squared gradient's moving average")
    adam_epsilon: float = setting(
        1e-6, "added to the uncorrected root, as in TensorFlow", above=0, at_most=1
    )
    adam_epsilon_corrected: bool = setting(False, "epsilon is added to the corrected root instead")
    adadelta_rho: float = _rate(0.95, "decay of Adadelta's moving averages")
    adadelta_epsilon: float = setting(1e-6, "added under both square roots", above=0, at_most=1)
    clip_norm: float = setting(5.0, "longest gradient of an update, per loss_unit", above=0)
    clip_patience: int = setting(
        0, "above 0: clip_norm halves after so many validations without a gain", at_least=0
    )
    ema_decay: float = _rate(0.0, "above 0, a moving average of the weights is what translates")
    frozen: tuple[str, ...] = setting(
        (), "weights that stay as they are, such as encoder/*; * is anything"
    )
    max_bad_steps: int = setting(
        3, "updates in a row, not finite, before going back at half the rate", at_least=1
    )
    validation_steps: int = setting(2000, "updates between validations", at_least=1)
    patience: int = setting(
        20, "validations without a better score before stopping; 0: never stop", at_least=0
    )
    stop_on: str = setting(
        "bleu",
        "the validation score that patience and clip_patience count",
        choices=("bleu", "cross_entropy"),
    )
    checkpoint_minutes: float = setting(
        10.0,
        "longest time between checkpoints; 0: only where validated",
        at_least=0,
        at_most=100_000,
    )
    keep_last: int = setting(5, "newest validated checkpoints kept", at_least=1, at_most=1000)
    keep_best: int = setting(5, "those of the best BLEU that are kept", at_least=1, at_most=1000)
    average: str = setting(
        "best",
        "weights used at the end: mean of the kept best or last, or none",
        choices=("best", "last", "none"),
    )
    average_count: int = setting(1, "how many checkpoints are averaged", at_least=1, at_most=1000)
    log_steps: int = setting(100, "updates between values in TensorBoard", at_least=1)
    precision: str = _precision("training")
    deterministic: bool = setting(False, "TensorFlow's deterministic kernels")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.schedule_decay_start < self.schedule_decay_end,
            "`training.schedule_decay_start` should be below `training.schedule_decay_end`. "
            f"Received: {self.schedule_decay_start} and {self.schedule_decay_end}.",
        )
        peak = self.schedule == "peak"
        require(
            not peak or self.warmup_updates <= self.decay_start_updates < self.decay_end_updates,
            "`training.warmup_updates` should be at most `training.decay_start_updates`, and that "
            f"below `training.decay_end_updates`. Received: {self.warmup_updates}, "
            f"{self.decay_start_updates} and {self.decay_end_updates}.",
        )
        require(
            not peak or self.final_learning_rate <= self.peak_learning_rate,
            "`training.final_learning_rate` should be at most `training.peak_learning_rate`. "
            f"Received: {self.final_learning_rate} and {self.peak_learning_rate}.",
        )
        kept = self.keep_best if self.average == "best" else self.keep_last
        require(
            self.average == "none" or self.average_count <= kept,
            f"`training.average_count` should be at most `training.keep_{self.average}`. "
            f"Received: {self.average_count} and {kept}.",
        )

    @property
    def passes(self) -> int:
        """How often an update reads each sentence."""
        return 2 if self.r_drop_alpha else 1


@dataclass(frozen=True)
class DecodingConfig(Section):
    """Beam search."""

    section = "decoding"

    beam_size: int = setting(4, "hypotheses; 1 is greedy", at_least=1, at_most=10_000)
    length_penalty: float = setting(0.6, "alpha of ((c+L) / (c+1))^alpha", at_least=0, at_most=10)
    length_offset: float = setting(5.0, "c; 0 with alpha 1: mean score", at_least=0, at_most=1000)
    extra_length: int = setting(
        50, "sub-words by which a translation may exceed its source", at_least=0, at_most=10_000
    )
    min_length: int = setting(0, "fewest sub-words of a translation", at_least=0, at_most=1000)
    batch_size: int = setting(32, "sentences translated together", at_least=1, at_most=100_000)
    precision: str = _precision("search")
    shortlist: int = setting(0, "tried per source sub-word, and frequent ones; 0: all", at_least=0)
    prune: float = setting(0.0, "drops hypotheses so many nats below the best; 0: none", at_least=0)
    lookahead: int = setting(10, "a search ends if so many sub-words more gain nothing", at_least=0)
    replace_unknown: bool = setting(
        False, "each <unk> becomes the translated or copied word it attends to most"
    )
    dictionary: str = setting("", "for replace_unknown: a file (word, tab, word), or train")


@dataclass(frozen=True)
class ExportConfig(Section):
    """What an exported model keeps of its weights, and what a request may ask of it at most."""

    section = "export"

    quantize: str = setting(
        "none", "type that an export keeps matrices in", choices=("none", "bfloat16", "int8")
    )
    max_lines: int = setting(128, "lines of a request", at_least=1)
    max_bytes: int = setting(10_000, "bytes of a line", at_least=1)
    max_parts: int = setting(32, "parts of a line longer than data.max_length", at_least=1)
    max_tokens: int = setting(
        10_000, "tokens that a request may make the model write, or score", at_least=1
    )


@dataclass(frozen=True)
class EvaluationConfig(Section):
    """How translations are scored."""

    section = "evaluation"

    tokenize: str = setting(
        "auto", "auto: by target language; a sacreBLEU tokenizer; none; or multi-bleu"
    )
    lowercase: bool = setting(False, "score without regard to case")
    exact_match: bool = setting(False, "also the share of sentences translated to the letter")


@dataclass(frozen=True)
class RemoteFile:
    """A file of a public data set.

    Args:
        path: Where it lies below `--data-dir`; there it may also be packed (.gz, .xz).
        url: Where it is downloaded from.
        sha256: Hash of the text, unpacked.
    """

    path: str
    url: str
    sha256: str


@dataclass(frozen=True)
class Task:
    """A corpus with the settings that go with it."""

    name: str
    description: str
    model: str  # recommended preset
    data: DataConfig
    training: TrainingConfig
    replicas: int = 0  # devices times accumulation steps an update is meant to read; 0: any
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    files: tuple[RemoteFile, ...] = ()
    unavailable: str = ""  # why the corpus can not be fetched, and what to do
