from pathlib import Path

import pytest

from dtmt_tf.data.check import Finding, check_files, check_pairs, format_findings
from dtmt_tf.data.cldr import render_corpus
from dtmt_tf.errors import UserError

GOOD = {
    "train": (b"one\ntwo\nthree\n", b"eins\nzwei\ndrei\n"),
    "validation": (b"four\n", b"vier\n"),
    "test": (b"five\nsix\n", "fünf\nsechs\n".encode()),
}


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Writes splits to files named such as `train.en`, or `train2.en`, and checks them."""
    monkeypatch.chdir(tmp_path)

    def write_and_check(splits):
        files = {}
        for split, contents in splits.items():
            parts = contents if isinstance(contents, list) else [contents]
            for number, part in enumerate(parts, start=1):
                stem = split if number == 1 else f"{split}{number}"
                pair = Path(f"{stem}.en"), Path(f"{stem}.de")
                files.setdefault(split, []).append(pair)
                for path, content in zip(pair, part, strict=True):
                    path.write_bytes(content)
        return check_files(files)

    return write_and_check


def test_a_clean_corpus_has_no_findings(check):
    assert check(GOOD) == []


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_single_split_can_be_checked(check, split):
    assert check({split: GOOD[split]}) == []


@pytest.mark.parametrize(
    "train, finding",
    [
        (
            (b"one\nt\x1bwo\n\x07three\n", b"eins\nzwei\ndrei\n"),
            Finding("control character", "warning", "train.en", 2, 2, "control character"),
        ),
        (
            (b"one\ntwo\n", "eins\nzw\u0085ei\n".encode()),
            Finding("control character", "warning", "train.de", 2, 1, "control character"),
        ),
        (
            (b"one\rtwo\n", b"eins\n"),
            Finding(
                "lone carriage return",
                "warning",
                "train.en",
                1,
                1,
                r"\r within; if it ends lines: tr '\r' '\n'",
            ),
        ),
        (
            (b"one\ntwo\r\nthree\r\n", b"eins\nzwei\ndrei\n"),
            Finding("carriage return", "warning", "train.en", 2, 2, r"ends in \r\n, read as \n"),
        ),
        (
            ("one\ntwo\n\u200b\n".encode(), "eins\n \u00a0\ndrei\n".encode()),
            Finding("blank line", "warning", "train.de", 2, 1, "blank line"),
        ),
        (
            (b"one\ntwo\none\none\n", b"eins\nzwei\neins\neins\n"),
            Finding("duplicate", "warning", "train.en", 3, 2, "repeats an earlier pair"),
        ),
        (
            (b"one\ntaxi\n", b"eins\ntaxi\n"),
            Finding("copy", "warning", "train.en", 2, 1, "source and target are the same"),
        ),
        (
            (b"one\nab\n", b"eins\n" + b"x" * 20 + b"\n"),
            Finding("length ratio", "warning", "train.en", 2, 1, "one side over 9 times longer"),
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, Finding) else "",
)
def test_each_flaw_is_located_and_counted(check, train, finding):
    assert finding in check({"train": train})


@pytest.mark.parametrize(
    "train",
    [
        (b"a\tb\n", b"c\td\n"),
        ("\u0100\u00a0\u4e80\n".encode(), "c\u2028\U00010085\n".encode()),
        (b"ab\n", b"x" * 18 + b"\n"),
        (b"ab\n", b"x" * 19 + b"\n"),
        (b"abc\n", ("ä" * 27 + "\n").encode()),
        (b"one\none\n", b"eins\nein\n"),
    ],
    ids=["tab", "high bytes", "ratio 9", "short", "characters not bytes", "two targets"],
)
def test_harmless_text_is_not_reported(check, train):
    assert check({"train": train}) == []


def test_a_lost_line_shifts_those_behind_it(check):
    lines = [f"{k} {'a' * (20 + k * k % 97)}" for k in range(400)]
    lost = ["x" + line for line in lines if line is not lines[150]]
    source, target = ("".join(f"{line}\n" for line in side).encode() for side in (lines[:-1], lost))
    (finding,) = check({"validation": (source, target)})
    assert (finding.kind, finding.severity, finding.file) == ("shift", "warning", "validation.en")
    assert (finding.line, finding.count) == (201, 199)
    assert "is a target line missing" in finding.message


@pytest.mark.parametrize(
    ("shorter", "longer", "told"), [(2, 19, 0), (2, 20, 1), (3, 27, 0), (3, 28, 1)]
)
def test_sides_of_very_different_lengths_are_told_unless_both_are_short(
    check, shorter, longer, told
):
    found = check({"train": (b"a" * shorter + b"\n", b"x" * longer + b"\n")})
    assert [finding.message for finding in found] == ["one side over 9 times longer"] * told


def test_held_out_sources_seen_in_training_are_counted(check):
    found = check(
        GOOD
        | {
            "validation": (b"two\n", b"anders\n"),
            "test": (b"five\nthree\none\none\n", b"a\nb\nc\nd\n"),
            "news": (b"five\none\n", b"a\nb\n"),
        }
    )
    told = {split: f"{split} source is also in the training set" for split in ("news", "test")}
    most = ", over half of the file: scores say little"
    assert found == [
        Finding("overlap", "warning", "validation.en", 1, 1,
                f"validation source is also in the training set{most}"),
        Finding("overlap", "warning", "test.en", 2, 3, told["test"] + most),
        Finding("overlap", "warning", "news.en", 2, 1, told["news"]),
    ]  # fmt: skip


def test_a_split_of_several_files_is_one_corpus_and_faults_stay_with_their_files(check):
    found = check(
        {
            "train": [
                (b"one\ntwo\n", b"eins\nzwei\n"),
                (b"three\none\n\nthree\n", b"drei\neins\n\ndrei\n"),
                (b"two\nsix\n", b"zwei\nsechs\n"),
            ],
            "validation": [(b"seven\n", b"sieben\n"), (b"eight\nsix\n", b"acht\nx\n")],
        }
    )
    overlap = "validation source is also in the training set"
    assert found == [
        Finding("blank line", "warning", "train2.en", 3, 1, "blank line"),
        Finding("duplicate", "warning", "train2.en", 2, 2, "repeats an earlier pair"),
        Finding("blank line", "warning", "train2.de", 3, 1, "blank line"),
        Finding("duplicate", "warning", "train3.en", 1, 1, "repeats an earlier pair"),
        Finding("overlap", "warning", "validation2.en", 2, 1, overlap),
    ]


def test_unequal_files_of_a_split_do_not_make_up_for_each_other(check):
    with pytest.raises(UserError) as error:
        check({"train": [(b"a\nb\n", b"c\n"), (b"d\ne\xff\n", b"e\nf\ng\n")]})
    assert str(error.value).splitlines() == [
        "The data cannot be used:",
        "train.en:2: lines beyond the 1 of train.de (1 line)",
        "train2.en:2: not UTF-8 (1 line)",
        "train2.de:3: lines beyond the 2 of train2.en (1 line)",
    ]


def test_blank_lines_are_no_overlap_and_no_duplicates(check):
    found = check({"train": (b"one\n\n\n", b"eins\n\n\n"), "test": (b"two\n\n", b"zwei\n\n")})
    assert {finding.kind for finding in found} == {"blank line"}


@pytest.mark.parametrize(
    "split, contents, message",
    [
        ("train", (b"a\nb\nc\n", b"d\n"), "train.en:2: lines beyond the 1 of train.de (2 lines)"),
        ("test", (b"one\n", b"eins\nzwei\n"), "test.de:2: lines beyond the 1 of test.en (1 line)"),
        ("train", (b"one\nna\xefve\n", b"eins\nzwei\n"), "train.en:2: not UTF-8 (1 line)"),
        ("train", (b"one\ntwo\n", b"eins\n\xed\xa0\x80\n"), "train.de:2: not UTF-8 (1 line)"),
        ("train", (b"a\nb\0\n", b"c\nd\n"),
         "train.en:2: NUL character; is this a text file? (1 line)"),
        ("test", (b"", b""), "test.en:1: no usable pair in the test set (0 lines)"),
        ("train", (b"one\n\n", b"\nzwei\n"),
         "train.en:1: no usable pair in the train set (2 lines)"),
    ],
)  # fmt: skip
def test_fatal_faults_stop_the_run_and_are_located(check, split, contents, message):
    with pytest.raises(UserError) as error:
        check(GOOD | {split: contents})
    assert str(error.value).splitlines() == ["The data cannot be used:", message]


def test_all_fatal_faults_are_listed_at_once(check):
    with pytest.raises(UserError) as error:
        check({"train": (b"\xff\none\n", b"a\nb\nc\n"), "test": (b"two\n\n", b"\0\n\n")})
    assert str(error.value).splitlines() == [
        "The data cannot be used:",
        "train.en:1: not UTF-8 (1 line)",
        "train.de:3: lines beyond the 2 of train.en (1 line)",
        "test.en:1: no usable pair in the test set (2 lines)",
        "test.de:1: NUL character; is this a text file? (1 line)",
    ]


def test_no_split_at_all_is_an_error():
    with pytest.raises(UserError, match="There is no data"):
        check_pairs({})


def test_sentences_in_memory_are_checked_alike():
    found = check_pairs({"train": (["one", "two", "two"], ["eins", "zw\nei", "zw\nei"])})
    assert format_findings(found) == (
        "train source:3: repeats an earlier pair (1 line)\n"
        "train target:2: control character (2 lines)"
    )
    with pytest.raises(UserError, match="train source:1: not UTF-8"):
        check_pairs({"train": (["\ud800"], ["a"])})


def test_fatal_faults_can_be_returned_with_the_others():
    pairs = {"train": (iter(["one", "t\0o", "x"]), iter(["eins", "zwei", "x"]))}
    found = check_pairs(pairs, stop_if_fatal=False)
    assert [(finding.kind, finding.severity) for finding in found] == [
        ("NUL", "fatal"), ("copy", "warning")
    ]  # fmt: skip


def test_the_embedded_corpus_is_clean():
    sizes = {"train": 2_000, "validation": 200, "test": 200}
    assert check_pairs(render_corpus("en", "de", sizes, seed=1)) == []


def test_a_report_has_one_line_for_each_finding():
    findings = [
        Finding("copy", "warning", "a.en", 7, 1234, "source and target are the same"),
        Finding("blank line", "warning", "a.de", 9, 1, "blank line"),
    ]
    assert format_findings(findings) == (
        "a.en:7: source and target are the same (1,234 lines)\na.de:9: blank line (1 line)"
    )
