"""What `--plan` says follows from what it measures, and it measures whole batches."""

import pickle
import re
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace

import pytest
import tensorflow as tf

from dtmt_tf.errors import UserError
from dtmt_tf.experiment import resolve, with_overrides
from dtmt_tf.models import MODELS
from dtmt_tf.planning import measuring, processes, random_ids, rough
from dtmt_tf.planning.dry_run import Described, described
from dtmt_tf.planning.measuring import Measured, Measurement
from dtmt_tf.tasks import TASKS

TINY = {
    "dtmt1": [
        *(f"model.{module}_depth=0" for module in ("encoder", "query", "decoder")),
        *("model.units=8", "model.embedding_dim=4", "model.num_heads=2"),
    ],
    "rnn_bideep2x2": ["model.units=8", "model.embedding_dim=4"],
    "transformer_tiny": [
        *("model.model_dim=8", "model.filter_dim=8", "model.num_heads=2"),
        *("model.encoder_layers=1", "model.decoder_layers=1"),
    ],
}
BATCHES = ["data.max_length=32", "data.max_tokens_per_batch=128", "data.source_vocab_size=40"]


def experiment(name="dtmt1", *settings):
    """128 tokens for a replica: 4 sentences of 32 or 5 of 24."""
    return resolve(TASKS["wmt14_ende"], name, MODELS[name], [*TINY[name], *BATCHES, *settings])[0]


@pytest.fixture
def made(monkeypatch):
    """Notes each update: sentences, length, target words, slices."""
    notes = []

    class Noted:
        def __init__(self, *arguments, **options):
            self.step = make(*arguments, **options)
            self.model = self.step.model

        def __call__(self, *batch):
            update = self.step(*batch)
            notes.append((*batch[0].shape, int(update.tokens), self.step.slices))
            return update

    make = random_ids.training_step
    monkeypatch.setattr(random_ids, "training_step", Noted)
    return notes


@pytest.fixture
def told(monkeypatch):
    """Notes the batch of each update, and tells that it took 2 seconds without making it."""
    notes = []

    def seconds(update):
        (batch,) = {ids.shape for ids in update.batch}
        notes.append(batch)
        return 2.0

    monkeypatch.setattr(random_ids.RandomUpdate, "seconds", seconds)
    return notes


def test_three_updates_of_each_length_read_a_whole_batch_in_pieces_on_one_of_two_devices(made):
    assert len(tf.config.list_logical_devices("CPU")) > 1
    measurement = measuring.measure(experiment(), 2)
    assert made == [(4, 32, 128, 2)] * 3 + [(5, 24, 120, 2)] * 3
    assert [(one.sentences, one.length) for one in measurement.updates] == [(4, 32), (5, 24)]
    assert all(one.seconds > 0 for one in measurement.updates)
    assert 0.1 < measurement.peak < 50
    # attention: 6 operations for 8 elements of keys and 16 of annotations, with each source word;
    # the initial state: as many for each element of its kernel, shared by the sentence's words
    longest, ordinary = (one.operations for one in measurement.updates)
    assert longest - ordinary == 6 * (8 + 16) * (32 - 24) + 6 * 16 * 8 / 32 - 6 * 16 * 8 / 24


def test_a_deep_recurrent_model_is_planned_like_any_other():
    text = described(experiment("rnn_bideep2x2"), 1).text
    assert "wmt14_ende, rnn_bideep2x2" in text and "attention, all steps" in text


def test_the_last_lines_of_memory_are_the_largest_tensors_of_the_worst_bucket():
    """16 sentences of 4,096: 3 attentions of 2 heads, logits and gradients of 4,096 sub-words."""
    sizes = ["data.max_length=4096", "data.max_tokens_per_batch=65536"]
    text = described(experiment("transformer_tiny", *sizes, "data.source_vocab_size=4096"), 1).text
    memory = text.partition("memory of each replica")[2].partition("\n\n")[0].splitlines()
    (number,) = re.findall(r"the last (\d+):", memory.pop())
    last = [re.split(r" {2,}", line.strip()) for line in memory[-int(number) :]]
    assert last == [["logits, gradient", "2.00 GiB"], ["attention weights", "6.00 GiB"]]


