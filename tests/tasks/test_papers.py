"""The papers' tasks have the papers' settings: Meng and Zhang (2019) and those it stands beside."""

import pytest

from dtmt_tf.config import DataConfig, TrainingConfig
from dtmt_tf.data.own_files import named_files
from dtmt_tf.experiment import resolve
from dtmt_tf.models import MODELS, DeepRNNConfig
from dtmt_tf.planning.dry_run import described
from dtmt_tf.tasks import TASKS, own_task
from dtmt_tf.training import make_schedule

# rates by update, from the formula of the paper with its constants
RATES = {
    "nist_zhen": {0: 1e-3, 500: 1.5e-3, 1000: 2e-3, 4000: 2e-3, 8000: 1.641e-3, 16_000: 1.104e-3,
                  32_000: 5e-4, 48_000: 2.264e-4},
    "wmt14_ende": {0: 1e-4, 200: 4.5e-4, 400: 8e-4, 25_000: 8e-4, 50_000: 4.595e-4,
                   100_000: 1.516e-4, 150_000: 5e-5},
    "wmt14_enfr": {0: 1e-4, 200: 4.5e-4, 400: 8e-4, 50_000: 8e-4, 375_000: 5e-5},
    "wmt17_ende": {0: 1e-4, 1: 1e-4, 50_000: 1e-4, 2_000_000: 1e-4},
    "wmt14_ende_base": {0: 1.747e-7, 1999: 3.494e-4, 3999: 6.988e-4, 15_999: 3.494e-4},
    "wmt14_ende_big": {3999: 4.941e-4, 399_999: 4.941e-5},
    "wmt17_zhen": {3999: 6.988e-4, 99_999: 1.3975e-4},
    "wmt17_zhen_big": {3999: 4.941e-4},
}  # fmt: skip


@pytest.mark.parametrize(
    ("task", "step", "rate"), [(task, *pair) for task in RATES for pair in RATES[task].items()]
)
def test_the_rate_is_the_papers(task, step, rate):
    schedule = make_schedule(TASKS[task].training)
    assert float(schedule(step)) == pytest.approx(rate, rel=3e-4)


def data(task):
    """What a reader of the paper asks of its data."""
    settings = TASKS[task].data
    sizes = settings.source_vocab_size, settings.target_vocab_size
    vocabulary = sizes[:1] if settings.joint_vocabulary else sizes
    languages = settings.source_language, settings.target_language
    return settings.tfds_name, languages, vocabulary, settings.max_length


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("nist_zhen", ("", ("zh", "en"), (40_067, 29_405), 128)),
        ("wmt14_ende", ("wmt14_translate/de-en", ("en", "de"), (32_000,), 256)),
        ("wmt14_ende_base", ("wmt14_translate/de-en", ("en", "de"), (32_000,), 256)),
        ("wmt14_enfr", ("wmt14_translate/fr-en", ("en", "fr"), (32_000,), 256)),
        ("wmt17_ende", ("wmt17_translate/de-en", ("en", "de"), (90_000,), 50)),
        ("wmt17_zhen", ("wmt17_translate/zh-en", ("zh", "en"), (32_000, 32_000), 256)),
    ],
)
def test_corpus_languages_vocabulary_and_length_are_the_papers(task, expected):
    assert data(task) == expected
    assert (TASKS[task].data.corpus == "tfds") == bool(expected[0])


@pytest.mark.parametrize(
    ("task", "replicas", "tokens"),
    [
        ("nist_zhen", 2, 4096),
        ("wmt14_ende", 8, 4096),
        ("wmt14_enfr", 8, 4096),
        ("wmt17_zhen", 8, 4096),
    ],
)
def test_a_batch_is_the_papers(task, replicas, tokens):
    assert TASKS[task].training.schedule_replicas == TASKS[task].replicas == replicas
    assert TASKS[task].data.max_tokens_per_batch == tokens


