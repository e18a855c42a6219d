"""Settings sized from the text that a model is trained on: rules, each with its reason.

`size` is a pure function of what is known about the text and the machine. `RULES` is the table of
what it sets, in that order: a rule may use what the rules before it chose, and what the user set.
Each rule's docstring says where its numbers come from. EXPERIMENTS.md has the recipes: Multi30k
(29,000 pairs, 334,000 words a side), Tatoeba (162,190 pairs, 1,050,000 words a side), and 3,000
pairs of Tatoeba (19,500 words a side).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dtmt_tf.errors import UserError
from dtmt_tf.languages import base_language

SIZED = "sized: "  # how the origin of a sized setting begins
MUCH_TEXT = 1_000_000  # words a side; of more, training reads each sentence few times
VALIDATIONS = 10


@dataclass(frozen=True)
class TextFacts:
    """What settings are sized from.

    Args:
        pairs: Training pairs.
        words: Words a side, the mean of source and target.
        alphabet: Different characters in source and target together.
        longest: Words that 999 of 1,000 pairs have at most on their longer side.
        has_validation: Whether validation files are named.
        has_bfloat16: Whether the processor multiplies bfloat16.
        replicas: Devices of all workers, each of which reads a batch in every update.
    """

    pairs: int
    words: int
    alphabet: int
    longest: int
    has_validation: bool
    has_bfloat16: bool
    replicas: int


class Sized(NamedTuple):
    """A value, and why it is that: half a line."""

    value: Any
    reason: str


Settings = Mapping[str, Any]  # by `section.name`


def size(facts: TextFacts, settings: Settings, given: frozenset[str]) -> dict[str, Sized]:
    """Sizes what the user did not set.

    Args:
        facts: What is known about the text and the machine.
        settings: All settings as they would be without sizes.
        given: The settings that the user set. They stay, and others are sized to fit them.

    Returns:
        Each sized setting in the order of `RULES`.

    Raises:
        UserError: If a setting of the paper's schedule is given without that schedule.
    """
    others = set(OF_SCHEDULES["peak"]) - set(OF_SCHEDULES.get(_schedule(settings, given), ()))
    # of what has a rule, none knows a value but that which is given or was sized before
    known = {name: value for name, value in settings.items() if name in given or name not in RULES}
    sized = {}
    for name, rule in RULES.items():
        if name in given or rule in others:
            continue
        found = rule(facts, known)
        if found is not None:
            sized[name] = found
            known[name] = found.value
    return sized


def _schedule(settings: Settings, given: frozenset[str]) -> str:
    """Returns the schedule: the user's, or the sized one."""
    if "training.schedule" in given:
        return str(settings["training.schedule"])
    odd = sorted(
        name
        for name in given
        if name.startswith("training.schedule_") or name.startswith("training.learning_rate")
    )
    if odd:
        raise UserError(
            f"{odd[0]} belongs to the schedule dtmt, and the sized schedule is peak. "
            "Set training.peak_learning_rate, training.warmup_updates and so on instead, or add "
            "training.schedule=dtmt to --set."
        )
    return "peak"


def preset(facts: TextFacts) -> Sized:
    """Returns the model.

    256 units reach 40 BLEU on Multi30k in 17 minutes of 2 cores (EXPERIMENTS.md, "Short budgets").
    With 3,000 pairs 128 units read the text twice as often in the same time and end 0.9 BLEU higher
    on validation, 0.7 on test ("Text of one's own", there). Above some millions of words a
    wider model pays, on a GPU alone; that is left to `--model`.
    """
    if facts.words < 50_000:
        return Sized("dtmt_tiny", f"128 units for {facts.words:,} words")
    return Sized("dtmt_small", f"256 units for {facts.words:,} words")


