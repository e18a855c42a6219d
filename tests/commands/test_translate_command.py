"""`dtmt translate` with a translator of a few operations: streams, and what it writes."""

import io
import json
import os
import select
import sys
import threading
import time

import pytest

from dtmt_tf.commands import prompt, translate
from dtmt_tf.commands.terms import read_glossary
from dtmt_tf.errors import Refused, UserError
from dtmt_tf.refusals import LIMIT, MOST_TOLD
from dtmt_tf.translator import Alignment, Candidate, Score, Translation
from dtmt_tf.translator.stream import paced
from tests.end_to_end.conftest import LONG, ROOT


class Upper:
    """Translates to capitals, the n-th best with n marks, none of ""; refuses "bad" and "odd"."""

    batch_size = 2
    loaded: list = []

    def __init__(self, folder):
        self.folder = folder
        self.asked = []

    @classmethod
    def load(cls, place, batch_size):
        cls.loaded.append((place, batch_size))
        return cls(ROOT)  # a folder without a model: its hash is that of nothing

    def __call__(self, texts, nbest=0, align=False, prefixes=None, sample=None, constraints=None):
        self.asked.append([text.encode() for text in texts])
        if constraints:
            texts = [f"{text} {constraints}" for text in texts]
        if sample:
            texts = [f"{text} {sample.temperature} {sample.top_k} {sample.seed}" for text in texts]
        if any("bad" in text for text in texts):
            raise Refused(f"refused {LIMIT}max_bytes); dtmt export helps")
        if any("odd" in text for text in texts):
            raise Refused("refused for another reason")
        return [
            Translation(
                text,
                (prefixes[k] if prefixes else "") + text.upper(),
                -0.5 * len(text),
                tuple(
                    Candidate(text.upper() + "!" * n, -1.0 - n) for n in range(nbest * bool(text))
                ),
                Alignment(("a", "b"), ("B", "A"), ((0.2, 0.7), (0.9, 0.0))) if align else None,
            )
            for k, text in enumerate(texts)
        ]

    def constraints(self, glossary, vocabulary):
        return " ".join([*glossary.values(), *(vocabulary or [])])

    def score(self, sources, targets):
        return [Score(*pair, -1.25, len(pair[1])) for pair in zip(sources, targets, strict=True)]

    def paced(self, rows, answer, ready, refuse):
        return paced(rows, answer, 2, 4, ready, refuse)


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Runs the command in an empty folder: `run("--json", source=b"...")` returns its lines."""

    def call(*arguments, source=b"a b\n\nc\n"):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("dtmt_tf.translator.Translator", Upper)
        stream = io.BytesIO(source) if isinstance(source, bytes) else source
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        (tmp_path / "other").write_text("x y\n\nz\n")
        (tmp_path / "terms").write_text("a\tein\n\n b c \taus breit\na\tein\n")
        assert translate.command(list(arguments)) == 0
        return capsys.readouterr().out.splitlines()

    return call


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ([], ["A B", "", "C"]),
        (["--show-source", "--scores"], ["a b\tA B\t-1.5000", "\t\t-0.0000", "c\tC\t-0.5000"]),
        (["--nbest", "2"], ["A B\tA B!", "", "C\tC!"]),
        (["--nbest", "1", "--scores"], ["A B\t-1.0000", "\t-0.0000", "C\t-1.0000"]),
        (["--tag", "<bt>", "--scores"], ["<bt> A B\t-1.5000", "\t-0.0000", "<bt> C\t-0.5000"]),
        (["--tag", "<bt>", "--nbest", "1"], ["<bt> A B", "", "<bt> C"]),
        (["--align"], ["A B\t1-0 0-1", "\t1-0 0-1", "C\t1-0 0-1"]),
        (["--prefix", "other"], ["x yA B", "", "zC"]),
        (["--sample"], ["A B 1.0 0 0", " 1.0 0 0", "C 1.0 0 0"]),
        (
            ["--sample", "--temperature", "0.5", "--top-k", "9", "--seed", "2"],
            ["A B 0.5 9 2", " 0.5 9 2", "C 0.5 9 2"],
        ),
        (["--vocabulary", "other"], ["A B X Y Z", " X Y Z", "C X Y Z"]),
        (["--glossary", "terms"], ["A B EIN AUS BREIT", " EIN AUS BREIT", "C EIN AUS BREIT"]),
        (["--score", "other"], ["-1.2500\t3", "-1.2500\t0", "-1.2500\t1"]),
        (
            ["--score", "other", "--show-source"],
            ["a b\t-1.2500\t3", "\t-1.2500\t0", "c\t-1.2500\t1"],
        ),
    ],
    ids=lambda value: " ".join(value),
)  # fmt: skip
def test_columns_hold_what_is_asked_for(run, options, rows):
    assert run(*options) == rows


def test_json_holds_all_there_is(run):
    first = json.loads(run("--json", "--nbest", "2", "--align")[0])
    assert first == {
        "source": "a b",
        "translation": "A B",
        "score": -1.5,
        "nbest": [{"translation": "A B", "score": -1.0}, {"translation": "A B!", "score": -2.0}],
        "alignment": {
            "source": ["a", "b"],
            "target": ["B", "A"],
            "links": [[1, 0], [0, 1]],
            "attention": [[0.2, 0.7], [0.9, 0.0]],
        },
    }
    assert json.loads(run("--json", "--nbest", "2")[1])["nbest"] == []
    alone = json.loads(run("--json", source="ä".encode())[0])
    assert alone["translation"] == "Ä" and "nbest" not in alone
    assert json.loads(run("--json", "--score", "other")[2]) == {
        "source": "c", "target": "z", "log_probability": -1.25, "tokens": 1,
    }  # fmt: skip


@pytest.mark.parametrize("option", ["--prefix", "--score"])
@pytest.mark.parametrize("source", [b"a\n", b"a\nb\nc\nd\n"])
def test_files_of_different_lengths_are_refused(run, option, source):
    with pytest.raises(UserError, match="should have as many"):
        run(option, "other", source=source)


@pytest.mark.parametrize("option", ["--prefix", "--score"])
def test_files_of_different_lengths_are_refused_before_a_model_is_loaded(
    run, tmp_path, monkeypatch, option
):
    (tmp_path / "in").write_text("a\n" * 4)
    monkeypatch.setattr(Upper, "load", lambda *_: pytest.fail("it was loaded"))
    with pytest.raises(UserError, match="other has 3 lines, in has more"):
        run("in", option, "other")


@pytest.mark.parametrize(
    "options",
    [
        *("--score x --nbest 2", "--score x --prefix y", "--score x --scores"),
        *("--prefix x --align", "--sample --align", "--sample --prefix x"),
        "--glossary x --align",
    ],
)
def test_questions_that_do_not_go_together_are_refused(run, options, capsys):
    with pytest.raises(SystemExit):
        run(*options.split())
    assert "goes with neither" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\nc d\n", "terms:2: a line of a glossary should be"),
        ("a\t\n", "terms:1: a line of a glossary should be"),
        ("a\tb\tc\n", "terms:1: a line of a glossary should be"),
        ("a\tb\n\na\tc\n", "terms:3: 'a' has two translations"),
        (" \n\n", "terms has no term"),
    ],
)
def test_a_line_that_is_no_term_is_named(tmp_path, text, message):
    (tmp_path / "terms").write_text(text)
    with pytest.raises(UserError, match=message):
        read_glossary(tmp_path / "terms")


def test_a_vocabulary_without_a_word_is_refused(run, tmp_path):
    (tmp_path / "words").write_text(" \n\n")
    with pytest.raises(UserError, match="words has no word"):
        run("--glossary", "terms", "--vocabulary", "words")


def test_options_of_samples_need_samples(run, capsys):
    with pytest.raises(SystemExit):
        run("--top-p", "0.9")
    assert "--top-p goes with --sample" in capsys.readouterr().err
    with pytest.raises(UserError, match="temperature should be from 0.000001"):
        run("--sample", "--temperature", "0")


def test_a_digest_is_of_graph_and_weights(tmp_path):
    (tmp_path / "variables").mkdir()
    seen = {translate.digest(tmp_path)}
    for name in ("saved_model.pb", "variables/variables.index"):
        (tmp_path / name).write_bytes(b"x")
        seen.add(translate.digest(tmp_path))
    assert len(seen) == 3


QUESTIONS = ["--scores", "--glossary terms", "--vocabulary other", "--sample", "--tag x", "--json"]
QUESTIONS += ["--nbest 2", "--align", "--show-source"]


@pytest.mark.parametrize("other", [*QUESTIONS, ""])
def test_lines_of_another_question_or_model_are_put_aside(run, tmp_path, monkeypatch, other):
    with pytest.raises(UserError, match="refused"):
        run("-o", "out", source=b"a\nb\nbad\n")
    if not other:
        monkeypatch.setattr(translate, "digest", lambda folder: "another")
    run(*other.split(), "-o", "out", source=b"a\nb\nc\n")
    assert (tmp_path / "out.partial.old").read_text() == "A\nB\n"


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ([], "saved_models/cldr_ende/dtmt_tiny"),
        (["--name", "demo"], "saved_models/cldr_ende/demo"),
        (["--model", "demo"], "saved_models/cldr_ende/demo"),
        (["--model", "none"], "saved_models/cldr_ende/none"),
        (["--task", "custom", "--model", "mine"], "saved_models/custom/mine"),
        (["--model", "custom/mine"], "saved_models/custom/mine"),
        (["--model", "saved_models/custom/mine"], "saved_models/custom/mine"),
        (["--model", "elsewhere/1"], "elsewhere/1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_model_is_named_by_its_run_or_its_folder(run, tmp_path, monkeypatch, options, place):
    monkeypatch.setattr(sys, "argv", ["dtmt"])
    for folder in ("saved_models/cldr_ende/demo", "saved_models/custom/mine", "elsewhere/1"):
        (tmp_path / folder).mkdir(parents=True)
    run(*options)
    found, size = Upper.loaded[-1]
    assert (os.path.relpath(found, ROOT if found.is_absolute() else "."), size) == (place, 32)


def test_a_row_has_as_many_columns_whatever_the_text(run):
    assert run("--show-source", source=b"a\tb\n") == ["a b\tA B"]
    assert run(source=b"a\tb\n") == ["A\tB"]


@pytest.mark.parametrize(
    ("options", "rows", "talks"),
    [
        (["--scores"], ["A B\t-1.5000"], []),
        (["--show-source"], ["a b\tA B"], []),
        (["--tag", "<bt>"], ["<bt> A B"], []),
        (["--nbest", "1", "--align"], [], [(1, True)]),
    ],
    ids=lambda value: " ".join(map(str, value)),
)  # fmt: skip
def test_a_form_that_is_asked_for_is_kept_at_a_terminal(
    run, monkeypatch, caplog, options, rows, talks
):
    caplog.set_level("INFO")

    class Typed(io.BytesIO):
        def isatty(self):
            return True

    held = []
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(prompt, "converse", lambda _, *given: held.append(given))
    assert (run(*options, source=Typed(b"a b\n")), held) == (rows, talks)
    assert ("Reading what you type. Ctrl-D ends it." in caplog.text) == (not talks)


def test_what_was_read_with_a_refused_line_is_written_and_gone_on_with(run, tmp_path, caplog):
    source = b"a\nb\nc\nd\nbad\nf\nodd\n"
    for _ in range(2):  # the same command ends at the same line
        with pytest.raises(UserError, match="Line 5: refused .* --skip-refused leaves such lines"):
            run("-o", "out", source=source)
        assert (tmp_path / "out.partial").read_text() == "A\nB\nC\nD\n"
    with pytest.raises(UserError, match="Line 7: refused for another reason$"):  # none is skipped
        run("--skip-refused", "-o", "out", source=source)
    assert (tmp_path / "out.partial").read_text() == "A\nB\nC\nD\n\nF\n"
    assert "Beyond the limits of the export, and left empty: line 5." in caplog.text
    run("--skip-refused", "-o", "out", source=source.replace(b"odd", b"g"))
    assert (tmp_path / "out").read_text() == "A\nB\nC\nD\n\nF\nG\n"
    assert caplog.text.endswith(
        "among the first 6, which were finished before, are not named again.\n"
    )


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ([], ["A", "", "B"]),
        (["--scores"], ["A\t-0.5000", "", "B\t-0.5000"]),
        (["--tag", "<bt>"], ["<bt> A", "", "<bt> B"]),
        (["--show-source"], ["a\tA", "bad\t", "b\tB"]),
        (["--prefix", "other"], ["x yA", "", "zB"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_refused_line_is_left_empty_if_that_is_asked_for(run, options, rows):
    assert run("--skip-refused", *options, source=b"a\nbad\nb\n") == rows


def test_a_refused_line_is_marked_in_json(run):
    first, second = map(json.loads, run("--skip-refused", "--json", source=b"bad\na\n"))
    assert first == {"source": "bad", "refused": True} and "refused" not in second


def test_many_refused_lines_are_told_in_part(run, caplog):
    run("--skip-refused", source=b"bad\n" * (MOST_TOLD + 3))
    assert f"{MOST_TOLD - 1}, {MOST_TOLD} and 3 more." in caplog.text


def test_terms_may_come_through_a_pipe(run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=["a\tein\n"], daemon=True)
    writer.start()
    run("--glossary", "pipe", "-o", "out")
    assert (tmp_path / "out").read_text() == "A B EIN\n EIN\nC EIN\n"
    writer.join()


def test_a_pipe_that_is_named_is_read_once(run, tmp_path, monkeypatch):
    reads, writes = os.pipe()
    with os.fdopen(writes, "wb") as out:
        out.write(b"one\ntwo\n")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)  # a bar is shown
    try:
        run(f"/dev/fd/{reads}", "-o", "out")
    finally:
        os.close(reads)
    assert (tmp_path / "out").read_text() == "ONE\nTWO\n"


def test_a_pipe_is_answered_before_it_ends(run, monkeypatch):
    """Another thread writes lines only when those before are answered."""
    (reads, writes), (answers, answered) = os.pipe(), os.pipe()
    found = []

    def converse():
        with os.fdopen(writes, "wb", 0) as out, os.fdopen(answers, "rb", 0) as back:
            for piece in (b"one\n", b"two\nthree\nfo", b"ur\n"):
                out.write(piece)
                due, got = time.monotonic() + LONG, b""
                while got.count(b"\n") < piece.count(b"\n") and time.monotonic() < due:
                    if select.select([back], [], [], 1)[0]:
                        got += back.read(99)
                found.append(got)

    talk = threading.Thread(target=converse)
    with os.fdopen(answered, "w") as stdout, os.fdopen(reads, "rb") as stdin:
        monkeypatch.setattr(sys, "stdout", stdout)
        talk.start()
        run(source=stdin)
    talk.join()
    assert found == [b"ONE\n", b"TWO\nTHREE\n", b"FOUR\n"]


def test_lines_that_were_finished_are_not_translated_again(run, tmp_path, monkeypatch):
    lines = [f"line {k}\n" for k in range(20)]
    (tmp_path / "in").write_text("".join(lines))
    (tmp_path / "beside").write_text("".join(lines))
    translate_all, asked = Upper.__call__, []

    def stopped(self, texts, **options):
        if "line 13" in texts and not asked:
            raise KeyboardInterrupt
        asked.extend(texts if (tmp_path / "again").exists() else [])
        return translate_all(self, texts, **options)

    monkeypatch.setattr(Upper, "__call__", stopped)
    with pytest.raises(KeyboardInterrupt):
        run("in", "-o", "out", "--prefix", "beside")
    kept = (tmp_path / "out.partial").read_text().splitlines()
    assert 5 < len(kept) < 14
    (tmp_path / "again").touch()
    asked.append("")
    run("in", "-o", "out", "--prefix", "beside")
    assert asked[1:] == [line.strip() for line in lines[len(kept) :]]
    expected = [f"line {k}LINE {k}" for k in range(20)]
    assert (tmp_path / "out").read_text().splitlines() == expected