def test_accumulated_gradients_take_the_memory_of_a_second_copy():
    large = "model.embedding_dim=512", "model.units=512"
    found = [
        re.findall(r"  gradients +(\S+) GiB", described(experiment("dtmt1", steps, *large), 1).text)
        for steps in ("training.accumulation_steps=1", "training.accumulation_steps=8")
    ]
    once, summed = (float(size) for (size,) in found)
    assert summed == pytest.approx(2 * once, abs=0.02) and once > 0


@pytest.mark.usefixtures("told")
def test_r_drop_needs_each_sentence_twice():
    once, twice = (
        measuring.measure(experiment("dtmt1", f"training.r_drop_alpha={alpha}"), 1).updates[0]
        for alpha in (0, 0.5)
    )
    assert twice.operations == pytest.approx(2 * once.operations, abs=1)


def test_memory_that_does_not_suffice_is_no_measurement(monkeypatch):
    def short(*batch):
        raise tf.errors.ResourceExhaustedError(None, None, "no memory")

    monkeypatch.setattr(random_ids, "training_step", lambda *_, devices: type("", (), {
        "model": None, "__call__": staticmethod(short)})())  # fmt: skip
    assert measuring.measure(experiment(), 1) is None


def test_a_long_update_is_measured_after_the_first_alone(monkeypatch):
    seconds = iter([99.0, 30.0, 9.0, 3.0, 2.0])
    monkeypatch.setattr(random_ids.RandomUpdate, "seconds", lambda self: next(seconds))
    measurement = measuring.measure(experiment(), 1)
    assert [one.seconds for one in measurement.updates] == [30.0, 2.0]


def test_rough_hours_follow_from_arithmetic_and_products():
    # 2.7648e8 words of 5 MFLOP at 40 to 75 % of 1 GFLOP/s
    text = rough.rough(experiment(), Described("", 5_000_000), 1e9)
    assert "300,000 updates of 8 x 128 tokens, 90% of them target tokens: 2.76e+08 tokens" in text
    assert "5 MFLOP a token;" in text and "makes 1 GFLOP/s here" in text
    assert text.endswith("   512.0 to 960.0 hours") and max(map(len, text.split("\n"))) <= 80


def test_less_than_an_hour_is_told_in_minutes():
    text = rough.rough(experiment(), Described("", 5_000_000), 1e12)
    assert text.endswith("   30.7 to 57.6 minutes")
    assert rough.in_unit(3600) == (1, "hours") and rough.in_unit(3599) == (3599 / 60, "minutes")


@pytest.mark.usefixtures("told")
def test_rough_and_measured_hours_count_the_same_operations():
    measured = measuring.measure(experiment(), 1).updates[-1]
    assert described(experiment(), 1).operations == measured.operations


def test_the_rate_of_products_is_that_of_the_fastest(monkeypatch):
    instants = iter((0, 0, 0.05, 0.1, 0.1, 0.14, 0.2, 0.2, 0.4, 0.5))  # 50, 40 and 200 ms
    monkeypatch.setattr(rough, "time", SimpleNamespace(perf_counter=lambda: next(instants)))
    assert rough.product_rate() == pytest.approx(2 * rough.SIZE**3 / 0.04)


def test_hours_follow_from_updates_words_and_rates():
    updates_ = [Measured(4, 32, 2.0, 5_000_000), Measured(5, 24, 1.5, 4_000_000)]
    text = measuring.report(experiment(), Measurement(updates_, 2, 1.25), (10, 100.0))
    rows = {re.sub(" +", " ", line).strip() for line in text.splitlines()}
    assert rows >= {
        "measured here: the batch of one replica, 128 tokens, in pieces: 2",
        "4 x 32 2.00 64 5 0.3",
        "5 x 24 1.50 80 4 0.3",
        "peak memory of the process 1.2 GiB",
        # 300,000 updates of 8 batches of 1.5 seconds; 300,000 x 8 x 128 x 0.9 words, 1,000 a second
        "here, one batch after the other 1,000.0 hours",
        "300,000 updates of 8 x 128 tokens, 90% of them target tokens: 2.76e+08 tokens",
        "10 devices of 100 target tok/s 76.8 hours",
    }


