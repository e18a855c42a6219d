"""Settings: frozen dataclasses that hold every default once.

An experiment is a task, a model and five sections. Tasks give `data`, `training`, `decoding` and
`evaluation`; presets give `model`; `--set section.name=value` comes last: see `experiment`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dtmt_tf.errors import UserError

PAD_ID, EOS_ID, UNK_ID = 0, 1, 2  # the first ids of every vocabulary
NORMALIZATIONS = ("identity", "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf")


def base_language(code: str) -> str:
    """Returns `"zh"` for `"zh-TW"`, `"zh_Hans"` and `"ZH"`."""
    return code.lower().replace("_", "-").partition("-")[0]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise UserError(message)


def _require_precision(section: str, precision: str) -> None:
    _require(
        precision in ("float32", "bfloat16"),
        f"`{section}.precision` should be float32 or bfloat16. Received: {precision!r}.",
    )


@dataclass(frozen=True)
class ModelConfig(abc.ABC):
    """Base of every architecture's settings; see `dtmt_tf.models`."""

    @property
    def needs_joint_vocabulary(self) -> bool:
        """Whether source and target must have one vocabulary, because they share a table."""
        return False

    @abc.abstractmethod
    def build(
        self, source_vocab_size: int, target_vocab_size: int, training: TrainingConfig
    ) -> Any:
        """Returns the architecture's `TranslationModel`, its weights made."""


@dataclass(frozen=True)
class DataConfig:
    """Corpora, sub-words and batches."""

    source_language: str = ""  # ISO code, such as "en"
    target_language: str = ""
    reverse: bool = False  # the other way: what is said of source and target changes sides
    corpus: str = "files"  # "files": those below; "cldr": rendered by Babel; "tfds": tfds_name
    tfds_name: str = ""  # "wmt14_translate/de-en"; its splits are train, validation and test
    train_source: tuple[str, ...] = ()  # plain, .gz, .xz; from here, below --data-dir, or absolute
    train_target: tuple[str, ...] = ()  # as many: file n translates file n
    validation_source: tuple[str, ...] = ()
    validation_target: tuple[str, ...] = ()
    test_source: tuple[str, ...] = ()
    test_target: tuple[str, ...] = ()
    extra_tests: tuple[str, ...] = ()  # "wmt/newstest2013": that with .en and .de, if so named
    joint_vocabulary: bool = True  # one sub-word model for both languages
    source_vocab_size: int = 8000  # the size of the joint vocabulary, if joint
    target_vocab_size: int = 8000  # unused, if joint
    normalization: str = "identity"  # a rule of SentencePiece; one that ends in _cf lower-cases
    character_coverage: float = 1.0
    split_digits: bool = False  # each digit a sub-word of its own
    byte_fallback: bool = False  # unknown characters as bytes instead of <unk>
    max_length: int = 256  # sub-words with <eos>; longer training pairs are dropped
    max_tokens_per_batch: int = 4096  # per replica and accumulation step, padding included

    def __post_init__(self) -> None:
        _require(
            self.corpus in ("files", "cldr", "tfds"),
            f"`data.corpus` should be files, cldr or tfds. Received: {self.corpus!r}.",
        )
        named = self.tfds_name and self.source_language and self.target_language
        _require(
            bool(named) or self.corpus != "tfds",
            "`data.corpus=tfds` needs `data.tfds_name`, `data.source_language` and "
            f"`data.target_language`. Received: {self.tfds_name!r}, {self.source_language!r} and "
            f"{self.target_language!r}.",
        )
        _require(
            self.normalization in NORMALIZATIONS,
            f"`data.normalization` should be one of {', '.join(NORMALIZATIONS)}. "
            f"Received: {self.normalization!r}.",
        )
        _require(
            not self.extra_tests or all((self.source_language, self.target_language)),
            "`data.extra_tests` needs `data.source_language` and `data.target_language`, on which "
            f"its files end. Received: {self.source_language!r} and {self.target_language!r}.",
        )
        for name in ("source_vocab_size", "target_vocab_size", "max_length"):
            value = getattr(self, name)
            _require(value >= 4, f"`data.{name}` should be at least 4. Received: {value}.")
        _require(
            0.9 <= self.character_coverage <= 1,
            "`data.character_coverage` should be in [0.9, 1]. "
            f"Received: {self.character_coverage}.",
        )
        _require(
            self.max_tokens_per_batch >= 8,
            f"`data.max_tokens_per_batch` should be at least 8. "
            f"Received: {self.max_tokens_per_batch}.",
        )


