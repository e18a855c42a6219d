"""The translator that Python programs and `dtmt translate` use."""

from __future__ import annotations

import functools
import itertools
import json
import logging
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from dtmt_tf.batched_lines import concurrent_batches, in_batches, score_pairs
from dtmt_tf.config import DecodingConfig
from dtmt_tf.decoding import Sampling
from dtmt_tf.errors import Refused, UserError
from dtmt_tf.languages import has_blanks
from dtmt_tf.translator.constraints import Constraints
from dtmt_tf.translator.exported import TRANSLATE, ExportedModel, Row
from dtmt_tf.translator.places import find_model
from dtmt_tf.translator.searches import Search, Searches
from dtmt_tf.translator.stream import paced
from dtmt_tf.translator.words import Alignment, align_words

logger = logging.getLogger(__name__)

MAX_AHEAD = 16  # batches that a stream reads ahead at most, and sorts by length


@dataclass(frozen=True)
class Candidate:
    """One of the best translations of a text.

    Attributes:
        text: The translation.
        score: Its log probability over the length penalty, natural logarithm.
    """

    text: str
    score: float


@dataclass(frozen=True)
class Translation:
    """A text and its best translation.

    Attributes:
        source: The text.
        text: The translation; empty for a text of blanks.
        score: Its log probability over the length penalty, natural logarithm; 0 for blanks.
        nbest: The best translations, or samples, this one first, if they were asked for.
        alignment: Of words, if it was asked for, of the text as it is without `nbest`; of a text
            that is translated in parts, of the first part.
    """

    source: str
    text: str
    score: float
    nbest: tuple[Candidate, ...] = ()
    alignment: Alignment | None = None

    @property
    def texts(self) -> list[str]:
        """All translations."""
        return [self.text, *(each.text for each in self.nbest)]


@dataclass(frozen=True)
class Score:
    """How probable a model finds a given translation.

    Attributes:
        source: The text.
        target: The translation.
        log_probability: Of the target and its end, natural logarithm.
        tokens: Sub-words of the target, its end included.
    """

    source: str
    target: str
    log_probability: float
    tokens: int


