"""The corpus that needs no download: short phrases rendered in two languages from Unicode CLDR."""

import random
from collections.abc import Mapping

from dtmt_tf.data.cldr_phrases import PHRASES
from dtmt_tf.data.cldr_renderer import Renderer
from dtmt_tf.data.cldr_sampler import Sampler

# Held-out splits come first, so that they stay the same when the training set grows.
SPLITS = ("test", "validation", "train")
DEFAULT_SIZES: Mapping[str, int] = {"train": 104_000, "validation": 1_000, "test": 1_000}
MIN_CHARACTERS = 3
MAX_CHARACTERS = 60

# The no-break, narrow no-break and thin spaces of CLDR's patterns.
_PLAIN_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " "})
# A phrase is drawn at most this many times per wanted pair before the corpus is called exhausted.
_MAX_ATTEMPTS_PER_PAIR = 50


def render_corpus(
    source_language: str,
    target_language: str,
    sizes: Mapping[str, int] = DEFAULT_SIZES,
    seed: int = 1,
) -> dict[str, tuple[list[str], list[str]]]:
    """Renders random dates, times, numbers, amounts, measures and names in two languages.

    Each pair is one random phrase, drawn without regard to language and then rendered by Babel in
    both: "Tue, Mar 5, 2024" and "Di., 5. März 2024". Within a corpus, no source sentence occurs
    twice, and no full date and no decimal is drawn for two splits; names, small counts and times
    of day recur in new combinations. Pairs with equal sides are left
    out, so that a copy of the source is never right. The no-break and thin spaces that CLDR uses
    (U+00A0, U+202F, U+2009) become plain spaces on both sides.

    The result depends on the arguments and on the version of Babel alone. A smaller training set
    with the same seed comes with the same validation and test set.

    Args:
        source_language: CLDR locale of the source, such as `"en"`.
        target_language: CLDR locale of the target, such as `"de"`.
        sizes: Number of pairs for any of `"train"`, `"validation"` and `"test"`.
        seed: Seed of the random draws.

    Returns:
        For each split in `sizes`, the source and the target sentences, 3 to 60 characters each.

    Raises:
        UserError: If CLDR does not know one of the languages.
        ValueError: If `sizes` names an unknown split or asks for more pairs than there are.

    Example:
        sources, targets = render_corpus("en", "de", {"test": 2}, seed=7)["test"]
    """
    unknown = sorted(set(sizes) - set(SPLITS))
    if unknown:
        raise ValueError(f"`sizes` should name splits among {SPLITS}. Received: {unknown}.")
    source_renderer, target_renderer = Renderer(source_language), Renderer(target_language)
    phrases, weights = list(PHRASES), list(PHRASES.values())
    seen: set[str] = set()
    corpus = {}
    for split in SPLITS:
        if split not in sizes:
            continue
        rng = random.Random(f"{seed} {split}")
        sampler = Sampler(rng, split)
        sources: list[str] = []
        targets: list[str] = []
        attempts = 0
        while len(sources) < sizes[split]:
            attempts += 1
            if attempts > _MAX_ATTEMPTS_PER_PAIR * sizes[split]:
                raise ValueError(
                    f"`sizes[{split!r}]` asks for more pairs than there are. "
                    f"Received: {sizes[split]}; found: {len(sources)}."
                )
            rendering = rng.choices(phrases, weights)[0](sampler)
            source = rendering(source_renderer).translate(_PLAIN_SPACES)
            if source in seen or not MIN_CHARACTERS <= len(source) <= MAX_CHARACTERS:
                continue
            target = rendering(target_renderer).translate(_PLAIN_SPACES)
            if target == source or not MIN_CHARACTERS <= len(target) <= MAX_CHARACTERS:
                continue
            seen.add(source)
            sources.append(source)
            targets.append(target)
        corpus[split] = sources, targets
    return {split: corpus[split] for split in sizes}
