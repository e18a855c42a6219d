"""Versions that `dtmt serve` takes up, refuses, tries again and lets go."""

import errno
import gc
import os
import shutil
import threading
import time
import weakref

import numpy as np
import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.export.warmup import write_warmup
from dtmt_tf.server import Batching, Models
from dtmt_tf.server.models import RETRY_SECONDS, ServedModel


def fail(_):
    """Meets a machine with too many open files."""
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_version_that_was_moved_away_and_back_is_tried_again(toy, caplog):
    models = Models({"toy": toy}, Batching([1, 4], 0.01))
    (toy / "2").mkdir()
    for told, name in ((1, "2"), (1, "withdrawn-2"), (2, "2"), (2, "2")):
        for found in toy.glob("*2"):
            found.rename(toy / name)
        models.refresh()
        assert caplog.text.count("toy stays at version 1") == told
    models.close()


def test_a_version_that_another_replaces_under_its_number_is_loaded(toy):
    models = Models({"toy": toy}, Batching([1, 4], 0.01))
    old = models.find("toy")
    shutil.copytree(toy / "1", toy / "made-1")
    os.utime(toy / "made-1" / "saved_model.pb")
    shutil.rmtree(toy / "1")
    for _ in range(2):
        models.refresh()
        assert models.find("toy") is old  # there is no other
    (toy / "made-1").rename(toy / "1")
    models.refresh()
    new = models.find("toy")
    assert new is not old and new.version == 1
    models.refresh()
    assert models.find("toy") is new
    models.close()


def test_a_newer_version_takes_over_and_its_requests_are_answered(toy):
    models = Models({"toy": toy}, Batching([1, 4], 0.01))
    text = {"text": np.array([b"3"], object)}
    old = models.find("toy")
    assert old.predict("count", text, (), 10)["last"].tolist() == [3]
    shutil.copytree(toy / "1", toy / "2")
    (toy / "3").mkdir()
    models.refresh()
    assert models.find("toy") is old  # version 3 can not be loaded
    (toy / "3").rmdir()
    models.refresh()
    new = models.find("toy")
    assert (old.version, new.version) == (1, 2)
    for model in (old, new):  # a request may have found the old one before
        assert model.predict("count", text, (), 10)["last"].tolist() == [3]
    (toy / "2").rename(toy / "withdrawn-2")
    models.refresh()
    assert models.find("toy").version == 1
    models.close()


def test_a_version_that_was_replaced_goes_with_its_last_request(toy):
    models = Models({"toy": toy}, Batching([1, 4], 0.01))
    text = {"text": np.array([b"3"], object)}
    old = models.find("toy")
    old.predict("count", text, (), 10)
    shutil.copytree(toy / "1", toy / "2")
    models.refresh()
    assert old.predict("grid", text, (), 10)["grid"].shape == (1, 5)  # it was found before
    gone = threading.Event()
    weakref.finalize(old, gone.set)
    gc.disable()
    try:
        del old
        assert gone.wait(1800)  # its threads end
    finally:
        gc.enable()
    models.close()


def test_batches_larger_than_a_model_takes_are_refused_at_the_start(served_models):
    translator = {"translator": served_models["translator"]}
    with pytest.raises(UserError, match="sizes: .* at most 128 lines .*max_lines.*Received: 1 129"):
        Models(translator, Batching([1, 129], 0.01))
    Models(translator, Batching([1, 128], 0.01)).close()


def test_a_folder_that_is_out_of_reach_for_now_is_served_on(toy, monkeypatch):
    models = Models({"toy": toy})
    shutil.copytree(toy / "1", toy / "2")
    with monkeypatch.context() as patch:
        patch.setattr("dtmt_tf.server.models.live_versions", fail)
        models.refresh()
        assert models.find("toy").version == 1
    with monkeypatch.context() as patch:
        patch.setattr("dtmt_tf.translator.places.models_near", pytest.fail)  # it takes long
        toy.rename(toy.with_name("away"))
        models.refresh()
        assert models.find("toy").version == 1
        toy.with_name("away").rename(toy)
    models.refresh()
    assert models.find("toy").version == 2
    models.close()


def test_a_version_that_was_refused_while_it_was_copied_is_tried_when_it_is_whole(toy, caplog):
    models = Models({"toy": toy})
    whole = shutil.copytree(toy / "1", toy / "copied-2")
    (toy / "2").mkdir()
    told = []
    for file in sorted(path for path in whole.rglob("*") if path.is_file()):
        for _ in range(2):
            models.refresh()
            told.append(len(caplog.records))
        assert models.find("toy").version == 1
        (toy / "2" / file.relative_to(whole)).parent.mkdir(exist_ok=True)
        shutil.copy2(file, toy / "2" / file.relative_to(whole))
    models.refresh()
    assert models.find("toy").version == 2
    assert told[::2] == told[1::2] == [*range(1, 1 + len(told) // 2)]  # once a change
    models.close()


def test_a_version_that_the_machine_had_no_room_for_is_tried_again_after_a_while(
    toy, monkeypatch, caplog
):
    models = Models({"toy": toy})
    shutil.copytree(toy / "1", toy / "2")
    with monkeypatch.context() as patch:
        patch.setattr("dtmt_tf.server.models.Session", fail)
        models.refresh()
    models.refresh()
    assert models.find("toy").version == 1 and len(caplog.records) == 1
    now = time.monotonic()
    monkeypatch.setattr("time.monotonic", lambda: now + RETRY_SECONDS)
    models.refresh()
    assert models.find("toy").version == 2
    models.close()


def test_a_model_is_warm_at_its_default_first_and_elsewhere_soon(toy, monkeypatch, caplog):
    asked, run = [], ServedModel._run
    monkeypatch.setattr(ServedModel, "_run", lambda *args: asked.append(args[1]) or run(*args))
    text = {"text": ["dogs"]}
    write_warmup(toy / "1", [("batch", text), ("serving_default", text), ("grid", text)])
    models = Models({"toy": toy})
    assert asked == ["serving_default"]
    models.warm_up()
    while len(asked) < 3:
        time.sleep(0.001)
    assert asked == ["serving_default", "batch", "grid"]
    monkeypatch.setattr(  # a newer version takes over when all of it is warm
        ServedModel, "_run", lambda *args: asked.append(models.find("toy").version) or run(*args)
    )
    shutil.copytree(toy / "1", toy / "2")
    models.refresh()
    assert asked[3:] == [1, 1, 1] and models.find("toy").version == 2
    models.close()
    shutil.rmtree(toy / "2")
    monkeypatch.undo()
    for signature, told in (("grid", True), ("batch", False)):
        write_warmup(toy / "1", [("batch", text), (signature, text if told is False else {})])
        models = Models({"toy": toy})
        for model in models:
            model.warm_up()
        assert ("toy/1: a warm-up request fails" in caplog.text) == told
        caplog.clear()
        models.close()
    write_warmup(toy / "1", [("serving_default", {"txt": ["dogs"]})])
    with pytest.raises(UserError, match="toy/1 can not be served"):
        Models({"toy": toy})


def test_what_is_written_while_a_model_warms_up_is_seen(toy, monkeypatch, capfd):
    write_warmup(toy / "1", [("batch", {"text": ["dogs"]})])
    monkeypatch.setattr(ServedModel, "_run", lambda *args: os.write(2, b"a warning"))
    (model,) = Models({"toy": toy})
    model.warm_up()
    assert capfd.readouterr().err == "a warning"
