"""Models that a catalogue names: packed, found, downloaded once, refused if they are others."""

import contextlib
import functools
import hashlib
import http.client
import http.server
import json
import re
import threading
import zipfile
from pathlib import Path

import pytest

from dtmt_tf.commands import common, options
from dtmt_tf.errors import UserError
from dtmt_tf.export.archive import pack
from dtmt_tf.export.manifest import problems, write_manifest
from dtmt_tf.fetch import fetch
from dtmt_tf.files import write_json
from dtmt_tf.pretrained import find_pretrained
from dtmt_tf.translator import find_model
from tests.disk import file_size_limit

SETTINGS = {"data": {"source_language": "en", "target_language": "de"}}


@pytest.fixture
def version(tmp_path):
    """Version 3 of a run, whole, though nothing could load it."""
    folder = tmp_path / "runs" / "toy_ende" / "one" / "3"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"graph")
    (folder / "variables" / "data").write_bytes(bytes(100_000))
    (folder / "experiment.json").write_text(json.dumps({"settings": SETTINGS}))
    scores = {
        "test": {"bleu": 39.618},  # of an earlier version
        "validation": {"bleu": 40.0, "weights_sha256": "ab", "decoding": {"beam_size": 4}},
        "old": {"bleu": 41.0, "checkpoint_steps": [5]},
        "other": {"bleu": 42.0, "weights_sha256": "cd"},
        "wide": {"bleu": 43.0, "weights_sha256": "ab", "decoding": {"beam_size": 9}},
    }
    (folder / "scores.json").write_text(json.dumps(scores))
    facts = {"weights_sha256": "ab", "checkpoints": [7]}
    write_manifest(folder, {"model": "toy_ende/one", "identity": "12345678abc", **facts})
    return folder


@pytest.fixture
def shared(version, tmp_path, monkeypatch):
    """The folder of a catalogue that calls this version `toy`, and that is configured."""
    terms = tmp_path / "TERMS"
    terms.write_text("Free.")
    pack(version, "toy", terms, tmp_path / "dist")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DTMT_MODELS", str(tmp_path / "dist" / "models.json"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "dist"


def entries(shared):
    return json.loads((shared / "models.json").read_text())["models"]


def change(shared, **values):
    """Changes what the catalogue says of `toy`."""
    found = entries(shared)
    found["toy"] |= values
    (shared / "models.json").write_text(json.dumps({"format": 1, "models": found}))


