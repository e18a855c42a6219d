"""SentencePiece sub-words: trained by its library, applied by tensorflow-text in the graph."""

from __future__ import annotations

import hashlib
import io
import itertools
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import sentencepiece
import tensorflow as tf
import tensorflow_text as tf_text

from dtmt_tf.config import BLANK, EOS_ID, PAD_ID, SPECIAL_PIECES, UNK_ID, UNKNOWN, DataConfig
from dtmt_tf.errors import UserError
from dtmt_tf.quiet import quiet_stderr
from dtmt_tf.text.parts import Cutter
from dtmt_tf.text.reading import Reader

logger = logging.getLogger(__name__)

MAX_LINES = 1_000_000  # that sub-words are learnt from; they take about 0.7 GB
MAX_BYTES = 65_536  # of a line that sub-words are learnt from
Sampler = Callable[[Sequence[str], int], list[list[int]]]  # texts and seed to ids


class TooFewSubwords(UserError):
    """A text has fewer sub-words than a setting asks for.

    Args:
        setting: The setting of data.
        asked: What it asks for.

    Attributes:
        setting: The setting.
        most: How many the text has.
    """

    def __init__(self, setting: str, asked: int, most: int) -> None:
        super().__init__(
            f"`data.{setting}` should be at most {most:,}: the training text has no more "
            f"sub-words. Received: {asked:,}."
        )
        self.setting = setting
        self.most = most


def train_subwords(
    lines: Iterable[str], vocab_size: int, data: DataConfig, setting: str = "source_vocab_size"
) -> bytes:
    """Trains a model of sub-words (BPE) or of words; returns it in SentencePiece's own format.

    Ids start with <pad>, <eos>, <unk> and `data.reserved_symbols`. Text is normalised by
    `data.normalization` alone: blanks are kept as they are. Of more than `MAX_LINES` lines
    SentencePiece takes that many, each as likely as any other and the same ones every time, and the
    log says so. Words are what stands between blanks: the most frequent ones, or all, if the text
    has fewer.

    Args:
        lines: Training text; read once.
        vocab_size: Number of sub-words or words, special and reserved ones included.
        data: Gives the kind, the normalisation and what characters count.
        setting: The one that gives the number, for messages.

    Raises:
        TooFewSubwords: If the text has fewer sub-words.
        UserError: If it has more characters than that, or no line to learn from.
    """
    model = io.BytesIO()
    of_words = data.vocabulary_kind == "word"
    if of_words:
        sign = UNKNOWN.encode()  # of words that were unknown to the model that wrote the text
        lines = (b" ".join(w for w in _words(line) if w != sign).decode() for line in lines)
    text = _Counted(lines)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text),
            input_sentence_size=MAX_LINES,
            shuffle_input_sentence=True,
            model_writer=model,
            model_type=data.vocabulary_kind,
            vocab_size=vocab_size,
            hard_vocab_limit=not of_words,
            pad_id=PAD_ID,
            eos_id=EOS_ID,
            unk_id=UNK_ID,
            bos_id=-1,
            pad_piece=SPECIAL_PIECES[PAD_ID],
            eos_piece=SPECIAL_PIECES[EOS_ID],
            user_defined_symbols=list(data.reserved_symbols),
            normalization_rule_name=data.normalization,
            remove_extra_whitespaces=False,
            character_coverage=data.character_coverage,
            split_digits=data.split_digits,
            byte_fallback=data.byte_fallback,
            max_sentence_length=MAX_BYTES,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        if text.ended_by:
            raise text.ended_by from None
        if most := re.search(r"Vocabulary size too high .*<= (\d+)", str(error)):
            raise TooFewSubwords(setting, vocab_size, int(most[1])) from error
        if "!sentences_.empty()" in str(error):
            raise UserError(text.none_taken()) from error
        raise UserError(
            f"SentencePiece could not make {vocab_size} sub-words: {error}\n"
            "See data.source_vocab_size, data.target_vocab_size, data.character_coverage and "
            "data.normalization."
        ) from error
    if text.ended_by:  # which SentencePiece may take for the end of the text
        raise text.ended_by
    if text.total > MAX_LINES:
        logger.info("Sub-words are learnt from %s of %s lines", f"{MAX_LINES:,}", f"{text.total:,}")
    if text.too_long:
        logger.warning(
            "Sub-words are not learnt from %s lines of more than %s bytes",
            *(f"{text.too_long:,}", f"{MAX_BYTES:,}"),
        )
    return model.getvalue()