@pytest.mark.parametrize(
    ("task", "rates"),  # embeddings, layer before prediction, candidates; label smoothing
    [
        ("nist_zhen", (0.5, 0.5, 0.3, 0.1)),
        ("wmt14_ende", (0.3, 0.3, 0.1, 0.1)),
        ("wmt14_enfr", (0.2, 0.2, 0.1, 0.1)),
        ("wmt17_ende", (0.0, 0.0, 0.0, 0.0)),
        ("wmt14_ende_base", (0.1, 0.0, 0.1, 0.1)),
        ("wmt14_ende_big", (0.3, 0.0, 0.3, 0.1)),
        ("wmt17_zhen", (0.1, 0.0, 0.1, 0.1)),
        ("wmt17_zhen_big", (0.3, 0.0, 0.3, 0.1)),
    ],
)
def test_dropout_and_smoothing_are_the_papers(task, rates):
    training = TASKS[task].training
    assert rates == (
        training.embedding_dropout_rate,
        training.output_dropout_rate,
        training.candidate_dropout_rate,
        training.label_smoothing,
    )


@pytest.mark.parametrize("task", ["nist_zhen", "wmt14_ende", "wmt14_enfr"])
def test_optimiser_search_and_validation_are_the_papers(task):
    training, decoding = TASKS[task].training, TASKS[task].decoding
    adam = training.adam_beta_1, training.adam_beta_2, training.adam_epsilon, training.clip_norm
    assert adam == (0.9, 0.999, 1e-6, 5.0)
    assert (decoding.beam_size, decoding.length_penalty, decoding.extra_length) == (4, 0.6, 50)
    assert training.validation_steps == 2000
    assert (training.average, training.average_count) == ("best", 1)  # the best single checkpoint


def test_nematus_settings_are_those_of_miceli_barone():
    task = TASKS["wmt17_ende"]
    training, decoding = task.training, task.decoding
    adam = training.adam_beta_1, training.adam_beta_2, training.adam_epsilon, training.clip_norm
    assert adam == (0.9, 0.999, 1e-8, 1.0)
    assert (task.replicas, task.data.batch_size(8), task.data.batch_size(50)) == (1, 80, 80)
    assert (training.loss_unit, training.schedule) == ("sentences", "constant")
    assert (training.validation_steps, training.patience) == (10_000, 10)
    assert training.stop_on == "cross_entropy"
    assert (training.average, training.average_count) == ("best", 1)  # by BLEU
    search = decoding.beam_size, decoding.length_penalty, decoding.length_offset
    assert search == (12, 1.0, 0.0)
    assert task.data.max_length + decoding.extra_length == 200
    assert isinstance(MODELS[task.model], DeepRNNConfig)


def test_nist_reads_the_users_files_and_scores_them_without_case():
    task = TASKS["nist_zhen"]
    files = named_files(task.data)
    assert files["validation"] == (("nist/MT06.zh",), ("nist/MT06.en",))
    tests = [part for part in files if part.startswith("MT")]
    assert tests == ["MT02", "MT03", "MT04", "MT05", "MT08"] and not files["test"][0]
    assert (task.evaluation.tokenize, task.evaluation.lowercase) == ("multi-bleu", True)
    for name in ("train", "MT06", *tests):
        assert name in task.unavailable


def test_nist_has_the_papers_parameter_count():
    task = TASKS["nist_zhen"]
    experiment, _ = resolve(task, task.model, MODELS[task.model])
    assert "208,351,005" in described(experiment, 1).text


def test_the_defaults_are_the_papers_english_german():
    assert TASKS["wmt14_ende"].training == TrainingConfig()
    assert DataConfig().max_tokens_per_batch == 4096


@pytest.mark.parametrize(
    ("task", "size", "updates", "averaged", "apart"),
    [
        # checkpoints ten minutes apart, where an update takes 0.4 s, or 1 s
        ("wmt14_ende_base", "base", 100_000, 5, 1500),
        ("wmt14_ende_big", "big", 300_000, 20, 600),
        ("wmt17_zhen", "base", 100_000, 5, 1500),
        ("wmt17_zhen_big", "big", 300_000, 20, 600),
    ],
)
def test_transformers_train_as_vaswani_et_al_say(task, size, updates, averaged, apart):
    task = TASKS[task]
    training, decoding = task.training, task.decoding
    assert task.model == f"transformer_{size}" and task.replicas == 8
    adam = training.adam_beta_1, training.adam_beta_2, training.adam_epsilon
    assert adam == (0.9, 0.98, 1e-9) and training.clip_norm > 1e6
    assert (training.max_steps, training.patience) == (updates, 0)
    assert (training.average, training.average_count) == ("last", averaged)
    assert training.validation_steps == apart
    assert (decoding.beam_size, decoding.length_penalty, decoding.extra_length) == (4, 0.6, 50)


