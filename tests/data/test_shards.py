import json
import os
import resource
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordReader

from dtmt_tf.config import DataConfig
from dtmt_tf.data import shards
from dtmt_tf.data.shards import Preparation, Shards, preparation
from dtmt_tf.errors import UserError
from dtmt_tf.text import Vocabulary
from tests.data.toy_corpus import (
    ENCODERS,
    IMPORTING,
    Lines,
    encode_letters,
    encode_twice,
    ids,
    make_lines,
    make_shards,
    pairs_of,
)
from tests.disk import file_size_limit

SOURCE, TARGET = make_lines(100), make_lines(100, seed=1)
EXPECTED = list(zip(encode_letters(SOURCE), encode_twice(TARGET), strict=True))


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(shards, "PAIRS_PER_SHARD", 30)
    monkeypatch.setattr(shards, "PAIRS_AT_ONCE", 7)


def raw(folder, shard):
    reader = ArrayRecordReader(str(folder / f"train-{shard:05}.array_record"))
    return reader.read(0, reader.num_records())


class Counting:
    """An encoder that notes what it was given, and fails once it has seen enough."""

    def __init__(self, encode, stop_after=10**9):
        self.encode, self.stop_after, self.seen = encode, stop_after, []

    def __call__(self, texts):
        if len(self.seen) >= self.stop_after:
            raise KeyboardInterrupt
        self.seen += texts
        return self.encode(texts)


# Writing.


def test_shards_hold_the_pairs_in_order_and_know_their_lengths(tmp_path):
    made = make_shards(tmp_path, SOURCE, TARGET)
    assert pairs_of(made) == EXPECTED
    lengths = np.concatenate(list(made.lengths()))
    assert lengths.tolist() == [[len(source), len(target)] for source, target in EXPECTED]
    assert [len(shard) for shard in made.lengths()] == [30, 30, 30, 10]
    assert (made.num_pairs, made.fingerprint) == (100, "of these lines")


def test_any_pairs_are_read_in_the_order_asked_for(tmp_path):
    made = make_shards(tmp_path, SOURCE, TARGET, with_text=True)
    rows = np.array([99, 0, 29, 30, 59, 60, 30])
    source, target = made.ids(rows)
    assert source.lengths.tolist() == [len(EXPECTED[row][0]) for row in rows]
    assert source.flat.tolist() == [id_ for row in rows for id_ in EXPECTED[row][0]]
    assert target.flat.tolist() == [id_ for row in rows for id_ in EXPECTED[row][1]]
    assert made.texts(rows) == ([SOURCE[row] for row in rows], [TARGET[row] for row in rows])
    assert made.ids(rows[:0])[0].flat.tolist() == []


def test_a_shard_for_each_file_that_may_be_open_is_no_limit(tmp_path):
    made = make_shards(tmp_path, SOURCE, TARGET)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(os.listdir("/proc/self/fd"))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 3, before[1]))
        again = Shards(made.folder)  # of 4 shards, which stay open
        assert len(again.ids(np.array([0, 30, 60, 90]))[0].lengths) == 4
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert 512 < soft <= before[1] == hard
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        Shards(made.folder)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == before  # never lowered
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_file_that_the_system_refuses_is_named_and_not_taken_for_an_empty_one(tmp_path):
    made = make_shards(tmp_path, SOURCE, TARGET)
    (path,) = tmp_path.rglob("train-00001.array_record")
    path.unlink()
    path.mkdir()  # can be opened, not read
    for read in (lambda: made.ids(np.array([40])), lambda: list(made.blocks())):
        with pytest.raises(OSError, match="Is a directory.*train-00001.array_record"):
            read()
    assert len(made.ids(np.array([29]))[0].flat)  # of the shard before


def test_text_of_any_letters_comes_back(tmp_path):
    source, target = ["Äpfel\u2028 ", "\t𝄞"], ["\x01a", "e\u0301"]
    encoders = [lambda texts: [[1]] * len(texts)] * 2
    made = make_shards(tmp_path, source, target, encoders, with_text=True)
    assert made.texts(np.array([0, 1])) == (["Äpfel", "𝄞"], target)


BLANKS = " \t\u00a0\u3000"