def test_a_batch_of_sentences_is_planned_by_sentences(told):
    sentences = experiment("transformer_tiny", "data.sentences_per_batch=3")
    measurement = measuring.measure(sentences, 1)
    assert told == [(3, 32)] * 3 + [(3, 24)] * 3
    assert [(one.sentences, one.length) for one in measurement.updates] == [(3, 32), (3, 24)]
    text = measuring.report(sentences, measurement, (10, 100.0))
    assert "measured here: the batch of one replica, 3 sentences, in pieces: 1" in text
    # 300,000 updates of 8 batches of 3 sentences of 24 words are 172,800,000
    assert "updates of 8 x 3 sentences, 24 target tokens in each: 1.73e+08 tokens" in text
    assert "    48.0 hours" in text  # 1,000 words a second
    assert "a batch of 3 sentences, each replica" in described(sentences, 1).text
    short = experiment("transformer_tiny", "data.sentences_per_batch=3", "data.max_length=12")
    assert "12 target tokens in each: 8.64e+07 tokens" in measuring.report(
        short, measurement, (10, 100.0)
    )


@pytest.mark.parametrize(("pieces", "words"), [(1, "1.42e+07"), (4, "5.70e+07")])
def test_a_recipe_of_one_device_reads_one_batch_in_each_accumulation_step(pieces, words):
    settings = ["training.max_steps=12360", f"training.accumulation_steps={pieces}"]
    recipe = resolve(
        TASKS["multi30k_ende"], "dtmt_small", MODELS["dtmt_small"], settings
    )[0]  # fmt: skip
    text = measuring.report(recipe, Measurement([Measured(53, 24, 1.0, 10)], 1, 1.0), None)
    assert f"updates of {pieces} x 1,280 tokens, 90% of them target tokens: {words} tokens" in text
    if pieces > 1:  # as many devices as there were pieces
        alone, _ = with_overrides(recipe, {}, ["training.accumulation_steps=1"])
        measurement = Measurement([Measured(53, 24, 1.0, 10)], 1, 1.0)
        assert measuring.report(alone, measurement, None, pieces) == text
        assert f"meant to read {pieces}, devices x A" in described(alone, pieces).text


class Pool:
    """A process that memory suffices for only with so many pieces."""

    def __init__(self, enough):
        self.enough, self.tried = enough, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def submit(self, function, *arguments):
        function, (_, pieces) = pickle.loads(pickle.dumps((function, arguments)))
        assert function is measuring.measure
        self.tried.append(pieces)

        def result():
            if pieces < self.enough / 2:
                raise BrokenProcessPool  # the system ended it
            return Measurement([Measured(4, 32, 2.0, 10)], pieces, 1.0) if (
                pieces >= self.enough) else None  # fmt: skip

        return SimpleNamespace(result=result)


@pytest.mark.parametrize(("enough", "first", "tried"), [(1, 1, [1]), (4, 1, [1, 2, 4]),
                                                        (4, 3, [3, 4])])  # fmt: skip
def test_a_batch_is_read_in_more_pieces_until_memory_suffices(monkeypatch, enough, first, tried):
    pool = Pool(enough)
    monkeypatch.setattr(processes, "process", lambda: pool)
    said = "\n".join(measuring.plan(experiment(), first, None))
    assert pool.tried == tried
    assert f"in pieces: {tried[-1]}\n" in said
    first, second, third = (said.index(text) for text in (
        "memory of each replica", "roughly, before updates", "measured here"))  # fmt: skip
    assert first < second < third  # what --dry-run says comes first


def test_a_sentence_too_long_for_memory_is_a_mistake(monkeypatch):
    pool = Pool(99)
    monkeypatch.setattr(processes, "process", lambda: pool)
    with pytest.raises(UserError, match="one pair of 32 sub-words. Lower data.max_length"):
        list(measuring.plan(experiment(), 1, None))
    assert pool.tried == [1, 2, 4]  # there are 4 sentences


@pytest.mark.parametrize(("pieces", "devices"), [(0, None), (1, [0, 5]), (1, [8, -1])])
def test_numbers_are_positive(pieces, devices):
    with pytest.raises(UserError, match="positive"):
        list(measuring.plan(experiment(), pieces, devices))