def test_deep_lau_trains_as_wang_et_al_say():
    task = TASKS["nist_zhen_lau"]
    training, decoding = task.training, task.decoding
    assert MODELS[task.model].connection == "none" and MODELS[task.model].units == 512
    adadelta = training.optimizer, training.adadelta_epsilon, training.adadelta_rho
    assert adadelta == ("adadelta", 1e-6, 0.95)
    assert float(make_schedule(training)(7)) == 1.0
    assert (training.clip_norm, training.clip_patience) == (1.0, 5)
    assert training.patience > training.clip_patience
    assert (training.loss_unit, training.label_smoothing) == ("sentences", 0.0)
    assert task.data.batch_size(5) == task.data.batch_size(81) == 128
    assert task.data.vocabulary_kind == "word" and not decoding.replace_unknown
    rates = training.embedding_dropout_rate, training.candidate_dropout_rate
    assert rates == (0.0, 0.0) and training.output_dropout_rate == 0.5
    search = decoding.beam_size, decoding.length_penalty, decoding.length_offset
    assert search == (10, 1.0, 0.0)
    files = named_files(task.data)
    assert files["validation"] == (("nist/MT02.zh",), ("nist/MT02.en",))
    assert [part for part in files if part.startswith("MT")] == ["MT03", "MT04", "MT05", "MT06"]


@pytest.mark.parametrize(
    ("task", "languages", "words", "tokenizer"),
    [
        ("nist_zhen_lau", ("zh", "en"), (30_000, 30_000), "13a"),
        ("wmt14_ende_lau", ("en", "de"), (120_000, 80_000), "multi-bleu"),
        ("wmt14_enfr_lau", ("en", "fr"), (30_000, 30_000), "multi-bleu"),
    ],
)
def test_deep_lau_reads_the_words_of_wang_et_al(task, languages, words, tokenizer):
    special = 3  # <pad>, <eos>, <unk>
    sizes = words[0] + special, words[1] + special
    assert data(task) == ("", languages, sizes, 80 + 1)
    assert TASKS[task].data.vocabulary_kind == "word"
    assert TASKS[task].evaluation.tokenize == tokenizer
    assert TASKS[task].training == TASKS["nist_zhen_lau"].training
    assert TASKS[task].decoding == TASKS["nist_zhen_lau"].decoding


def test_wmt14_in_words_is_validated_by_two_years():
    files = named_files(TASKS["wmt14_ende_lau"].data)
    years = tuple(f"wmt14_ende/newstest201{year}" for year in (2, 3))
    assert files["validation"] == tuple(
        tuple(f"{stem}.{language}" for stem in years) for language in ("en", "de")
    )
    assert files["test"] == (("wmt14_ende/newstest2014.en",), ("wmt14_ende/newstest2014.de",))


@pytest.mark.parametrize(
    ("task", "model", "better"),
    [
        ("wmt14_ende", "transformer_big", "wmt14_ende_big"),
        ("wmt14_ende", "transformer_base_biarn3", "wmt14_ende_base"),
        ("wmt14_ende_base", "transformer_big_biarn", "wmt14_ende_big"),
        ("wmt14_ende_big", "dtmt4", "wmt14_ende"),
        ("wmt17_zhen", "transformer_big", "wmt17_zhen_big"),
        ("wmt14_ende_base", "transformer_base_biarn", ""),
        ("wmt14_ende", "dtmt1", ""),
        ("multi30k_ende", "transformer_tiny", ""),
    ],
)
def test_the_task_of_a_model_s_own_paper_is_known(task, model, better):
    assert own_task(task, model) == better