def test_blanks_around_a_line_are_not_trained(tmp_path):
    lines = [f"{blank}{line}{blank}" for line, blank in zip(SOURCE, BLANKS * 25, strict=True)]
    data = DataConfig(source_vocab_size=20)
    vocabulary = Vocabulary.train(lines, TARGET, data)
    made = preparation(tmp_path, Lines(lines, [f"{line} " for line in TARGET]), vocabulary, True)
    made.run()
    source = vocabulary.source.encode(vocabulary.source.read(lines)).to_list()  # as served
    target = vocabulary.target.encode(TARGET).to_list()
    assert pairs_of(Shards(made.folder)) == list(zip(source, target, strict=True))
    assert Shards(made.folder).texts(np.arange(100)) == (SOURCE, TARGET)


def test_pairs_with_a_blank_side_are_left_out(tmp_path):
    source, target = ["a", "", "b", " \t", "\u200b\ufeff", "c"], ["a", "a", " ", "b", "d", "d"]
    made = make_shards(tmp_path, source, target)
    assert pairs_of(made) == [(ids("a"), ids("aa")), (ids("c"), ids("dd"))]
    assert made.num_pairs == 6


def test_a_shard_of_blank_pairs_is_empty(tmp_path):
    source = [*SOURCE[:30], *[""] * 30, *SOURCE[60:]]
    made = make_shards(tmp_path, source, TARGET)
    expected = EXPECTED[:30] + EXPECTED[60:]
    assert pairs_of(made) == expected
    assert made.ids(np.array([30]))[0].flat.tolist() == expected[30][0]


def test_no_pair_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="no training pair"):
        make_shards(tmp_path, [], [])


def test_folders_differ_by_all_that_shards_depend_on(tmp_path):
    data = DataConfig(source_vocab_size=16, target_vocab_size=15, joint_vocabulary=False)
    one = Vocabulary.train(SOURCE, TARGET, data)
    other = Vocabulary(one.target, one.source)
    corpus, changed = Lines(SOURCE, TARGET), Lines(SOURCE, TARGET)
    changed.fingerprint = "another"

    def folder(*arguments):
        return preparation(tmp_path, *arguments).folder

    folders = [
        folder(corpus, one, False),
        folder(corpus, one, True),
        folder(corpus, other, False),
        folder(changed, one, False),
    ]
    assert len(set(folders)) == 4
    assert folder(corpus, one, False) == folders[0]
    assert folders[0].parent == tmp_path / "prepared"


def test_subwords_of_the_vocabulary_are_those_of_its_graph(tmp_path):
    vocabulary = Vocabulary.train(SOURCE, TARGET, DataConfig(source_vocab_size=20))
    made = preparation(tmp_path, Lines(SOURCE, TARGET), vocabulary, False)
    made.run()
    source = vocabulary.source.encode(SOURCE).to_list()
    target = vocabulary.target.encode(TARGET).to_list()
    assert pairs_of(Shards(made.folder)) == list(zip(source, target, strict=True))


# Going on.


def test_a_stopped_preparation_goes_on_with_the_next_shard(tmp_path):
    first = Counting(encode_letters, stop_after=70)
    corpus = Lines(SOURCE, TARGET)
    with pytest.raises(KeyboardInterrupt):
        Preparation(tmp_path, corpus, (first, encode_twice)).run()
    with pytest.raises(UserError, match=r"train-00002\.array_record is missing.*prepare"):
        Shards(tmp_path)
    assert not list(tmp_path.glob("*.partial"))
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("train-*")}
    assert len(before) == 4

    second = Counting(encode_letters)
    Preparation(tmp_path, corpus, (second, encode_twice)).run()
    assert second.seen == SOURCE[60:]
    assert pairs_of(Shards(tmp_path)) == EXPECTED
    assert all((tmp_path / name).stat().st_mtime_ns == at for name, at in before.items())

    make_shards(tmp_path / "whole", SOURCE, TARGET)
    for shard in range(4):
        assert raw(tmp_path, shard) == raw(tmp_path / "whole", shard)


def test_what_is_complete_is_not_made_again(tmp_path):
    make_shards(tmp_path, SOURCE, TARGET)
    again = Counting(encode_letters)
    Preparation(tmp_path, Lines(SOURCE, TARGET), (again, encode_twice)).run()
    assert again.seen == []


KILLED = """
    import os, signal
    from pathlib import Path
    from dtmt_tf.data import shards
    from tests.data.toy_corpus import ENCODERS, Lines, make_lines

    shards.PAIRS_PER_SHARD, shards.PAIRS_AT_ONCE = 30, 7
    serialized, written = shards._serialized, []

    def serialize(example):
        written.append(example)
        if len(written) == 75:
            os.kill(os.getpid(), signal.SIGKILL)
        return serialized(example)

    shards._serialized = serialize
    lines = Lines(make_lines(100), make_lines(100, seed=1))
    shards.Preparation(Path({folder!r}), lines, ENCODERS).run()
"""


