import threading
import time

import pytest
import tensorflow as tf

from dtmt_tf.batched_lines import score_pairs, translate_lines, translate_to
from dtmt_tf.resumable_lines import ResumableLines


def test_lines_come_back_in_their_order_and_number():
    batches = []

    def translate(texts):
        batches.append([text.decode() for text in texts.numpy()])
        return tf.strings.upper(texts)

    lines = ["ccc", "a", "", "bb", "a", "dddd"]
    done = []
    translations = translate_lines(lines, translate, 4, done.append)
    assert translations == ["CCC", "A", "", "BB", "A", "DDDD"]
    assert done == [4, 2]
    # sorted by length, the two in any order
    assert sorted(batches) == [["a", ""], ["dddd", "ccc", "bb", "a"]]


def test_pairs_are_scored_once_each_in_batches_of_like_length():
    batches = []

    def score(pairs):
        batches.append(pairs)
        return [(-len(source), len(target)) for source, target in pairs]

    pairs = [("a", "xxx"), ("bb", "y"), ("a", "xxx"), ("a", "y"), ("dddd", "zzzz")]
    assert score_pairs(pairs, score, 2) == [(-1, 3), (-2, 1), (-1, 3), (-1, 1), (-4, 4)]
    long, short = {("dddd", "zzzz"), ("a", "xxx")}, {("bb", "y"), ("a", "y")}
    assert sorted(map(set, batches), key=min) == sorted([long, short], key=min)  # threads race
    assert score_pairs([], score, 2) == []


def test_batches_run_side_by_side_on_as_many_threads_as_cores(monkeypatch):
    monkeypatch.setattr("dtmt_tf.batched_lines.cores", lambda: 3)
    together = threading.Barrier(3, timeout=1800)  # breaks unless three are there at once

    def translate(texts):
        together.wait()
        return texts

    assert translate_lines(["a", "b", "c"], translate, 1) == ["a", "b", "c"]


def test_a_batch_that_fails_ends_the_translation(monkeypatch):
    monkeypatch.setattr("dtmt_tf.batched_lines.cores", lambda: 1)
    begun = []

    def translate(texts):
        begun.append(texts.numpy()[0])
        if len(begun) == 2:
            raise ValueError("no")
        if len(begun) > 2:  # nobody is to be that late in hearing of it
            time.sleep(1)
        return texts

    with pytest.raises(ValueError, match="no"):
        translate_lines([chr(97 + k) for k in range(26)], translate, 1)
    assert len(begun) < 26


def test_bytes_that_are_no_utf8_do_not_stop_the_translation():
    assert translate_lines(["x"], lambda texts: tf.constant([b"a\xff"]), 1) == ["a�"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, MemoryError])
def test_a_translation_that_was_stopped_goes_on_after_its_finished_lines(tmp_path, failure):
    lines = [f"line {k} " + "x" * (k % 7) for k in range(50)]
    asked = []

    def translate(texts):
        asked.extend(text.decode() for text in texts.numpy())
        if stop and "line 30 " + "x" * 2 in asked:
            raise failure
        return tf.strings.upper(texts)

    def run():
        with ResumableLines(tmp_path / "out", {}) as output:
            translate_to(output, lines, translate, 3, 4)

    stop = True
    with pytest.raises(failure):
        run()
    expected = [line.upper() for line in lines]
    assert (tmp_path / "out.partial").read_text().splitlines() == expected[:24]
    assert not (tmp_path / "out").exists()
    stop = False
    asked.clear()
    run()
    assert sorted(asked) == sorted(lines[24:])
    assert (tmp_path / "out").read_text().splitlines() == expected
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