class _Counted:
    """Lines that are counted as they are read."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self._first = ""  # that holds anything
        self.total = 0
        self.too_long = 0
        self.ended_by: BaseException | None = None  # Ctrl-C, or what reading them ended in

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self._lines:
                self._first = self._first or line
                self.total += 1
                self.too_long += len(line) > MAX_BYTES // 4 and len(line.encode()) > MAX_BYTES
                yield line
        except (Exception, KeyboardInterrupt) as error:  # SentencePiece gives its text alone
            self.ended_by = error
            raise

    def none_taken(self) -> str:
        """Returns why SentencePiece took none of them."""
        if not self.total:
            return "There is no training text to learn sub-words from: no pair is left."
        return (
            f"Sub-words are learnt from lines of at most {MAX_BYTES:,} bytes without the character "
            f"U+2585, and the training text has no such line. {self._first[:40]!r}... has "
            f"{len(self._first.encode()):,} bytes. Put one sentence on each line of the training "
            "files."
        )


class Subwords:
    """A sub-word model of one language, as graph operations.

    In a model of words each word that it does not hold is one <unk>. In others a sequence of
    unknown characters is. Reserved symbols stay whole. Those that a text begins with are its tags;
    if it is long and cut, they begin each part.

    Args:
        model: What `train_subwords` returned.

    Attributes:
        model: This.
        size: How many there are.
        of_words: Whether it is a model of words.
        read: Returns source texts as they are to be encoded, see `Reader`.

    Raises:
        ValueError: If it is something else.
    """

    def __init__(self, model: bytes) -> None:
        self.model = model
        self.processor = _processor(model)
        # The operation's name is its resource's name once exported: two models of one name in one
        # process would both use the first.
        name = f"subwords_{hashlib.sha256(model).hexdigest()[:16]}"
        with quiet_stderr():  # it announces an empty normalisation
            self.tokenizer = tf_text.SentencepieceTokenizer(model, out_type=tf.int32, name=name)
        self.size = int(self.tokenizer.vocab_size())
        names = [self.processor.id_to_piece(k) for k in range(self.size)]
        # of sub-words, some continue a word
        self.of_words = all(name.startswith(BLANK) for name in names[UNK_ID + 1 :])
        names[UNK_ID] = self._unknown_name = (BLANK if self.of_words else "") + names[UNK_ID]
        alphabet = set("".join(names))
        self.read = Reader(alphabet, lambda one: one in alphabet or not self._is_strange(one))
        # characters that training had none of are then spelt in bytes, and none is <unk>
        self._has_bytes = self.processor.is_byte(self.processor.piece_to_id("<0x00>"))
        self._cut = Cutter(names)
        self._reserved = 0 if self.of_words else _count_reserved(self.processor)
        self._blank = self.processor.piece_to_id(BLANK)

    def __reduce__(self) -> tuple[type[Subwords], tuple[bytes]]:
        return Subwords, (self.model,)  # pickled as its model, for Beam's workers

    def _is_strange(self, character: str) -> bool:
        """Whether a character is none that sub-words are made of."""
        ids = self.processor.encode(character)
        return any(each == UNK_ID or self.processor.is_byte(each) for each in ids)

    def encode(self, texts: Any, longest: int | None = None) -> tf.RaggedTensor:
        """Turns strings `[B]` into ids, each row ending in <eos>.

        Args:
            texts: The texts.
            longest: How many of a row are kept, the end among them; all by default.
        """
        tokens = self.tokens(texts)
        return _ended(tokens if longest is None else tokens[:, : longest - 1])

    def tokens(self, texts: Any) -> tf.RaggedTensor:
        """Turns strings `[B]` into ids, without <eos>."""
        if not self.of_words:
            return self.tokenizer.tokenize(texts)
        # word by word: SentencePiece would make one <unk> of several unknown words
        return self.tokenizer.tokenize(tf.strings.split(texts)).merge_dims(1, 2)

    def surfaces(self, texts: Any) -> tf.RaggedTensor:
        """Returns what each of `tokens` is in the strings, without blanks, `[B, (n)]`."""
        if self.of_words:
            words = tf.strings.split(texts)
            ids = self.tokenizer.tokenize(words)  # a word is none or several if normalised so
            sizes = ids.values.row_lengths()
            return ids.merge_dims(1, 2).with_flat_values(tf.repeat(words.flat_values, sizes))
        ids, begins, ends = self.tokenizer.tokenize_with_offsets(texts)
        letters = tf.strings.bytes_split(texts)  # a copy of the text for each would be large
        first = tf.gather(letters.row_starts(), ids.value_rowids())
        begins, ends = (first + tf.cast(each.flat_values, first.dtype) for each in (begins, ends))
        places = tf.ragged.range(begins, ends)
        found = tf.strings.unsorted_segment_join(
            tf.gather(letters.flat_values, places.flat_values),
            *(places.value_rowids(), places.nrows()),
        )
        return ids.with_flat_values(tf.strings.strip(found))

    def encode_lists(self, texts: Sequence[str]) -> list[list[int]]:
        """Turns texts into the ids that `encode` gives, outside of any graph and twice as fast."""
        if self.of_words:
            words = [_words(text) for text in texts]
            ids = iter(self.processor.encode(list(itertools.chain.from_iterable(words))))
            return [
                [*itertools.chain.from_iterable(itertools.islice(ids, len(row))), EOS_ID]
                for row in words
            ]
        rows: list[list[int]] = self.processor.encode(list(texts), add_eos=True)
        return rows

    def encode_parts(self, texts: Any, longest: int) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Turns strings into ids, long ones into several rows.

        Args:
            texts: Strings `[B]`.
            longest: Most sub-words of a row, <eos> included; at least 2.

        Returns:
            Ids `[P, (n)]`, each row ending in <eos>, and which text each is of, `[P]` int32.
        """
        tokens = self.tokens(texts)
        if not self._reserved:
            parts, owners = self._cut(tokens, longest - 1)
            return _ended(parts), owners
        size = self._tags(tokens, longest)
        tags, rest = _divided(tokens, size)
        parts, owners = self._cut(rest, longest - 1 - size)
        return _ended(tf.concat([tf.gather(tags, owners), parts], axis=1)), owners

    def part_surfaces(
        self, texts: Any, longest: int, parts: tf.RaggedTensor, owners: tf.Tensor
    ) -> tf.RaggedTensor:
        """Returns what each sub-word of `encode_parts` is in the strings, "" for <eos>, `[P, (n)]`.

        Args:
            texts: Strings `[B]`.
            longest: As it was given to `encode_parts`.
            parts: What that returned.
            owners: What that returned.
        """
        surfaces, lengths = self.surfaces(texts), parts.row_lengths() - 1
        if not self._reserved:
            rows = tf.RaggedTensor.from_row_lengths(surfaces.flat_values, lengths)
        else:
            size = self._tags(self.tokens(texts), longest)
            tags, rest = _divided(surfaces, size)
            lengths -= tf.gather(size, owners)
            rest = tf.RaggedTensor.from_row_lengths(rest.flat_values, lengths)
            rows = tf.concat([tf.gather(tags, owners), rest], axis=1)
        return tf.concat([rows, tf.fill([parts.nrows(), 1], "")], axis=1)

    def _tags(self, tokens: tf.RaggedTensor, longest: int) -> tf.Tensor:
        """Returns how many sub-words each row's tags are, with blanks before them, `[B]`.

        Args:
            tokens: Sub-words `[B, (n)]`.
            longest: Most sub-words of a part, <eos> included; one of them is no tag.
        """
        ids, owners = tokens.flat_values, tokens.value_rowids()
        places = _places(tokens)
        is_tag = (ids > UNK_ID) & (ids <= UNK_ID + self._reserved)
        is_other = ~is_tag & (ids != self._blank)
        rows = tokens.nrows()
        first = tf.where(is_other, places, places.dtype.max)
        first = tf.math.unsorted_segment_min(first, owners, rows)  # of the text proper
        ends = tf.where(is_tag & (places < tf.gather(first, owners)), places + 1, 0)
        return tf.clip_by_value(tf.math.unsorted_segment_max(ends, owners, rows), 0, longest - 2)

    def sample(self, texts: Sequence[str], seed: int, dropout_rate: float) -> list[list[int]]:
        """Turns texts into ids, ending in <eos>, with merges left out at random.

        BPE-dropout (Provilkov et al., 2020, arXiv:1910.13267): a word is cut in other ways each
        time it is seen.

        Args:
            texts: The texts.
            seed: The same seed gives the same ids.
            dropout_rate: Share of merges left out, in [0, 1).
        """
        sentencepiece.set_random_generator_seed(seed)
        rows = self.processor.encode(
            list(texts), enable_sampling=True, alpha=dropout_rate, nbest_size=-1, num_threads=1
        )
        return [[*row, EOS_ID] for row in rows]

    def decode(self, ids: Any, unknown: Any = None) -> tf.Tensor:
        """Turns ids `[B, T]` into plain text `[B]`; <pad>, <eos> and leading blanks are dropped.

        Args:
            ids: The ids.
            unknown: What <unk> is replaced by at each place, strings `[B, T]`; a sign by default.
        """
        if (unknown is None and not self.of_words) or self._has_bytes:
            ids = tf.ragged.boolean_mask(ids, ids > EOS_ID)
            return self.tokenizer.detokenize(ids)
        unknown = tf.fill(tf.shape(ids), UNKNOWN) if unknown is None else unknown
        if self.of_words:
            unknown = BLANK + unknown
        names = tf.where(tf.equal(ids, UNK_ID), unknown, self.tokenizer.id_to_string(ids))
        text = tf.strings.reduce_join(tf.where(ids > EOS_ID, names, ""), axis=1)
        return tf.strings.regex_replace(tf.strings.regex_replace(text, BLANK, " "), "^ +", "")

    def pieces(self, ids: Any) -> tf.Tensor:
        """Names the sub-words of ids `[B, T]`; padding is ""."""
        names = tf.where(
            tf.equal(ids, UNK_ID), self._unknown_name, self.tokenizer.id_to_string(ids)
        )
        return tf.where(tf.equal(ids, PAD_ID), "", names)


