"""Settings: frozen dataclasses that hold every default once, and `--set` on top of them.

An experiment is a task, a model and five sections. Tasks give `data`, `training`, `decoding` and
`evaluation`; presets give `model`; `--set section.name=value` comes last.
"""

from __future__ import annotations

import abc
import dataclasses
import difflib
import json
import math
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dtmt_tf.errors import UserError

PAD_ID, EOS_ID, UNK_ID = 0, 1, 2  # the first ids of every vocabulary


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise UserError(message)


@dataclass(frozen=True)
class ModelConfig(abc.ABC):
    """Base of every architecture's settings; see `dtmt_tf.models`."""

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
    corpus: str = "files"  # "files": the six paths below; "cldr": rendered by Babel
    train_source: str = ""  # plain, .gz or .xz; absolute, or below --data-dir
    train_target: str = ""
    validation_source: str = ""
    validation_target: str = ""
    test_source: str = ""
    test_target: str = ""
    joint_vocabulary: bool = True  # one sub-word model for both languages
    source_vocab_size: int = 8000  # the size of the joint vocabulary, if joint
    target_vocab_size: int = 8000  # unused, if joint
    normalization: str = "identity"  # a SentencePiece rule: identity, nfkc, nmt_nfkc, *_cf
    character_coverage: float = 1.0
    split_digits: bool = False  # each digit a sub-word of its own
    byte_fallback: bool = False  # unknown characters as bytes instead of <unk>
    max_length: int = 256  # sub-words with <eos>; longer training pairs are dropped
    max_tokens_per_batch: int = 4096  # per replica and accumulation step, padding included

    def __post_init__(self) -> None:
        _require(
            self.corpus in ("files", "cldr"),
            f"`data.corpus` should be files or cldr. Received: {self.corpus!r}.",
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
    embedding_dropout_rate: float = 0.3
    output_dropout_rate: float = 0.3  # the layer before prediction
    candidate_dropout_rate: float = 0.1  # every cell's candidate, fresh at each step
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
    validation_steps: int = 2000  # updates between validations
    patience: int = 20  # validations without a better BLEU before stopping; 0: never stop early
    keep_last: int = 5  # checkpoints
    keep_best: int = 5
    average: str = "best"  # weights used at the end: mean of the kept "best" or "last", or "none"
    average_count: int = 1  # how many of them
    log_steps: int = 100  # updates between TensorBoard records
    deterministic: bool = False  # TensorFlow's deterministic kernels

    def __post_init__(self) -> None:
        for name in (
            "label_smoothing",
            "embedding_dropout_rate",
            "output_dropout_rate",
            "candidate_dropout_rate",
            "adam_beta_1",
            "adam_beta_2",
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
        ):
            value = getattr(self, name)
            _require(value >= 1, f"`training.{name}` should be at least 1. Received: {value}.")
        for name in ("seed", "learning_rate_floor", "patience"):
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

    def __post_init__(self) -> None:
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

    tokenize: str = "13a"  # sacreBLEU tokenizer; "none" for text that is tokenised already
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
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    files: tuple[RemoteFile, ...] = ()
    unavailable: str = ""  # why the corpus can not be fetched, and what to do


@dataclass(frozen=True)
class Experiment:
    """All settings of one run."""

    task: str
    model_name: str
    model: ModelConfig
    data: DataConfig
    training: TrainingConfig
    decoding: DecodingConfig
    evaluation: EvaluationConfig


SECTIONS = ("model", "data", "training", "decoding", "evaluation")


def resolve(
    task: Task, model_name: str, model: ModelConfig, overrides: Iterable[str] = ()
) -> tuple[Experiment, dict[str, str]]:
    """Puts an experiment together.

    Args:
        task: The task.
        model_name: Name of the preset.
        model: The preset's settings.
        overrides: `section.name=value` texts, applied in order.

    Returns:
        The experiment, and for each setting where its value comes from.

    Raises:
        UserError: If an override is malformed, unknown or out of range.
    """
    sections: dict[str, Any] = {name: getattr(task, name) for name in SECTIONS[1:]}
    sections["model"] = model
    owners = dict.fromkeys(SECTIONS[1:], f"task {task.name}") | {"model": f"model {model_name}"}
    origins = {
        f"{name}.{item.name}": owners[name]
        if getattr(section, item.name) != item.default
        else "default"
        for name, section in sections.items()
        for item in dataclasses.fields(section)
    }
    experiment = Experiment(task=task.name, model_name=model_name, **sections)
    return with_overrides(experiment, origins, overrides)


def with_overrides(
    experiment: Experiment, origins: Mapping[str, str], overrides: Iterable[str]
) -> tuple[Experiment, dict[str, str]]:
    """Changes settings.

    Args:
        experiment: The settings so far.
        origins: Where each comes from.
        overrides: `section.name=value` texts, applied in order.

    Returns:
        The new experiment and origins.

    Raises:
        UserError: If an override is malformed, unknown or out of range.
    """
    sections = {name: getattr(experiment, name) for name in SECTIONS}
    origins = dict(origins)
    changes: dict[str, dict[str, Any]] = {}
    for override in overrides:
        key, value = parse_override(override, sections)
        section_name, _, name = key.partition(".")
        changes.setdefault(section_name, {})[name] = value
        origins[key] = "--set"
    for section_name, values in changes.items():
        sections[section_name] = dataclasses.replace(sections[section_name], **values)
    return dataclasses.replace(experiment, **sections), origins


def parse_override(text: str, sections: Mapping[str, Any]) -> tuple[str, Any]:
    """Reads one `section.name=value` by the type of the setting it names."""
    key, equals, value = text.partition("=")
    _require(bool(equals), f"--set takes section.name=value. Received: {text!r}.")
    known = [f"{s}.{item.name}" for s in sections for item in dataclasses.fields(sections[s])]
    if key not in known:
        guess = difflib.get_close_matches(key, known, 1)
        hint = f" Did you mean {guess[0]!r}?" if guess else " --show-config lists them all."
        raise UserError(f"Unknown setting {key!r}.{hint}")
    section_name, _, name = key.partition(".")
    kind = typing.get_type_hints(type(sections[section_name]))[name]
    return key, _parse_value(key, value, kind)


def _parse_value(key: str, value: str, kind: Any) -> Any:
    if isinstance(kind, types.UnionType):  # such as `int | None`
        if value.lower() == "none":
            return None
        kind = next(option for option in typing.get_args(kind) if option is not type(None))
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[value.lower()]
        if kind is int:
            return int(value.replace("_", ""))
        return kind(value)
    except (KeyError, ValueError):
        raise UserError(
            f"`{key}` should be of type {kind.__name__}. Received: {value!r}."
        ) from None


def to_dict(experiment: Experiment) -> dict[str, Any]:
    """Returns the experiment as plain values, ready for JSON."""
    return dataclasses.asdict(experiment)


def from_dict(values: Mapping[str, Any], model_class: type[ModelConfig]) -> Experiment:
    """Rebuilds what `to_dict` took apart.

    Raises:
        UserError: If a setting is unknown or missing, as in a file of another version.
    """
    kinds = {
        "model": model_class,
        "data": DataConfig,
        "training": TrainingConfig,
        "decoding": DecodingConfig,
        "evaluation": EvaluationConfig,
    }
    try:
        sections: dict[str, Any] = {
            name: kind(**{item.name: values[name][item.name] for item in dataclasses.fields(kind)})
            for name, kind in kinds.items()
        }
        for name, kind in kinds.items():
            kind(**values[name])  # refuses what it does not know
        return Experiment(task=values["task"], model_name=values["model_name"], **sections)
    except (KeyError, TypeError) as error:
        raise UserError(f"The saved settings do not fit this version: {error}.") from error


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Lists the settings in which two `to_dict` results differ: `name: old -> new`."""
    rows = []
    sections = [name for name, value in {**old, **new}.items() if isinstance(value, Mapping)]
    for section in sections:
        names = {**old.get(section, {}), **new.get(section, {})}
        for name in names:
            before, after = old.get(section, {}).get(name), new.get(section, {}).get(name)
            if before != after:
                rows.append(f"{section}.{name}: {before} -> {after}")
    return rows


def show(experiment: Experiment, origins: Mapping[str, str]) -> str:
    """Returns the settings as lines of `section.name = value  # origin`."""
    lines = [f"task = {experiment.task}", f"model = {experiment.model_name}"]
    for section, values in to_dict(experiment).items():
        if isinstance(values, dict):
            for name, value in values.items():
                key = f"{section}.{name}"
                lines.append(f"{key} = {json.dumps(value)}  # {origins[key]}")
    return "\n".join(lines)