class Translator:
    """An exported model that translates, aligns and scores text; several threads may use one.

    Args:
        folder: An exported version's folder.
        batch_size: Texts in a batch.

    Raises:
        UserError: If there is no model, or it is damaged or does not translate.
        ValueError: If `batch_size` is not positive.

    Example:
        translator = Translator.load("saved_models/cldr_ende/demo")
        for translation in translator(["March 5, 2031", "Norway"], nbest=3, align=True):
            print(translation.text, translation.score, translation.alignment.pharaoh)
    """

    def __init__(self, folder: Path, batch_size: int = DecodingConfig.batch_size) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size should be at least 1. Received: {batch_size}.")
        self.folder = folder
        self.batch_size = batch_size
        self._model = ExportedModel(folder)

    @classmethod
    def load(cls, place: str | Path, batch_size: int = DecodingConfig.batch_size) -> Translator:
        """Loads an exported model.

        Args:
            place: A run's folder, whose newest version is taken, or a version's; or the name of a
                pre-trained model in the catalogue that the environment variable DTMT_MODELS
                names, by address or path. A folder of that name comes first.
            batch_size: Texts in a batch.

        Raises:
            UserError: If there is none; the message lists those nearby.
        """
        return cls(find_model(Path(place)), batch_size)

    @functools.cached_property
    def info(self) -> dict[str, Any]:
        """What the model is, as its card says: languages, limits, scores, settings."""
        if not self._model.answers("info"):
            return {}
        (row,) = self._model.ask("info", text=[""])
        card: dict[str, Any] = json.loads(row["info"])
        return card

    @functools.cached_property
    def _searches(self) -> Searches:
        return Searches(self._model.steps, self.info, self.batch_size)

    def constraints(
        self, glossary: Mapping[str, str] | None = None, vocabulary: Iterable[str] | None = None
    ) -> Constraints:
        """Returns what translations can be held to.

        Args:
            glossary: Target terms by source terms. Where a source term stands in a text, its target
                term is in the translation.
            vocabulary: Words that translations are made of: no sub-words but theirs are written.

        Raises:
            UserError: If a term can not be written, there is neither term nor word, or the model
                was exported by a version that could not answer.
        """
        return self._searches.constraints(glossary or {}, vocabulary)

    def __call__(
        self,
        texts: Sequence[str],
        *,
        nbest: int = 0,
        align: bool = False,
        prefixes: Sequence[str] | None = None,
        sample: Sampling | None = None,
        constraints: Constraints | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> list[Translation]:
        """Translates texts, in as many batches side by side as the processor has cores.

        Args:
            texts: The texts.
            nbest: How many of the best translations `Translation.nbest` holds; at most the beam
                size that the model was exported with, unless sampled or constrained.
            align: Whether `Translation.alignment` is given.
            prefixes: What each translation is to begin with, empty for anything; not together
                with `nbest` or `align`.
            sample: How translations are drawn at random, `nbest` of each text as they come, or
                one; not together with `align` or `prefixes`. By default the best are searched.
            constraints: What the translations are held to; not together with `align` or
                `prefixes`; a vocabulary alone together with `sample`. By default nothing.
            advance: Called with the number of texts of each batch that is done.

        Raises:
            Refused: If the model refuses a text, such as one beyond its limits.
            UserError: If it has not so many translations, or was exported by a version that could
                not answer.
            ValueError: If prefixes are not as many as texts, or questions do not go together.
        """
        _check_lists(texts, prefixes)
        if nbest < 0:
            raise ValueError(f"nbest should be at least 0. Received: {nbest}.")
        if (sample or constraints) and (align or prefixes is not None):
            raise ValueError("sample and constraints go with neither align nor prefixes.")
        if sample:
            if constraints and constraints.has_terms:
                raise ValueError("sample does not go with terms.")
            allowed = constraints.allowed if constraints else None
            search = self._searches.sampler(sample, allowed, nbest or 1)
            draw = functools.partial(self._searched, search=search, nbest=nbest)
            return in_batches(texts, draw, self.batch_size, advance=advance)
        if constraints:
            hold = functools.partial(self._constrained, constraints=constraints, nbest=nbest)
            return in_batches(texts, hold, self.batch_size, advance=advance)
        if prefixes is None:
            translate = functools.partial(self._translate, nbest=nbest, align=align)
            return in_batches(texts, translate, self.batch_size, advance=advance)
        if nbest or align:
            raise ValueError("prefixes go with neither nbest nor align.")
        rows = list(zip(texts, prefixes, strict=True))
        return in_batches(rows, self._complete, self.batch_size, _length, advance)

    def stream(
        self,
        lines: Iterable[str],
        *,
        nbest: int = 0,
        align: bool = False,
        sample: Sampling | None = None,
        constraints: Constraints | None = None,
        ready: Callable[[], bool] = lambda: True,
    ) -> Iterator[Translation]:
        """Yields the translations of any number of lines, in their order.

        Reads at most 16 batches ahead, fewer if they take over two seconds, but as many as are
        translated side by side; so memory does not grow with the lines.

        Args:
            lines: The lines.
            nbest: See `__call__`.
            align: See `__call__`.
            sample: See `__call__`.
            constraints: See `__call__`.
            ready: Whether the next line can be had without waiting; if not, those that were read
                are translated at once.

        Raises:
            Refused: For a line that the model refuses, after the translations of those before it.
        """
        if isinstance(lines, str):
            raise TypeError("lines should be several strings, such as a list. Received: one string")
        translate = functools.partial(
            self, nbest=nbest, align=align, sample=sample, constraints=constraints
        )
        return self.paced(lines, translate, ready)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[Score]:
        """Returns how probable the model finds given translations.

        A warning tells of targets that are longer than the model scores.

        Args:
            sources: The texts.
            targets: A translation of each.

        Raises:
            ValueError: If they are not equally many.
            Refused: If the model refuses a pair, such as one beyond its limits.
            UserError: If it was exported by a version that could not answer.
        """
        _check_lists(sources, targets)
        rows = list(zip(sources, targets, strict=True))
        scores = score_pairs(rows, self._score, self.batch_size)
        most = self.info.get("limits", {}).get("longest_scored")
        if long := sum(each.tokens == most for each in scores):
            logger.warning("Of %s targets the first %s sub-words alone may count.", long, most)
        return scores

    def paced(
        self,
        rows: Iterable[Any],
        answer: Callable[[list[Any]], Sequence[Any]],
        ready: Callable[[], bool] = lambda: True,
        refuse: Callable[[Any, Refused], Any] | None = None,
    ) -> Iterator[Any]:
        """Yields answers to any number of rows, see `stream` and `stream.paced`."""
        least = concurrent_batches() * self.batch_size
        return paced(rows, answer, least, MAX_AHEAD * self.batch_size, ready, refuse)

    def _translate(self, texts: list[str], nbest: int, align: bool) -> list[Translation]:
        if nbest:
            found = self._model.ask("translate_nbest", text=texts)
            lists = [self._candidates(row, nbest) for row in found]
            bests = [each[0] if each else Candidate("", 0.0) for each in lists]
        else:
            rows = self._model.ask(TRANSLATE, text=texts)
            bests = [Candidate(_text(row["translation"]), float(row["score"])) for row in rows]
            lists = [()] * len(texts)
        alignments = self._align(texts) if align else [None] * len(texts)
        return [
            Translation(text, best.text, best.score, candidates, alignment)
            for text, best, candidates, alignment in zip(
                texts, bests, lists, alignments, strict=True
            )
        ]

    def _constrained(
        self, texts: list[str], constraints: Constraints, nbest: int
    ) -> list[Translation]:
        """Translates texts as always, and those whose translations lack a term in a search of it.

        If more translations are asked for than are kept, all are searched for.
        """
        answers: dict[str, Translation] = {}
        if constraints.allowed is None and nbest <= self.info["decoding"]["beam_size"]:
            wanted = self._searches.targets(texts, constraints)
            for found, terms in zip(self._translate(texts, nbest, False), wanted, strict=True):
                if all(constraints.hold(terms, text) for text in found.texts):
                    answers[found.source] = found
        bound = [text for text in texts if text not in answers]
        if bound:
            search = self._searches.searcher(constraints, nbest or 1)
            answers |= {each.source: each for each in self._searched(bound, search, nbest)}
        return [answers[text] for text in texts]

    def _searched(self, texts: list[str], search: Search, nbest: int) -> list[Translation]:
        """Returns the first translation that a search finds of each text, `nbest` if asked for."""
        try:
            lists = search(texts)
        except tf.errors.InvalidArgumentError as error:
            raise self._model.refusal(texts, error) from error
        answers = []
        for text, found in zip(texts, lists, strict=True):
            candidates = tuple(itertools.starmap(Candidate, found))
            first = candidates[0] if candidates else Candidate("", 0.0)
            answers.append(Translation(text, first.text, first.score, candidates[:nbest]))
        return answers

    def _candidates(self, row: Row, nbest: int) -> tuple[Candidate, ...]:
        if nbest > (most := len(row["translations"])):
            run = self.folder.parent
            of = f" {shlex.quote(str(run))}" * (run / "train" / "experiment.json").exists()
            raise UserError(
                f"{self.folder} keeps {most} translations of a text. dtmt export{of} --set "
                f"decoding.beam_size={nbest} makes a version that keeps {nbest}."
            )
        return tuple(
            Candidate(_text(text), float(score))
            for text, score, length in zip(
                row["translations"], row["scores"], row["lengths"], strict=True
            )
            if length > 0
        )[:nbest]

    def _align(self, texts: list[str]) -> list[Alignment | None]:
        blanks = [has_blanks(self.info.get(f"{side}_language", ""))
                  for side in ("source", "target")]  # fmt: skip
        found: list[Alignment | None] = []
        for text, row in zip(texts, self._model.ask("align", text=texts), strict=True):
            s, t = int(row["source_length"]), int(row["target_length"])
            pieces = [[_text(piece) for piece in row[f"{side}_subwords"][:length]]
                      for side, length in (("source", s), ("target", t))]  # fmt: skip
            found.append(
                align_words(
                    (text, pieces[0], blanks[0]),
                    (_text(row["translation"]), pieces[1], blanks[1]),
                    row["attention"][:t, :s],
                )
            )
        return found

    def _complete(self, rows: list[tuple[str, str]]) -> list[Translation]:
        sources, prefixes = map(list, zip(*rows, strict=True))
        found = self._model.ask("complete", source=sources, prefix=prefixes)
        return [
            Translation(source, _text(row["translation"]), float(row["score"]))
            for source, row in zip(sources, found, strict=True)
        ]

    def _score(self, rows: list[tuple[str, str]]) -> list[Score]:
        sources, targets = map(list, zip(*rows, strict=True))
        found = self._model.ask("score", source=sources, target=targets)
        return [
            Score(source, target, float(row["log_probability"]), int(row["tokens"]))
            for source, target, row in zip(sources, targets, found, strict=True)
        ]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _length(row: tuple[str, str]) -> int:
    return max(map(len, row))


def _check_lists(texts: Sequence[str], others: Sequence[str] | None) -> None:
    """Refuses a text where a list of texts belongs, and lists of different lengths."""
    if isinstance(texts, str) or isinstance(others, str):
        raise TypeError("Texts should be a list of strings. Received: one string.")
    if others is not None and len(others) != len(texts):
        raise ValueError(f"Received {len(texts)} texts, but {len(others)} that go with them.")