def _processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """Returns SentencePiece's own processor of a model with our special ids."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        with quiet_stderr():
            processor.load_from_serialized_proto(model)
    except RuntimeError as error:
        raise ValueError("not a model of SentencePiece, or not all of one") from error
    ids = processor.pad_id(), processor.eos_id(), processor.unk_id()
    if ids != (PAD_ID, EOS_ID, UNK_ID):
        raise ValueError(f"its padding, end and unknown have the ids {ids}, not 0, 1 and 2")
    return processor


def _count_reserved(processor: sentencepiece.SentencePieceProcessor) -> int:
    """Returns how many reserved symbols a model has: those that no merge makes, from id 3 on."""
    for number in range(UNK_ID + 1, processor.get_piece_size()):
        name = processor.id_to_piece(number)
        unmerged = processor.encode(name, enable_sampling=True, alpha=1.0, nbest_size=-1)
        if len(name) < 2 or number not in unmerged:
            return number - UNK_ID - 1
    return processor.get_piece_size() - UNK_ID - 1


def _divided(rows: tf.RaggedTensor, sizes: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Returns the first so many values of each row, `sizes` `[B]`, and the others."""
    is_first = _places(rows) < tf.gather(sizes, rows.value_rowids())
    masks = rows.with_flat_values(is_first), rows.with_flat_values(~is_first)
    first, others = (tf.ragged.boolean_mask(rows, mask) for mask in masks)
    return first, others


def _places(rows: tf.RaggedTensor) -> tf.Tensor:
    """Returns the place of each value in its row, from 0 on."""
    return tf.ragged.range(rows.row_lengths()).flat_values


def _words(text: str) -> list[bytes]:
    """Returns what stands between blanks in a text, as `tf.strings.split` does."""
    return text.encode().split()


def _ended(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    end = tf.fill([ids.nrows(), 1], EOS_ID)
    return tf.concat([ids, tf.RaggedTensor.from_tensor(end)], axis=1)