@dataclass(frozen=True)
class TrainingConfig:
    """Loss, optimiser, schedule (17) of the paper, and when to stop."""

    seed: int = 1
    max_steps: int = 300_000  # optimiser updates
    accumulation_steps: int = 1  # micro-batches in one update, so that 1 device replaces n
    label_smoothing: float = 0.1  # spread evenly over the other words
    word_dropout_rate: float = 0.0  # words, of source and translation so far, that are not read
    embedding_dropout_rate: float = 0.3
    output_dropout_rate: float = 0.3  # the layer before prediction
    candidate_dropout_rate: float = 0.1  # every cell's candidate, fresh at each step
    subword_dropout_rate: float = 0.0  # merges left out when a training sentence is cut up
    r_drop_alpha: float = 0.0  # weight of R-Drop; above 0 each batch is read twice, twice the cost
    learning_rate: float = 1e-4  # lr0
    schedule_replicas: int = 8  # n of schedule (17), whatever devices are present
    schedule_warmup: int = 50  # p: the peak n * lr0 is reached after n * p updates
    schedule_decay_start: int = 200_000  # s: decay begins after s / n updates
    schedule_decay_end: int = 1_200_000  # e: lr0 / 2 is reached after e / n updates
    learning_rate_floor: float = 0.0  # the paper's formula never stops decaying
    adam_beta_1: float = 0.9
    adam_beta_2: float = 0.999
    adam_epsilon: float = 1e-6  # added to the uncorrected root, as in TensorFlow
    clip_norm: float = 5.0  # of the whole gradient, after the sum over replicas
    ema_decay: float = 0.0  # above 0, a moving average of the weights is what translates
    max_bad_steps: int = 3  # updates in a row, not finite, before going back at half the rate
    validation_steps: int = 2000  # updates between validations
    patience: int = 20  # validations without a better BLEU before stopping; 0: never stop early
    keep_last: int = 5  # checkpoints
    keep_best: int = 5
    average: str = "best"  # weights used at the end: mean of the kept "best" or "last", or "none"
    average_count: int = 1  # how many of them
    log_steps: int = 100  # updates between TensorBoard records
    precision: str = "float32"  # of products with weights in training; or "bfloat16"
    deterministic: bool = False  # TensorFlow's deterministic kernels

    @property
    def passes(self) -> int:
        """How often an update reads each sentence."""
        return 2 if self.r_drop_alpha else 1

    def __post_init__(self) -> None:
        for name in (
            "label_smoothing",
            "word_dropout_rate",
            "embedding_dropout_rate",
            "output_dropout_rate",
            "candidate_dropout_rate",
            "subword_dropout_rate",
            "adam_beta_1",
            "adam_beta_2",
            "ema_decay",
        ):
            value = getattr(self, name)
            _require(0 <= value < 1, f"`training.{name}` should be in [0, 1). Received: {value}.")
        for name in (
            "max_steps",
            "accumulation_steps",
            "schedule_replicas",
            "schedule_warmup",
            "validation_steps",
            "keep_last",
            "keep_best",
            "average_count",
            "log_steps",
            "max_bad_steps",
        ):
            value = getattr(self, name)
            _require(value >= 1, f"`training.{name}` should be at least 1. Received: {value}.")
        for name in ("seed", "learning_rate_floor", "patience", "r_drop_alpha"):
            value = getattr(self, name)
            _require(value >= 0, f"`training.{name}` should not be negative. Received: {value}.")
        for name in ("learning_rate", "adam_epsilon", "clip_norm"):
            value = getattr(self, name)
            _require(
                0 < value < math.inf, f"`training.{name}` should be positive. Received: {value}."
            )
        _require(
            0 <= self.schedule_decay_start < self.schedule_decay_end,
            "`training.schedule_decay_start` should be below `training.schedule_decay_end`. "
            f"Received: {self.schedule_decay_start} and {self.schedule_decay_end}.",
        )
        _require(
            self.average in ("best", "last", "none"),
            f"`training.average` should be best, last or none. Received: {self.average!r}.",
        )
        _require_precision("training", self.precision)
        kept = self.keep_best if self.average == "best" else self.keep_last
        _require(
            self.average == "none" or self.average_count <= kept,
            f"`training.average_count` should be at most `training.keep_{self.average}`. "
            f"Received: {self.average_count} and {kept}.",
        )


@dataclass(frozen=True)
class DecodingConfig:
    """Beam search."""

    beam_size: int = 4  # 1 is greedy
    length_penalty: float = 0.6  # alpha of ((5 + L) / 6)^alpha
    extra_length: int = 50  # a translation has at most this many sub-words more than its source
    batch_size: int = 32  # sentences
    precision: str = "float32"  # of products with weights in search; or "bfloat16"

    def __post_init__(self) -> None:
        _require_precision("decoding", self.precision)
        for name in ("beam_size", "batch_size"):
            value = getattr(self, name)
            _require(value >= 1, f"`decoding.{name}` should be at least 1. Received: {value}.")
        for name in ("length_penalty", "extra_length"):
            value = getattr(self, name)
            _require(
                0 <= value < math.inf,
                f"`decoding.{name}` should not be negative. Received: {value}.",
            )


@dataclass(frozen=True)
class EvaluationConfig:
    """How translations are scored."""

    tokenize: str = "auto"  # the target language's; or a sacreBLEU tokenizer; "none": tokenised
    lowercase: bool = False
    exact_match: bool = False  # also report the share of sentences translated to the letter


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
    replicas: int = 1  # devices times accumulation steps whose batches an update is meant to read
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    files: tuple[RemoteFile, ...] = ()
    unavailable: str = ""  # why the corpus can not be fetched, and what to do


def as_override(value: Any) -> str:
    """Returns a setting's value, as JSON has it, in the form that `--set` reads."""
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Lists the settings in which two `experiment.to_dict` results differ: `name: old -> new`."""
    rows = []
    sections = [name for name, value in {**old, **new}.items() if isinstance(value, Mapping)]
    for section in sections:
        names = {**old.get(section, {}), **new.get(section, {})}
        for name in names:
            before, after = old.get(section, {}).get(name), new.get(section, {}).get(name)
            if before != after:
                rows.append(f"{section}.{name}: {before} -> {after}")
    return rows
