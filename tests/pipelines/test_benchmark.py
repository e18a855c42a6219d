"""The benchmark measures what it says it does. What it measures, no test asserts."""

import argparse
import functools
import json
import random
import time
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf

import dtmt_tf.export
from dtmt_tf.commands import common
from dtmt_tf.config import DataConfig, DecodingConfig, EvaluationConfig
from dtmt_tf.errors import UserError
from dtmt_tf.models import DTMT
from dtmt_tf.planning import random_ids
from dtmt_tf.text import Vocabulary
from pipelines.benchmark import command as benchmark
from pipelines.benchmark import growth, products, speed, timing, translations, updates

TINY = [
    *(f"model.{module}_depth=0" for module in ("encoder", "query", "decoder")),
    *("model.units=8", "model.embedding_dim=8", "model.num_heads=2", "data.max_length=20"),
    *("data.max_tokens_per_batch=64", "data.source_vocab_size=40", "decoding.extra_length=4"),
]
WORDS = "null eins zwei drei vier fünf sechs sieben acht neun".split()


class Here:
    """`timing.Elsewhere` without the process."""

    def __init__(self, subject, options):
        self.subject = subject(options, time.time())

    def ask(self, method, *arguments):
        return getattr(self.subject, method)(*arguments)

    def close(self):
        pass


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Runs the command in this process; returns the record."""
    monkeypatch.setattr(timing, "Elsewhere", Here)
    monkeypatch.setattr(benchmark.startup, "start_tensorflow", lambda: None)  # it runs already
    monkeypatch.setattr(products, "SECONDS", 0.01)
    monkeypatch.setattr(products, "SQUARE", (64, 64, 64))
    strategy = tf.distribute.MirroredStrategy

    def one_device(devices, *options):
        return strategy(devices or ["CPU:0"], *options)

    monkeypatch.setattr(tf.distribute, "MirroredStrategy", one_device)
    monkeypatch.delenv("DTMT_DATA_DIR", raising=False)

    def call(action, *arguments, settings=TINY):
        path = tmp_path / f"benchmark-{action}.json"
        options = ["--windows", "1", "--updates", "2", "--output-dir", tmp_path / "models"]
        command = ["benchmark.py", action, *options, "--json", path, *arguments]
        command += ["--set", *settings]
        monkeypatch.setattr(benchmark.sys, "argv", list(map(str, command)))
        assert benchmark.command() == 0
        return json.loads(path.read_text())

    return call


@pytest.fixture
def text(tmp_path):
    """Options that name a small corpus of digits."""
    settings = list(TINY)
    for seed, (split, count) in enumerate({"train": 200, "validation": 9, "test": 9}.items()):
        random_ = random.Random(seed)
        digits = [random_.choices(range(10), k=random_.randint(1, 9)) for _ in range(count)]
        sides = {"source": [map(str, row) for row in digits],
                 "target": [[WORDS[k] for k in row] for row in digits]}  # fmt: skip
        for side, rows in sides.items():
            path = tmp_path / f"{split}.{side}"
            path.write_text("".join(" ".join(row) + "\n" for row in rows), encoding="utf-8")
            settings.append(f"data.{split}_{side}={path}")
    return {"settings": settings, "arguments": ["--data-dir", tmp_path]}


# Forms and batches.


def test_plain_and_fast_form_have_equal_losses_and_gradients(rng):
    settings = [*TINY, "model.encoder_depth=2", "model.initializer_range=0.5"]
    settings += ["training.label_smoothing=0.1"]  # with 0.2 rounding alone passes the bounds
    options = benchmark.parse(["train", "--set", *settings])
    experiment, _ = common.experiment(options)
    source = rng.integers(3, 40, (3, 7)).astype("int32")
    source[0, 4:] = 0
    target = rng.integers(3, 40, (3, 5)).astype("int32")
    found = []
    for form in ("fast", "plain"):
        step = updates.training_step(experiment, (40, 40), form)
        loss, *_, gradients = step.slice_sums(
            source, target, 0, tf.constant(0, tf.int64), step.weights
        )
        found.append((type(step.model), loss, gradients))
    (fast, loss, gradients), (plain, other_loss, others) = found
    assert fast is not plain
    assert loss > 0
    np.testing.assert_allclose(loss, other_loss, rtol=1e-6)
    assert len(gradients) == len(others)
    for one, other in zip(gradients, others, strict=True):
        # processors round differently: 1e-6 passes with AVX-512, not with AVX2
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(one).max())


def test_each_device_has_a_batch_of_its_own():
    options = benchmark.parse(["train", "--devices", "CPU:0", "CPU:1", "--set", *TINY])
    assert options.name.endswith("devices CPU:0 CPU:1")
    experiment, _ = common.experiment(options)
    step = updates.training_step(experiment, (9, 9), devices=options.devices)
    assert step.slices == 2 * experiment.training.accumulation_steps


# Commands.


def test_train_describes_speed_memory_parts_and_start(measure, tmp_path, capsys):
    record = measure("train", "--profile", tmp_path / "profile")
    (one,) = record["configurations"]
    assert record["name"] == one["name"] == ", ".join(["small", *TINY])
    assert one["corpus"] == "random ids"
    assert one["parameters"] > 1000
    assert one["updates"] == 2
    assert one["first_loss"] > 1
    rate = one["rate"]
    assert rate["worst"] == rate["median"] == rate["best"] > 0
    seconds = 2 * one["target_words_per_update"] / rate["median"]
    assert sum(one["parts"].values()) == pytest.approx(seconds, rel=1e-3)
    assert one["parts"]["encoder"] > 0 and one["parts"]["optimizer"] > 0
    gflops = one["megaflop_per_target_word"] * rate["median"] / 1000
    assert one["gflops"] == pytest.approx(gflops, rel=1e-3)
    assert one["traces"] == {"warm-up": 1, "later": 0}
    assert list(one["start"]) == ["TensorFlow", "training set", "model", "first update"]
    assert one["peak_memory"] > 0.1
    assert list(record["products"]) == ["64x64x64", "4x8x32"] and one["own_shape"] == "4x8x32"
    assert all(rate["median"] > 0 for rate in record["products"].values())
    assert record["machine"]["threads"] >= 1
    assert list((tmp_path / "profile" / "0").rglob("*.xplane.pb"))
    assert f"| {rate['median']:,.0f} |" in capsys.readouterr().out


def test_the_parts_of_an_update_add_up(monkeypatch):
    times = iter((1, 2, 4, 20, 50))  # encoder, query, transition, features, loss
    monkeypatch.setattr(updates, "seconds_of", lambda *_: next(times))
    step = Mock(slices=1, strategy=Mock(num_replicas_in_sync=2), model=Mock(spec=DTMT, cell=None))
    pieces = {
        "encoder": 1, "query": 2, "attention": 13, "decoder transition": 4, "softmax and loss": 30
    }  # fmt: skip
    assert updates.forward_seconds(step, []) == pieces
    monkeypatch.setattr(updates, "forward_seconds", lambda *_: pieces)
    monkeypatch.setattr(updates.Updates, "_optimizer_seconds", lambda _: 7)
    subject = object.__new__(updates.Updates)
    subject.step, subject.training = step, Mock(passes=4)  # on two devices, each half of them
    subject.batches = tf.data.Dataset.from_tensors((0, 0)).repeat(3)
    subject.seconds, subject.waited = [200, 210, 250], [1, 5, 9]
    assert subject.parts() == {
        "input": 5,
        **{name: 2 * seconds for name, seconds in pieces.items()},
        "backward": 210 - 5 - 2 * 50 - 3 * 7,
        "optimizer": 21,
    }


def test_other_models_are_measured_without_parts(measure):
    sizes = ["model.embedding_dim=8", "model.units=8", "data.max_tokens_per_batch=64",
             "data.source_vocab_size=40", "data.max_length=20"]  # fmt: skip
    record = measure("train", "--model", "rnn_baseline", settings=sizes)
    (one,) = record["configurations"]
    assert one["name"] == ", ".join(["small with rnn_baseline", *sizes]) and one["parts"] == {}
    assert one["rate"]["median"] > 0 and list(record["products"])[1] == "4x8x32"


def test_a_models_own_shape_is_that_of_its_typical_product():
    def shape(*arguments):
        return products.own_shape(benchmark.parse(arguments))

    assert shape("train") == (128, 256, 1024)
    assert shape("train", "--model", "rnn_bideep4x2") == (128, 1024, 4096)
    assert shape("train", "--model", "transformer_base") == (2048, 512, 2048)


def test_decode_counts_sentences_subwords_and_waiting(measure, text):
    record = measure("decode", "--memory", "--beam", 2, *text["arguments"],
                     settings=text["settings"])  # fmt: skip
    (one,) = record["configurations"]
    assert one["name"].endswith("beam 2, batches of 64")
    search = one["search"]
    assert (search["beam_size"], search["batch_size"], one["sentences"]) == (2, 64, 9)
    assert one["bleu"] == {}  # of fresh weights
    assert 1 <= one["subwords_per_sentence"] < 30
    assert 0 < one["latency"]["p50"] <= one["latency"]["p95"]
    assert one["traces"] == {"warm-up": 1, "later": 0}
    assert list(one["peak_memory_by_lines"]) == ["9", "18", "36"]
    assert one["rate"]["median"] > 0


def test_a_run_without_text_to_translate_is_named(monkeypatch):
    run = argparse.Namespace(
        scored_splits=[], folder="runs/mine", experiment=argparse.Namespace(decoding=None)
    )
    monkeypatch.setattr(translations.corpora, "need_run", lambda options: run)
    with pytest.raises(UserError, match="runs/mine has no text to translate"):
        translations.Translations(argparse.Namespace(), 0.0)


def test_decode_scores_what_was_measured_and_validation(monkeypatch):
    lines = {"validation": ["a b"], "test": ["c d", "e f"]}
    written = {"a b": "wrong it is here now", "c d": "ein Hund läuft im Schnee"}
    references = {"validation": ["ein Hund läuft"], "test": ["ein Hund läuft im Schnee"] * 2}
    subject = object.__new__(translations.Translations)
    subject.run = argparse.Namespace(
        scored_splits=["test"],
        corpus=argparse.Namespace(
            lines=lambda split: (lines[split], references[split]), sizes=["validation", "test"]
        ),
        experiment=argparse.Namespace(
            evaluation=EvaluationConfig(), data=DataConfig(target_language="de")
        ),
    )
    subject.lines, subject.translations = lines["test"], references["test"]
    monkeypatch.setattr(subject, "_translate", lambda asked: [written[line] for line in asked])
    found = subject._bleu()  # "e f" can not be translated again
    assert list(found) == ["validation", "test"]
    assert found["test"] == pytest.approx(100) and found["validation"] < 30
    subject.run.corpus.sizes = ["test"]
    assert subject._bleu() == {"test": found["test"]}


def test_input_is_compared_with_a_larger_corpus(measure, text):
    record = measure("input", "--compare=--copies 3", *text["arguments"],
                     settings=text["settings"])  # fmt: skip
    one, three = record["configurations"]
    assert one["corpus"] == "multi30k_ende"
    assert 0 < one["pairs"] == three["pairs"] / 3
    assert three["name"] == one["name"] + ", corpus 3 times"
    assert one["rate"]["median"] > 0
    ratio = three["rate"]["median"] / one["rate"]["median"]
    assert record["ratio"]["median"] == pytest.approx(ratio, rel=1e-3)


def test_input_of_made_up_text_is_counted_with_what_cutting_it_takes(measure, monkeypatch):
    def learn(*arguments):  # before the clock starts
        waited.append(1000.0)
        return learned(*arguments)

    learned, waited = Vocabulary.train, []
    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + sum(waited))
    monkeypatch.setattr(updates, "time", clock)
    monkeypatch.setattr(Vocabulary, "train", learn)
    record = measure("input", "--pairs", 300, settings=[*TINY, "data.max_length=90"])
    (one,) = record["configurations"]
    assert one["name"].endswith("made up text")
    assert one["corpus"] == "random ids"
    assert 200 < one["pairs"] <= 300  # those that are not too long
    assert one["rate"]["median"] > 0 and 0 < one["seconds_to_cut_into_subwords"] < 1000
    assert waited


def test_export_is_weighed_and_loaded(measure, text, monkeypatch):
    def release(endpoints, folder, record, scores, **_):
        module = tf.Module()
        specs = [tf.TensorSpec([None], tf.string, "text")]
        module.translate = tf.function(
            lambda text: {"translation": text, "score": tf.zeros(tf.shape(text))}, specs
        )
        tf.saved_model.save(module, str(folder / "1"), {"serving_default": module.translate})
        (folder / "1" / "ballast").write_bytes(b"0" * 3_000_000)
        folders.append(folder)
        return folder / "1"

    folders = []
    monkeypatch.setattr(dtmt_tf.export, "release", release)
    (one,) = measure("export", *text["arguments"], settings=text["settings"])["configurations"]
    assert 3 < one["megabytes"] < 3.5
    assert one["export_seconds"] > 0
    assert list(one["start"])[1:] == ["load", "first translation", "second translation"]
    assert not folders[0].exists()


def test_the_table_has_a_cell_for_each_depth_and_length(measure, monkeypatch):
    def training_step(experiment, sizes, form, devices):
        model = experiment.model
        assert model.encoder_depth == model.query_depth == model.decoder_depth

        def step(source, target):
            assert source.shape == target.shape == (2 * growth.SENTENCES, source.shape[1])
            clock.append(clock[-1] + 0.002 * source.shape[1] * (1 + model.query_depth))
            return argparse.Namespace(loss=1.0)

        step.slices = 2
        return step

    clock = [0.0]
    timer = argparse.Namespace(perf_counter=lambda: clock[-1])
    monkeypatch.setattr(random_ids, "time", timer)
    monkeypatch.setattr(updates, "training_step", training_step)
    monkeypatch.setattr(growth, "LENGTHS", (3, 6))
    monkeypatch.setattr(growth, "DEPTHS", (0, 4))
    record = measure("train", "--table")
    assert record["benchmark"] == "growth"
    assert record["table"]["seconds"] == [[0.006, 0.012], [0.03, 0.06]]
    lines = speed.section([record]).splitlines()
    assert {"| depth | 3 | 6 |", "| 0 | 6 (+0) | 12 (+0) |", "| 4 | 30 (+0) | 60 (+0) |"} < {*lines}


def test_the_fit_is_linear_in_depth_and_in_length():
    def seconds(extra):
        return {
            (depth, length): 0.1 + 0.02 * depth + 0.003 * length + 0.01 * depth * length + extra
            for depth in growth.DEPTHS
            for length in growth.LENGTHS
        }

    linear = seconds(0)
    assert growth.fit(linear) == pytest.approx(linear)
    assert growth.table([linear] * 3)["largest_excess"] == pytest.approx(0, abs=1e-9)
    bent = {cell: s + 1e-5 * cell[1] ** 2 for cell, s in linear.items()}
    assert growth.table([bent])["largest_excess"] > 0.02
    jump = linear | {(4, 128): 2 * linear[4, 128]}
    assert growth.table([linear, jump, linear])["largest_excess"] < 0.001  # the median counts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["decode", "--table"], "--table goes with train"),
        (["train", "--model", "rnn_baseline", "--form", "plain"], "of DTMT alone"),
        (["train", "--model", "rnn_baseline", "--table"], "nor with --table"),
        (["export", "--compare=--beam 1"], "does not go with export"),
        (["train", "--compare=--env 'A=b"], "No closing quotation"),
        (["train", "--run", "x"], "decode and export"),
        (["decode", "--saved-model"], "needs --run"),
        (["train", "--windows", "0"], "at least 1"),
        (["train", "--updates", "0"], "at least 1"),
        (["decode", "--form", "plain"], "--form plain goes with train"),
        (["train", "--memory"], "--memory goes with decode and export"),
        (["export", "--profile", "x"], "--profile goes with train"),
        (["train", "--copies", "5"], "--copies goes with input"),
        (["decode", "--run", "x", "--set", "export.quantize=int8"], "changes exports alone"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        benchmark.parse(arguments)


def test_what_reads_text_says_where_to_get_it(measure):
    with pytest.raises(UserError, match="--data-dir"):
        measure("decode")


def test_an_export_that_searches_otherwise_is_refused(tmp_path):
    decoding = {"beam_size": 4, "batch_size": 32}  # of a version that had no more
    (tmp_path / "experiment.json").write_text(json.dumps({"settings": {"decoding": decoding}}))
    check = functools.partial(translations._check_search, "RUN", tmp_path)
    check(DecodingConfig(**decoding), [])
    for change, told in (
        ({"beam_size": 5}, "decoding.beam_size=4, not 5. "),
        ({"batch_size": 8, "prune": 2.5}, "batch_size=32, not 8, decoding.prune=0.0, not 2.5. "),
    ):
        with pytest.raises(UserError, match=f"{told}.*\n.* RUN --set decoding.a=1 decoding.b=2$"):
            check(DecodingConfig(**(decoding | change)), ["decoding.a=1", "decoding.b=2"])