def kept(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache/dtmt_tf/models/toy").glob("[!.]*"))


@contextlib.contextmanager
def served(folder):
    """The address of a server of a folder, and the paths that it was asked for."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, code="-", size="-"):
            asked.append(self.path)

    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_a_score_of_weights_that_the_export_rounded_is_not_the_models(version, tmp_path):
    for kind, scores in (("none", ["test", "validation"]), ("int8", [])):
        settings = {"settings": SETTINGS | {"export": {"quantize": kind}}}
        (version / "experiment.json").write_text(json.dumps(settings))
        facts = {"weights_sha256": "ab", "checkpoints": [7]}
        write_manifest(version, {"model": "toy_ende/one", "identity": "12345678abc", **facts})
        (tmp_path / "TERMS").write_text("Free.")
        pack(version, f"toy-{kind}", tmp_path / "TERMS", tmp_path / "dist")
        assert sorted(entries(tmp_path / "dist")[f"toy-{kind}"]["bleu"]) == scores


def test_an_archive_holds_the_version_and_its_licence_and_the_catalogue_says_what_it_is(
    shared, version, tmp_path
):
    (entry,) = entries(shared).values()
    archive = shared / entry["file"]
    assert re.fullmatch("toy-[0-9a-f]{8}.zip", archive.name)
    assert entry["size"] == archive.stat().st_size
    assert (entry["run"], entry["bleu"]) == ("toy_ende/one", {"test": 39.62, "validation": 40})
    assert (entry["source_language"], entry["target_language"]) == ("en", "de")
    with zipfile.ZipFile(archive) as packed:
        names = packed.namelist()
        assert packed.read("toy/LICENSE") == b"Free."
    files = [path.relative_to(version) for path in version.rglob("*") if path.is_file()]
    assert set(names) == {"toy/LICENSE", *(f"toy/3/{name}" for name in files)}
    names = sorted(path.name for path in shared.iterdir())
    assert names == [".models.json.lock", "models.json", archive.name]
    before = archive.read_bytes()
    pack(version, "toy", tmp_path / "TERMS", shared)
    with contextlib.chdir(version):
        pack(Path("."), "another", tmp_path / "TERMS", shared)
    assert archive.read_bytes() == before and list(entries(shared)) == ["another", "toy"]


@pytest.mark.parametrize("names", [("one", "two"), ("one", "one")], ids=" ".join)
def test_two_that_pack_at_once_leave_a_catalogue_of_whole_archives(
    shared, version, tmp_path, monkeypatch, names
):
    (tmp_path / "OTHER").write_text("Not free.")
    other = threading.Thread(target=pack, args=(version, names[1], tmp_path / "OTHER", shared))

    def late(path, content):
        """Has the other come, if it can, before the catalogue is written."""
        if other.ident is None:
            other.start()
            other.join(0.5)
        write_json(path, content)

    monkeypatch.setattr("dtmt_tf.export.archive.write_json", late)
    pack(version, names[0], tmp_path / "TERMS", shared)
    other.join()
    assert set(entries(shared)) == {"toy", *names}
    for entry in entries(shared).values():
        content = (shared / entry["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]


def test_an_archive_is_checked_before_it_takes_the_place_of_another(
    shared, version, tmp_path, monkeypatch
):
    """Its catalogue names that one as long as it is there."""
    before = {path: path.read_bytes() for path in shared.iterdir()}
    (tmp_path / "OTHER").write_text("Not free.")
    (shared / ".dtmt-pack-killed").mkdir()

    def full(*_):
        raise UserError("No space left.")

    with monkeypatch.context() as patch:
        patch.setattr("dtmt_tf.export.archive.unpacked", full)
        with pytest.raises(UserError, match="No space left"):
            pack(version, "toy", tmp_path / "OTHER", shared)
    assert {path: path.read_bytes() for path in shared.iterdir()} == before
    other = pack(version, "toy", tmp_path / "OTHER", shared)
    assert {path for path in shared.iterdir()} == {*before, other}
    assert entries(shared)["toy"]["file"] == other.name


def test_a_version_that_has_changed_is_not_packed(shared, version, tmp_path):
    (version / "saved_model.pb").write_bytes(b"other")
    before = sorted(path.name for path in shared.iterdir())
    with pytest.raises(UserError, match="not as it was exported:\n  saved_model.pb has other"):
        pack(version, "new", tmp_path / "TERMS", shared)
    with pytest.raises(UserError, match="no published version"):
        pack(version.rename(version.with_name("refused-3")), "x", tmp_path / "TERMS", shared)
    assert sorted(path.name for path in shared.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "licence", "catalogue", "told"),
    [
        ("../toy", "TERMS", "", "letters, digits"),
        ("toy", "absent", "", "Cannot read the licence absent: No such file"),
        ("toy", "TERMS", "{}", "no catalogue of models"),
    ],
)
def test_what_can_not_be_packed_is_told(shared, version, name, licence, catalogue, told):
    if catalogue:
        (shared / "models.json").write_text(catalogue)
    with pytest.raises(UserError, match=told):
        pack(version, name, Path(licence), shared)


def test_a_model_is_downloaded_once_and_whole(shared, version, tmp_path, monkeypatch):
    with served(shared) as (address, asked):
        monkeypatch.setenv("DTMT_MODELS", f"{address}/models.json")
        folder = find_pretrained("toy")
        assert find_pretrained("toy") == folder
    archive = entries(shared)["toy"]
    assert asked == ["/models.json", f"/{archive['file']}", "/models.json"]
    assert kept(tmp_path) == [folder.name] == [archive["sha256"][:16]]
    assert problems(folder / "3") == [] and (folder / "LICENSE").read_text() == "Free."
    assert find_model(Path("toy")) == folder / "3"


def test_the_last_download_serves_while_the_catalogue_is_out_of_reach(shared, monkeypatch, caplog):
    folder = find_pretrained("toy")
    monkeypatch.setenv("DTMT_MODELS", "http://127.0.0.1:9/models.json")
    assert find_pretrained("toy") == folder
    assert "Could not read http://127.0.0.1:9/models.json" in caplog.text
    with pytest.raises(UserError, match=r"Could not read http://127.0.0.1:9.*DTMT_MODELS should"):
        find_pretrained("other")


def test_an_answer_that_ends_early_is_no_answer(shared, monkeypatch, caplog):
    with served(shared) as (address, _):
        monkeypatch.setenv("DTMT_MODELS", f"{address}/models.json")
        folder = find_pretrained("toy")
        size = http.client.HTTPResponse.read
        read = lambda response, most=None: size(response, most)[:-9]  # noqa: E731
        monkeypatch.setattr(http.client.HTTPResponse, "read", read)
        assert find_pretrained("toy") == folder  # by the catalogue of before
        assert "the connection ended after" in caplog.text
        with pytest.raises(OSError, match="the connection ended after"):
            fetch(f"{address}/{entries(shared)['toy']['file']}", shared / "new")


def test_a_wrong_checksum_is_refused_and_nothing_stays(shared, tmp_path):
    right = entries(shared)["toy"]["sha256"]
    change(shared, sha256="0" * 64)
    with pytest.raises(UserError) as error:
        find_pretrained("toy")
    told = str(error.value)
    assert ".zip is not the archive that the catalogue names" in told
    assert f"expected SHA-256 {'0' * 64}" in told and f"found SHA-256    {right}" in told
    assert kept(tmp_path) == []


def test_half_a_download_is_never_used(shared, tmp_path):
    archive = shared / entries(shared)["toy"]["file"]
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="not the archive"):
        find_pretrained("toy")
    archive.write_bytes(whole)
    with file_size_limit(1000), pytest.raises(UserError, match="Make room"):
        find_pretrained("toy")
    assert kept(tmp_path) == []
    left = tmp_path / "cache/dtmt_tf/models/toy"  # by a process that was killed
    sha256 = entries(shared)["toy"]["sha256"]
    (left / f"{sha256[:16]}.partial" / "toy" / "9").mkdir(parents=True)
    (left / "toy.partial").write_bytes(whole[:9])
    folder = find_pretrained("toy")
    assert [path.name for path in folder.iterdir() if path.is_dir()] == ["3"]
    assert kept(tmp_path) == [sha256[:16]]


def test_an_archive_that_is_none_is_refused(shared, tmp_path):
    wrong = shared / "wrong.zip"
    with zipfile.ZipFile(wrong, "w") as packed:
        packed.writestr("toy/readme", "")
        packed.writestr("../evil/saved_model.pb", "")
    contents = [wrong.read_bytes(), b"no archive"]
    for method, name in [
        (zipfile.ZIP_STORED, "toy/x1/saved_model.pb"),  # no version
        (zipfile.ZIP_STORED, "toy/1/" + 300 * "n"),
        (zipfile.ZIP_LZMA, "toy/1/saved_model.pb"),
        (zipfile.ZIP_BZIP2, "toy/1/saved_model.pb"),
    ]:
        with zipfile.ZipFile(wrong, "w", method) as packed:
            packed.writestr(name, bytes(range(256)) * 9)
        content = bytearray(wrong.read_bytes())
        if method != zipfile.ZIP_STORED:
            begin = 30 + len(name) + 12  # of what is packed
            content[begin : begin + 40] = 40 * b"\xff"
        contents.append(bytes(content))
    with zipfile.ZipFile(wrong, "w") as packed:
        packed.writestr("toy/\u00fc", "")
    contents.append(wrong.read_bytes().replace("\u00fc".encode(), b"\xff\xfe"))  # no UTF-8
    for content in contents:
        wrong.write_bytes(content)
        digest = fetch(wrong.as_uri(), tmp_path / "copy")
        change(shared, file="wrong.zip", sha256=digest)
        with pytest.raises(UserError, match="toy.partial (is no archive|could not be unpacked)"):
            find_pretrained("toy")
    assert kept(tmp_path) == [] and not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "no catalogue of models"),
        ('{"format": 2, "models": {}}', "format 2; this version of dtmt_tf reads format 1"),
        ('{"format": 1, "models": {"toy": {"file": "a"}}}', "KeyError: 'sha256'"),
        ('{"format": 1, "models": {"../x": {"file": "a", "sha256": "0"}}}', "the entry '../x'"),
        ('{"format": 1, "models": {"x": {"file": "http://[", "sha256": "0"}}}', "Invalid IPv6"),
        ("[" * 100_000, "RecursionError"),
    ],
)
def test_a_catalogue_that_is_none_is_told(shared, content, told):
    (shared / "models.json").write_text(content)
    with pytest.raises(UserError, match=told):
        find_pretrained("toy")


def test_a_name_that_is_nowhere_is_told_with_those_that_are_there(shared, monkeypatch):
    monkeypatch.chdir("runs")
    with pytest.raises(UserError, match="No model here is called 'toi', and none in .*") as error:
        find_model(Path("toi"))
    told = str(error.value)
    assert told.endswith("There are:\n  toy\n  toy_ende/one")


def test_a_run_here_without_an_export_is_told_how_to_make_one(shared):
    (shared.parent / "runs" / "toi" / "train").mkdir(parents=True)
    (shared.parent / "runs" / "toi" / "train" / "experiment.json").write_text("{}")
    with pytest.raises(UserError, match="toi holds no exported model. To export what is trained"):
        find_model(shared.parent / "runs" / "toi")
    arguments = ["--output-dir", "runs", "--model", "toi"]
    args = options.run_parser("", "", model="").parse_args(arguments)
    with pytest.raises(UserError, match="toi holds no exported model. To export what is trained"):
        find_model(common.model_place(args))


@pytest.mark.parametrize("place", ["toy", "runs/cldr_ende/toy", "runs/toy"])
def test_a_model_here_comes_before_one_of_that_name_elsewhere(shared, version, place, caplog):
    here = shared.parent / place
    here.mkdir(parents=True)
    arguments = ["--output-dir", "runs", "--model", "toy"]
    args = options.run_parser("", "", model="").parse_args(arguments)
    assert find_model(common.model_place(args)) == find_pretrained("toy") / "3"
    assert f"{place} holds no exported model: the pre-trained toy is taken." in caplog.text
    version.rename(here / "3")
    assert find_model(common.model_place(args)).resolve() == here / "3"


def test_no_catalogue_is_asked_for_paths_or_unless_it_is_configured(shared, monkeypatch):
    (shared / "models.json").write_text("{")
    for place in ("./toy", "runs/toy", ".."):
        with pytest.raises(UserError, match="holds no exported model"):
            find_model(Path(shared / place))
        assert find_pretrained(place) is None
    monkeypatch.delenv("DTMT_MODELS")
    with pytest.raises(UserError, match="holds no exported model"):
        find_model(Path("toy"))