def _held_out(facts: TextFacts, _: Settings) -> Sized | None:
    """A tenth, at most 1,000: BLEU of fewer lines says little, and more would be missed.

    At least one, unless there is but one pair: distill and backtranslate count on a validation set.
    """
    if facts.has_validation:
        return None
    least = min(1, facts.pairs - 1)
    value = max(least, min(1000, facts.pairs // 10))
    return Sized(value, "a tenth of the pairs, at most 1,000, as no --dev is given")


def _filters(_: TextFacts, known: Settings) -> Sized:
    """What is no translation: at most 3 of 10,000 pairs of clean text (EXPERIMENTS.md, "Filters").

    Within one language, as in correcting grammar, a line may well stay as it is.
    """
    languages = known["data.source_language"], known["data.target_language"]
    names = ["length_ratio", *["script"] * all(languages)]
    if not all(languages) or len(set(map(base_language, languages))) == 2:
        names.insert(0, "identical")
    return Sized(tuple(names), "drop pairs of equal sides, unlike lengths or a wrong script")


def _vocabulary(facts: TextFacts, known: Settings) -> Sized:
    """7 times the root of all words, and the alphabet; of a text with fewer sub-words, all of them.

    That is 5,800 for Multi30k (6,000 in its recipe), about 10,000 for Tatoeba (8,000), 1,500 for
    3,000 pairs. Sennrich and Zhang (2019), "Revisiting Low-Resource NMT", gain most by going from
    30,000 sub-words to 2,000 where there are 100,000 words; 32,000 is common for millions of pairs.
    """
    value = round(7 * math.sqrt(2 * facts.words)) + facts.alphabet
    least = 4 + facts.alphabet + len(known["data.reserved_symbols"])  # three special ones, a blank
    least += 256 if known["data.byte_fallback"] else 0
    value = max(least, min(32_000, _rounded(value)))
    return Sized(value, f"7 x root of {2 * facts.words:,} words, characters")


def _coverage(facts: TextFacts, known: Settings) -> Sized | None:
    """SentencePiece's own advice for Chinese and Japanese, and what `tatoeba_enzh` has.

    Not where every character leaves room for as many sub-words that are longer.
    """
    size = known["data.source_vocab_size"]
    if not known["data.joint_vocabulary"]:
        size = min(size, known["data.target_vocab_size"])
    if facts.alphabet < 1000 or 2 * facts.alphabet <= size:
        return None
    return Sized(0.9995, f"{facts.alphabet:,} different characters, some of them rare")


def _max_length(facts: TextFacts, _: Settings) -> Sized:
    """Twice the words of long lines: 1.3 (Multi30k) to 1.9 (3,000 pairs) sub-words are a word."""
    value = max(40, min(256, 10 * math.ceil(facts.longest / 5)))
    return Sized(value, f"999 of 1,000 lines have at most {facts.longest:,} words")


def _batch(facts: TextFacts, _: Settings) -> Sized:
    """2.2 times the root of the words of a side, shared out among the devices.

    That is 1,280 for Multi30k, as in its recipe, and 2,240 for Tatoeba (2,560). Sennrich and Zhang
    (2019) gain with smaller batches on small corpora, down to 1,000 tokens. Below 640 a device, the
    least in search 1, an update is mostly overhead; above 4,096 memory of small machines ends.
    """
    value = 64 * round(2.2 * math.sqrt(facts.words) / facts.replicas / 64)
    reason = f"2.2 x root of {facts.words:,} words a side{_on_devices(facts)}"
    return Sized(max(640, min(4096, value)), reason)


def _max_steps(facts: TextFacts, known: Settings) -> Sized:
    """The less text, the oftener it is read: 480 epochs by the fourth root of the words of a side.

    That is 20 epochs of Multi30k (12 read twice, or 19, in its recipes), 15 of Tatoeba (14), 13 of
    the 250,000 pairs of `general_ende` (8), 5 of WMT14. At most 30: with 40
    a training on 3,000 pairs takes a third longer, for 1.6 BLEU on validation and 0.2 on test (one
    run, EXPERIMENTS.md, "Text of one's own").
    """
    epochs = max(4, min(30, round(480 / facts.words**0.25)))
    updates = _updates_an_epoch(facts, known)
    reason = f"{epochs} epochs of about {updates:,} updates{_on_devices(facts)}"
    return Sized(_rounded(epochs * updates), reason)


def _updates_an_epoch(facts: TextFacts, known: Settings) -> int:
    """About how many updates read the text once.

    1.75 positions a word (sub-words, <eos>, padding) and a dozen updates that are not full: within
    10 % for Multi30k, Tatoeba and 3,000 pairs.
    """
    return round(1.75 * facts.words / _tokens_an_update(facts, known) + 12)


def _tokens_an_update(facts: TextFacts, known: Settings) -> float:
    """Returns about how many positions an update reads."""
    tokens = known["data.max_tokens_per_batch"]
    if sentences := known["data.sentences_per_batch"]:
        tokens = sentences * 1.75 * facts.words / facts.pairs
    return float(tokens * _batches_an_update(facts, known))


def _batches_an_update(facts: TextFacts, known: Settings) -> int:
    """Returns devices times accumulation steps."""
    return int(facts.replicas * known["training.accumulation_steps"])


def _on_devices(facts: TextFacts) -> str:
    """Returns how many devices a reason is about, if there are several."""
    return f", {facts.replicas} devices" if facts.replicas > 1 else ""


def _warmup(_: TextFacts, known: Settings) -> Sized:
    """A twentieth, at most 400: Multi30k has 248 of 5,000. A fall that is given comes after it."""
    updates = known["training.max_steps"]
    value = max(1, min(400, updates // 20))
    end = known.get("training.decay_end_updates", math.inf)
    if value > (most := known.get("training.decay_start_updates", end - 1)):
        return Sized(max(1, most), "until the rate is to fall")
    return Sized(value, f"a twentieth of {updates:,} updates, at most 400")


def _peak(facts: TextFacts, known: Settings) -> Sized:
    """2.4e-3 for updates of 1,280 tokens (search 2), 2.7e-3 for less ("Text of one's own")."""
    tokens = round(_tokens_an_update(facts, known))
    value = 2.7e-3 if tokens < 1000 else 2.4e-3
    if value < (final := known.get("training.final_learning_rate", 0)):
        return Sized(final, "the final rate, which is higher than it would be")
    return Sized(value, f"updates of {tokens:,} tokens")


def _decay_start(_: TextFacts, known: Settings) -> Sized:
    """Half of the updates: earlier costs 1.6 BLEU on Multi30k, later nothing (search 2)."""
    warm = known["training.warmup_updates"]
    value = max(known["training.max_steps"] // 2, warm)
    if value >= (end := known.get("training.decay_end_updates", math.inf)):
        return Sized(max(warm, end - 1), "right before the end of the fall")
    return Sized(value, "half of the updates")


def _decay_end(_: TextFacts, known: Settings) -> Sized:
    """The last update."""
    value = max(known["training.max_steps"], known["training.decay_start_updates"] + 1)
    return Sized(value, "the last update")


def _final(_: TextFacts, known: Settings) -> Sized:
    """A sixth of the peak: Multi30k's recipes end at a quarter, the shortest at a seventh."""
    return Sized(float(f"{known['training.peak_learning_rate'] / 6:.1e}"), "a sixth of the peak")


def _moving_average(_: TextFacts, known: Settings) -> Sized:
    """The last fifth of the updates: 0.999 for the 5,000 of Multi30k; longer ones are alike."""
    value = max(0.9, min(0.9995, round(1 - 5 / known["training.max_steps"], 4)))
    return Sized(value, "averages about the last fifth of the updates, at most 2,000")


def _smoothing(facts: TextFacts, _: Settings) -> Sized:
    """0.2 gains on Multi30k with a high rate (search 2); 0.1 is Vaswani et al.'s, and DTMT's."""
    return Sized(0.2 if facts.words < MUCH_TEXT else 0.1, f"{facts.words:,} words a side")


def _dropout(rate: float, rate_of_much: float) -> Rule:
    """Returns the rule of a dropout: that of Multi30k, or with much text that of short budgets.

    Less dropout is ahead early, not at the end (EXPERIMENTS.md, search 2), and what reads each
    sentence few times is always early. With 3,000 pairs more dropout (0.3, 0.4, 0.2) ends 1.8 BLEU
    lower on validation after as many updates (EXPERIMENTS.md, "Text of one's own").
    """

    def rule(facts: TextFacts, _: Settings) -> Sized:
        value = rate if facts.words < MUCH_TEXT else rate_of_much
        return Sized(value, f"{facts.words:,} words a side")

    return rule


def _validation_steps(_: TextFacts, known: Settings) -> Sized:
    """Ten in all, fewer in short trainings: each translates the validation files.

    Those of 3,000 pairs take as long as 50 updates. At most 5,000 updates without one.
    """
    steps = known["training.max_steps"]
    value = max(math.ceil(steps / VALIDATIONS), min(350, math.ceil(steps / 4)))
    value = min(5000, value)
    return Sized(value, f"{math.ceil(steps / value):,} validations")


def _patience(_: TextFacts, known: Settings) -> Sized:
    """Half of the validations: the score rises once more while the rate falls."""
    number = math.ceil(known["training.max_steps"] / known["training.validation_steps"])
    return Sized(max(3, math.ceil(number / 2)), f"half of {number:,} validations, at least 3")


def _precision(facts: TextFacts, _: Settings) -> Sized:
    """1.3 to 1.4 times as fast where the processor has the products, else slower (SPEED.md)."""
    if facts.has_bfloat16:
        return Sized("bfloat16", "this machine multiplies it")
    return Sized("float32", "this processor has no bfloat16")


Rule = Callable[[TextFacts, Settings], Sized | None]
RULES: Mapping[str, Rule] = {
    "data.held_out": _held_out,
    "data.filters": _filters,
    "data.source_vocab_size": _vocabulary,
    "data.target_vocab_size": _vocabulary,
    "data.character_coverage": _coverage,
    "data.max_length": _max_length,
    "data.max_tokens_per_batch": _batch,
    "training.max_steps": _max_steps,
    "training.schedule": lambda *_: Sized("peak", "warm-up, plateau and fall in updates"),
    "training.warmup_updates": _warmup,
    "training.peak_learning_rate": _peak,
    "training.decay_start_updates": _decay_start,
    "training.decay_end_updates": _decay_end,
    "training.final_learning_rate": _final,
    "training.ema_decay": _moving_average,
    "training.label_smoothing": _smoothing,
    "training.embedding_dropout_rate": _dropout(0.2, 0.1),
    "training.output_dropout_rate": _dropout(0.3, 0.2),
    "training.candidate_dropout_rate": _dropout(0.1, 0.1),
    "training.validation_steps": _validation_steps,
    "training.patience": _patience,
    "training.precision": _precision,
    "decoding.min_length": lambda *_: Sized(1, "models of little text leave lines out"),
}
OF_SCHEDULES = {  # the rules of what a schedule reads; others read none of the sized
    "peak": (_warmup, _peak, _decay_start, _decay_end, _final),
    "inverse_sqrt": (_warmup, _peak),
}


def _rounded(value: float) -> int:
    """Returns a number rounded to two digits and a half: to tens, fifties or five hundreds."""
    unit = 10 if value < 2000 else 50 if value < 10_000 else 500
    return unit * round(value / unit)
