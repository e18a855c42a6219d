import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow_datasets as tfds

from dtmt_tf.data import parallel_text
from dtmt_tf.data.check import Finding
from dtmt_tf.data.parallel_text import Facts, Split, fingerprint, prepare
from dtmt_tf.errors import UserError
from tests.data.toy_corpus import IMPORTING
from tests.disk import file_size_limit

ROOT = Path(__file__).parents[2]
FINDING = Finding("copy", "warning", "a.en", 7, 2, "source and target are the same")
PAIRS = [(f"line {k}", f"Zeile {k} \u2028 ä" if k else "") for k in range(25)]


def part(pairs):
    encoded = [(source.encode(), target.encode()) for source, target in pairs]
    return Split(len(encoded), lambda: iter(encoded))


def gather():
    parts = {"train": part(PAIRS), "news-test.2008": part(PAIRS[3:5]), "all": part(PAIRS[9:10])}
    return parts, Facts((FINDING,), "1234")


@pytest.fixture
def text(tmp_path, monkeypatch):
    """25 pairs in three shards of up to 10, read 4 at once."""
    monkeypatch.setattr(parallel_text, "PAIRS_PER_SHARD", 10)
    monkeypatch.setattr(parallel_text, "PAIRS_AT_ONCE", 4)
    return prepare(tmp_path, ("en", "de"), ["key"], gather)


def shards(text):
    return sorted(Path(text.builder.data_dir).glob("parallel_text-train.*"))


def test_pairs_come_back_in_order_with_what_is_known_of_them(text):
    assert text.sizes == {"train": 25, "news-test.2008": 2, "all": 1}
    assert list(text.stream("train")) == PAIRS
    assert list(text.stream("news-test.2008")) == PAIRS[3:5]
    assert list(text.stream("all")) == PAIRS[9:10]
    assert text.facts == Facts((FINDING,), "1234")
    assert len(shards(text)) == 3


def test_any_range_can_be_read(text):
    for start in (0, 3, 9, 10, 24, 25, 30):
        for stop in (None, 0, 4, 10, 21, 25, 30):
            assert list(text.stream("train", start, stop)) == PAIRS[start:stop], (start, stop)


def test_shards_outside_a_range_are_not_opened(text):
    first, _, last = shards(text)
    first.unlink()
    last.unlink()
    assert list(text.stream("train", 10, 20)) == PAIRS[10:20]


def test_tfds_loads_it_by_name_and_knows_its_languages(text, tmp_path):
    name = text.builder.builder_config.name
    code = (
        f"{IMPORTING}import sys, tensorflow_datasets as tfds\n"
        "data = tfds.load(sys.argv[1], split='train[8:12]', data_dir=sys.argv[2])\n"
        "for pair in tfds.as_numpy(data):\n"
        "    print(pair['en'].decode(), ascii(pair['de'].decode()), sep='|')\n"
        "assert 'dtmt_tf.data' not in sys.modules"  # what wrote it is not needed
    )
    command = [sys.executable, "-c", code, f"parallel_text/{name}", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    expected = [f"{source}|{ascii(target)}" for source, target in PAIRS[8:12]]
    assert (result.returncode, result.stdout.splitlines()) == (0, expected), result.stderr
    loaded = tfds.load(f"parallel_text/{name}", split="news-test_2008", data_dir=tmp_path)
    assert [pair["en"] for pair in tfds.as_numpy(loaded)] == [b"line 3", b"line 4"]


def test_it_is_prepared_once_for_each_key_and_languages(text, tmp_path):
    again = prepare(tmp_path, ("en", "de"), ["key"], pytest.fail)
    assert list(again.stream("train")) == PAIRS and again.facts == text.facts
    calls = []
    for languages, key in [
        (("en", "de"), ["k", "ey"]), (("de", "en"), ["key"]), (("en", "de"), ["key", ""])
    ]:  # fmt: skip
        prepare(tmp_path, languages, key, lambda: calls.append(1) or gather())
    assert len(calls) == 3


def test_a_failure_leaves_nothing_that_is_taken_for_complete(tmp_path):
    def fail(error):
        def read():
            yield PAIRS[0][0].encode(), b"x"
            raise error

        return {"train": Split(2, read)}, Facts()

    for error in (KeyboardInterrupt(), UserError("a fault")):
        with pytest.raises(type(error)):
            prepare(tmp_path, ("en", "de"), ["key"], lambda error=error: fail(error))
        assert not [path for path in tmp_path.rglob("*") if path.suffix or "tfrecord" in path.name]
    assert list(prepare(tmp_path, ("en", "de"), ["key"], gather).stream("train")) == PAIRS


SLOW = """
import sys, time
from pathlib import Path
from dtmt_tf.data.parallel_text import Split, Facts, prepare
def read(seconds):
    yield b"a", b"b"
    print("began", flush=True, file=sys.__stdout__)
    time.sleep(seconds)
for folder, seconds in zip(sys.argv[1:], (1, 60)):
    parts = {"train": Split(9, lambda: read(seconds))}
    prepare(Path(folder), ("en", "de"), ["key"], lambda: (parts, Facts()))
"""


def test_two_processes_prepare_it_once_and_one_removes_what_the_other_was_killed_in(tmp_path):
    once, killed = folders = tmp_path / "once", tmp_path / "killed"
    for folder in folders:
        folder.mkdir()
    command = [sys.executable, "-c", IMPORTING + SLOW, *folders]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "began\n"
    text = prepare(once, ("en", "de"), ["key"], pytest.fail)
    assert list(text.stream("train")) == [("a", "b")]
    assert process.stdout.readline() == "began\n"  # the first is done
    process.kill()
    process.communicate()
    assert list(killed.glob("parallel_text/*/incomplete.*"))
    assert list(prepare(killed, ("en", "de"), ["key"], gather).stream("train")) == PAIRS
    assert not list(killed.glob("parallel_text/*/incomplete.*"))


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path):
    with file_size_limit(1000), pytest.raises(UserError) as error:
        prepare(tmp_path, ("en", "de"), ["key"], gather)
    assert "could not be written" in str(error.value) and "Make room" in str(error.value)
    assert list(prepare(tmp_path, ("en", "de"), ["key"], gather).stream("train")) == PAIRS


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes().replace(b"line 12", b"line 13")),
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
    ],
    ids=["changed", "cut off", "empty", "missing"],
)
def test_a_damaged_shard_is_named_with_the_way_out(text, damage):
    damage(shards(text)[1])
    with pytest.raises(UserError) as error:
        list(text.stream("train"))
    assert f"The prepared data set {text.builder.data_dir} is damaged" in str(error.value)
    assert "Remove the folder" in str(error.value)
    assert list(text.stream("train", 0, 10)) == PAIRS[:10]


@pytest.mark.parametrize("name", ["dataset_info.json", "features.json", "metadata.json"])
def test_damaged_descriptions_are_named(text, tmp_path, name):
    (Path(text.builder.data_dir) / name).write_bytes(b"")
    with pytest.raises(UserError, match="is damaged: .*Remove the folder"):
        prepare(tmp_path, ("en", "de"), ["key"], pytest.fail)


def test_the_fingerprint_is_that_of_earlier_versions():
    # resumed runs compare it with what their checkpoints hold
    assert fingerprint([b"one", b"two"], [b"eins", "zw\u00f6lf".encode()]) == "e5a22bfea2cbaefe"
    assert fingerprint([b"one", b"two"], [b"a"]) != fingerprint([b"one"], [b"two", b"a"])