def test_a_killed_preparation_is_completed_by_the_next(tmp_path):
    code = IMPORTING + textwrap.dedent(KILLED).format(folder=str(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert len(list(tmp_path.glob("train-*.array_record"))) == 2
    assert list(tmp_path.glob("*.partial"))  # of the third shard
    rest = Counting(encode_letters)
    Preparation(tmp_path, Lines(SOURCE, TARGET), (rest, encode_twice)).run()
    assert rest.seen == SOURCE[60:]
    assert pairs_of(Shards(tmp_path)) == EXPECTED


def test_a_full_disk_stops_it_with_whole_shards_alone(tmp_path):
    long = ["".join(np.random.default_rng(k).choice(list("abcdefgh"), 9000)) for k in range(30)]
    corpus = Lines(SOURCE[:60], TARGET[:30] + long)
    with file_size_limit(150_000), pytest.raises(UserError, match="train-00001.*Make room"):
        Preparation(tmp_path, corpus, ENCODERS, with_text=True).run()
    assert not list(tmp_path.glob("*.partial"))
    rest = Counting(encode_letters)
    Preparation(tmp_path, corpus, (rest, encode_twice), with_text=True).run()
    assert rest.seen == SOURCE[30:60]
    assert Shards(tmp_path).texts(np.array([29, 59]))[1] == [TARGET[29], long[29]]


# Damage.


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("damage", [flip, truncate])
@pytest.mark.parametrize("name", ["train-00001.array_record", "train-00002.lengths.npy"])
def test_a_damaged_file_is_named_and_mended_by_removing_it(tmp_path, caplog, damage, name):
    make_shards(tmp_path, SOURCE, TARGET)
    damage(tmp_path / name)
    with pytest.raises(UserError, match=rf"{name} is damaged.*Remove it.*prepare"):
        Shards(tmp_path)
    (tmp_path / name).unlink()
    again = Counting(encode_letters)
    Preparation(tmp_path, Lines(SOURCE, TARGET), (again, encode_twice)).run()
    assert f"{name} is missing" in caplog.text
    shard = int(name[6:11])
    assert again.seen == SOURCE[30 * shard : 30 * shard + 30]
    assert pairs_of(Shards(tmp_path)) == EXPECTED


@pytest.mark.parametrize("name", ["train-00001.array_record", "train-00003.lengths.npy"])
def test_a_missing_file_is_named(tmp_path, name):
    make_shards(tmp_path, SOURCE, TARGET)
    (tmp_path / name).unlink()
    with pytest.raises(UserError, match=f"{name} is missing.*prepare"):
        Shards(tmp_path)


def test_a_missing_or_damaged_manifest_is_named(tmp_path):
    with pytest.raises(UserError, match=r"manifest\.json is missing.*prepare"):
        Shards(tmp_path)
    make_shards(tmp_path, SOURCE, TARGET)
    truncate(tmp_path / "manifest.json")
    with pytest.raises(UserError, match=r"manifest\.json is damaged.*prepare"):
        Shards(tmp_path)


def test_the_manifest_names_every_file_with_its_size(tmp_path):
    make_shards(tmp_path, SOURCE, TARGET)
    files = json.loads((tmp_path / "manifest.json").read_text())["files"]
    assert {name: entry["bytes"] for name, entry in files.items()} == {
        path.name: path.stat().st_size for path in tmp_path.glob("train-*")
    }


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", "{}", '{"corpus": 1}', '{"files": []}', b"\xff"]
)
def test_a_foreign_manifest_is_named(tmp_path, content):
    make_shards(tmp_path, SOURCE, TARGET)
    content = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(UserError, match=r"manifest\.json is .*Remove its folder and run dtmt pre"):
        Shards(tmp_path)


def test_a_manifest_whose_entries_are_foreign_is_named(tmp_path):
    make_shards(tmp_path, SOURCE, TARGET)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text())
    for entry in (5, {}, {"bytes": "many"}, []):
        manifest["files"]["train-00001.array_record"] = entry
        path.write_text(json.dumps(manifest))
        with pytest.raises(UserError, match=r"train-00001\.array_record is damaged"):
            Shards(tmp_path)
