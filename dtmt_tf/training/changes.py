"""Which settings of a begun run can change, and when: `--allow-changes` asks for them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dtmt_tf.errors import UserError, hint
from dtmt_tf.settings import as_lines

NEW_RUN = "To go on from these weights, begin a new run with --init-from and another --name."
OPTIMIZER_SETTING = "training.optimizer"
# settings of `data` by which sub-words are made: how text is cut, and how many there are
CUTTING = (
    *("vocabulary_kind", "joint_vocabulary", "normalization", "split_digits", "byte_fallback"),
    *("reserved_symbols", "character_coverage"),
)
SIZES = "source_vocab_size", "target_vocab_size"
# settings of `training` that say when a run has ended
END_SETTINGS = "max_steps", "patience", "stop_on"
MADE_BY = (  # settings that made an ended run's weights; its text is known by a hash, not by names
    *("training.", "model.", "conditions.corpus", "data.reverse", "data.max_tokens"),
    "data.sentences_per_batch",
)
IDLE_SETTINGS = (  # those of `training` that may change: what is kept, and how a machine trains
    *("training.average", "training.keep_", "training.log_steps", "training.precision"),
    *("training.validation_steps", "training.checkpoint_minutes", "training.accumulation_steps"),
)
SCORED_BY = (  # settings that move scores
    *("conditions.validation", "evaluation.", "decoding."),
    *("data.target_language", "data.max_length"),  # BLEU's words; where pairs are cut
)
UNMOVED = "evaluation.exact_match", "decoding.batch_size"  # but for these


def moves_scores(name: str) -> bool:
    """Whether a setting says how translations are searched or scored."""
    return name.startswith(SCORED_BY) and name not in UNMOVED


def check_names(allowed: Sequence[str], *settings: Mapping[str, Any]) -> None:
    """Raises a UserError if `--allow-changes` names a setting that does not exist."""
    known = {
        f"{section}.{name}"
        for each in settings
        for section, values in each.items()
        if isinstance(values, Mapping)
        for name in values
    }
    for name in allowed:
        if name not in known:
            raise UserError(f"--allow-changes: no setting is called {name!r}. {hint(name, known)}")


def reasons(
    changes: Mapping[str, str], before: Mapping[str, Any], now: Mapping[str, Any]
) -> list[str]:
    """Returns what changed conditions mean, a sentence or two each.

    Args:
        changes: As `settings.differences` gives them.
        before: The settings that the run began with.
        now: Those that it would go on with.
    """
    found = [
        f"The {text} text has changed."
        for text, name in (("training", "corpus"), ("validation", "validation"))
        if f"conditions.{name}" in changes
    ]
    if "conditions.slices" in changes:
        was, are = (each["conditions"]["slices"] for each in (before, now))
        devices = are // now["training"]["accumulation_steps"]
        same = was // devices
        found.append(
            f"Slices are devices times training.accumulation_steps: an update reads {was} batches "
            f"in this run, and would read {are}. "
            + (
                f"--set training.accumulation_steps={same} --allow-changes "
                "training.accumulation_steps makes the same updates on these devices."
                if same * devices == was
                else "Give the --devices that it began with."
            )
        )
    return found


def refuse_fixed(changes: Mapping[str, str]) -> None:
    """Raises a UserError if a setting changes that can not: what is there would not change.

    Args:
        changes: As `settings.differences` gives them.
    """
    if OPTIMIZER_SETTING in changes:
        raise UserError(
            f"{OPTIMIZER_SETTING} cannot change within a run: the saved state does not fit another "
            f"optimiser. {NEW_RUN}"
        )
    if cut := [name for name in changes if name in {f"data.{each}" for each in (*CUTTING, *SIZES)}]:
        raise UserError(
            f"{', '.join(cut)} cannot change within a run: its sub-words are made. Give the value "
            "that it began with, or begin a run with another --name."
        )


def refuse_late(changes: Mapping[str, str], folder: Path) -> None:
    """Raises a UserError if what made an ended run's weights changes: it makes no update more.

    Args:
        changes: As `settings.differences` gives them.
        folder: Of the run's checkpoints.
    """
    late = {
        name: change
        for name, change in changes.items()
        if name.startswith(MADE_BY) and not name.startswith(IDLE_SETTINGS)
    }
    if late:
        raise UserError(
            f"{folder} holds a run that has ended; these changes would have no effect:\n  "
            + "\n  ".join(as_lines(late))
            + "\nLeave them out, or train on with a larger training.max_steps. If the run ended "
            "early, also set training.patience=0. " + NEW_RUN
        )
