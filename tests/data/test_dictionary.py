"""Dictionaries of words: what a line says, and what is none."""

import gzip

import pytest

from dtmt_tf.data.dictionary import read_dictionary
from dtmt_tf.errors import UserError


def test_of_a_words_lines_in_a_dictionary_the_first_counts(tmp_path):
    path = tmp_path / "words.tsv"
    path.write_text("\ufeffdog\tHund\t0.9\n\nNew  York\t NY \ndog\tRüde\t0.1\n", "utf-8")
    packed = tmp_path / "words.tsv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_dictionary(path) == read_dictionary(packed) == {"dog": "Hund", "New  York": "NY"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"dog Hund\n", "line 1: expected a word, a tab .*'dog Hund'"),
        (b"dog\tHund\ncat\t\n", "line 2: expected"),
        (b"\n", "holds no words"),
        (b"dog\t\xff\n", "not UTF-8"),
    ],
)
def test_what_is_no_dictionary_is_told(tmp_path, content, message):
    path = tmp_path / "words.tsv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"words.tsv.*{message}"):
        read_dictionary(path)
