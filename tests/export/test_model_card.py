"""A model card says what its run's files say, and how to make the model again."""

import json
import shlex

import pytest

from dtmt_tf.experiment import to_dict
from dtmt_tf.export.model_card import card_text, model_card
from tests.toy_experiment import TASK, resolved

VERSIONS = {"python": "3.11.7", "keras": "3.15.1"}
SCORE = {
    "bleu": 38.418352,
    "bleu_signature": "nrefs:1|tok:13a",
    "chrf": 62.289213,
    "chrf_signature": "nrefs:1|nc:6",
    "exact_match": None,
    "num_sentences": 1000,
    "checkpoint_steps": [2700, 2850],
    "training": {"updates": 2850, "minutes_in_updates": 5.5, "target_words": 123456, "seed": 1},
    "decoding": {"beam_size": 4, "length_penalty": 0.6, "extra_length": 50, "batch_size": 1},
}


SEARCH = {
    **{"precision": "float32", "beam_size": 4, "length_penalty": 0.6, "length_offset": 5.0},
    **{"extra_length": 50, "min_length": 0, "lookahead": 10},
}


def experiment_of(*overrides, task=TASK):
    experiment, origins = resolved(*overrides, task=task)
    return {"settings": to_dict(experiment), "origins": origins, "versions": VERSIONS}


MADE_OF = {"weights_sha256": "5e3d", "dictionary_sha256": "aa00"}  # earlier scores have neither


def card_of(experiment, scores=None, limits=None):
    return model_card(
        experiment,
        scores or {},
        name="mine",
        description="English-German toys",
        parameters=8953232,
        checkpoints=[2700, 2850],
        limits=limits or {},
        made_of=MADE_OF,
    )


def section(card, heading):
    return card_text(card).split(f"## {heading}\n\n")[1].split("\n\n## ")[0]


def test_the_card_is_what_json_gives_back():
    card = card_of(
        experiment_of("data.train_source=a.en,b.en"), {"test": SCORE}, {"longest_part": 100}
    )
    assert json.loads(json.dumps(card, allow_nan=False)) == card
    expected = {
        "task": "toy",
        "name": "mine",
        "description": "English-German toys",
        "source_language": "en",
        "target_language": "de",
        "reverse": False,
        "model": "toy8",
        "members": [],
        "parameters": 8953232,
        "decoding": SEARCH,
        "limits": {"longest_part": 100},
        "seed": 1,
        "checkpoints": [2700, 2850],
        "training_data": ["a.en", "b.en"],
        "versions": VERSIONS,
    }
    assert {key: card[key] for key in expected} == expected
    assert card["scores"] == {
        "test": {
            "bleu": 38.42,
            "signature": "nrefs:1|tok:13a",
            "chrf": 62.29,
            "chrf_signature": "nrefs:1|nc:6",
            "exact_match": None,
            "sentences": 1000,
            "seed": 1,
            "updates": 2850,
            "target_words": 123456,
            "decoding": SEARCH,
            "checkpoints": [2700, 2850],
            "of_this_model": True,
        }
    }


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["training.max_steps=7", "training.learning_rate=1e-5", "model.use_layer_norm=false"],
        ["model.context_dim=none", "model.cell=gru", "data.train_source=a b.en,c.en"],
        [
            *("data.reverse=true", "data.train_source=a.en", "data.train_target=a.de"),
            *("data.source_language=fr", "data.source_vocab_size=500"),
        ],
        [
            *("data.reverse=true", "data.joint_vocabulary=false", "data.source_vocab_size=50"),
            *("data.target_vocab_size=60", "decoding.beam_size=2"),
        ],
    ],
)
def test_the_command_makes_the_same_experiment(overrides):
    experiment = experiment_of(*overrides)
    command = shlex.split(card_of(experiment)["command"])
    start = "dtmt train --task toy --model toy8 --name mine".split()
    assert command[: len(start)] == start
    given = command[len(start) :]
    assert given[:1] == (["--set"] if overrides else [])
    assert experiment_of(*given[1:]) == experiment


def test_settings_of_the_preset_and_the_user_are_listed():
    experiment = experiment_of("training.max_steps=7", "model.num_heads=2")
    experiment["origins"]["model.units"] = "model toy8"
    assert card_of(experiment)["settings"] == {
        "model.units": {"value": 8, "origin": "model toy8"},
        "model.num_heads": {"value": 2, "origin": "--set"},
        "training.max_steps": {"value": 7, "origin": "--set"},
    }
    text = section(card_of(experiment), "How it was trained")
    assert "| `training.max_steps` | `7` | --set |\n" in text
    assert "Versions: python 3.11.7, keras 3.15.1." in text
    assert "Settings from the preset" not in section(card_of(experiment_of()), "How it was trained")


def test_the_command_has_what_options_files_and_sizes_set():
    experiment = experiment_of("training.max_steps=7", "data.max_length=9", "training.seed=3")
    experiment["origins"] |= {
        "model_name": "sized: 8 units for 10 words",
        "training.max_steps": "sized: 3 epochs",
        "data.max_length": "run.yaml",
    }
    card = card_of(experiment)
    assert card["command"].endswith(
        "--model toy8 --name mine --set data.max_length=9 training.seed=3 training.max_steps=7"
    )
    assert "model_name" not in card["settings"]
    assert "| `training.max_steps` | `7` | sized: 3 epochs |\n" in card_text(card)


@pytest.mark.parametrize(
    ("run", "named"), [("toy/first run", "'first run'"), ("big/first", "saved_models/big/first")]
)
def test_a_card_names_the_run_that_training_began_with(run, named):
    card = card_of(experiment_of("training.max_steps=7") | {"init_from": {"run": run}})
    assert card["init_from"] == run
    start = "dtmt train --task toy --model toy8 --name mine --init-from"
    assert card["command"] == f"{start} {named} --set training.max_steps=7"
    text = section(card, "Training data")
    assert text.endswith(
        f" Training began with the weights of `{run}`, which has read its own text."
    )
    assert "began" not in card_text(card_of(experiment_of()))


def test_an_ensembles_card_names_its_members_and_no_seed():
    card = card_of(experiment_of("training.max_steps=7") | {"members": ["a", "b c"]})
    assert card["command"] == "dtmt ensemble --task toy --name mine a 'b c'"
    assert "2 models that predict together, `toy8` first, with 8,953,232" in card_text(card)
    text = section(card, "How it was trained")
    assert "- members: `a`, `b c`" in text
    assert "seed" not in text and "the mean of" not in text


def test_folders_of_the_users_machine_stay_there():
    paths = (
        *("data.train_source=/home/me/a.en,b/b.en", "data.extra_tests=/home/me/t"),
        "data.train_target=/home/me/a.de,b/b.de",
    )
    card = card_of(experiment_of(*paths))
    assert card["training_data"] == ["a.en", "b/b.en", "a.de", "b/b.de"]
    assert card["settings"]["data.train_source"]["value"] == ["a.en", "b/b.en"]
    files = "data.train_source=a.en,b/b.en data.train_target=a.de,b/b.de"
    assert f"{files} data.extra_tests=t" in card["command"]
    assert "/home" not in json.dumps(card) + card_text(card)


def test_a_corpus_that_is_no_file_is_named():
    assert card_of(experiment_of("data.corpus=cldr"))["training_data"] == ["cldr"]
    public = [
        *("data.corpus=tfds", "data.tfds_name=wmt14_translate/de-en"),
        *("data.source_language=en", "data.target_language=de"),
    ]
    assert card_of(experiment_of(*public))["training_data"] == ["wmt14_translate/de-en"]


def test_the_newest_scores_tell_how_long_it_was_trained():
    before = {**SCORE, "training": {**SCORE["training"], "updates": 2000, "target_words": 99}}
    for scores in ({"test": SCORE, "validation": before}, {"test": before, "validation": SCORE}):
        text = section(card_of(experiment_of(), scores), "How it was trained")
        assert "- 2,850 updates, 123,456 target tokens" in text


@pytest.mark.parametrize(
    "change",
    [
        {"decoding": {**SCORE["decoding"], "beam_size": 8}},
        {"decoding": {**SCORE["decoding"], "precision": "bfloat16"}},
        {"decoding": {**SCORE["decoding"], "min_length": 1}},
        {"decoding": {**SCORE["decoding"], "lookahead": 2}},
        {"checkpoint_steps": [2850]},
        {"weights_sha256": "ffff"},
        {"weights_sha256": "5e3d", "dictionary_sha256": "bb11"},
    ],
)
def test_scores_of_another_model_are_marked(change):
    card = card_of(experiment_of(), {"validation": SCORE, "test": {**SCORE, **change}})
    assert [score["of_this_model"] for score in card["scores"].values()] == [True, False]
    search = SEARCH | change.get("decoding", {})
    updates = "2,850" if "checkpoint_steps" in change else "2,700, 2,850"
    text = section(card, "Scores")
    assert (
        "- test: scored with other weights or settings than this export: "
        f"beam size {search['beam_size']}, "
        f"length penalty 0.6, length offset 5.0, extra length 50, "
        f"min length {search['min_length']}, precision {search['precision']}, "
        f"lookahead {search['lookahead']}; "
        f"mean of updates {updates}"
    ) in text
    assert "validation: scored" not in text


def test_scores_of_a_search_with_a_shortlist_are_others():
    scores = {"test": {**SCORE, "decoding": {**SCORE["decoding"], "shortlist": 50}}}
    for settings, is_mine in (([], False), (["decoding.shortlist=50"], True)):
        card = card_of(experiment_of(*settings), scores)
        assert card["scores"]["test"]["of_this_model"] == is_mine
        assert ("shortlist" in card["decoding"]) == is_mine


def test_scores_with_unknown_words_replaced_are_others():
    search = {**SCORE["decoding"], "replace_unknown": True, "dictionary": "/home/me/words.tsv"}
    scores = {"test": {**SCORE, "decoding": search}, "validation": SCORE}
    replaced = ["decoding.replace_unknown=true", "decoding.dictionary=/home/me/words.tsv"]
    for settings, expected in (([], [False, True]), (replaced, [True, False])):
        card = card_of(experiment_of(*settings), scores)
        assert [score["of_this_model"] for score in card["scores"].values()] == expected
        assert "/home" not in card_text(card)
    told = "lookahead 10, replace unknown True, dictionary words.tsv. A translation"
    assert told in section(card, "Limits")


def test_the_text_has_the_scores_with_their_signatures():
    scores = {"validation": SCORE, "test": {**SCORE, "bleu": 9.0, "exact_match": 98.4}}
    assert section(card_of(experiment_of(), scores), "Scores").splitlines() == [
        "| split | BLEU | chrF2 | exact match | sentences |",
        "| --- | --- | --- | --- | --- |",
        "| validation | 38.42 | 62.29 |  | 1,000 |",
        "| test | 9.00 | 62.29 | 98.40 % | 1,000 |",
        "",
        "- BLEU: `nrefs:1|tok:13a`",
        "- chrF2: `nrefs:1|nc:6`",
    ]


def test_the_text_says_that_there_are_no_scores():
    card = card_of(experiment_of())
    assert card["scores"] == {}
    assert "None: the model was exported before it was scored." in section(card, "Scores")
    training = section(card, "How it was trained")
    assert "- seed 1\n- weights: the mean of updates 2,700, 2,850" in training


def test_the_text_says_what_the_model_is():
    limits = {"max_lines": 1280, "longest_part": 100}
    card = card_of(experiment_of("data.reverse=true"), {"test": SCORE}, limits)
    lines = card_text(card).splitlines()
    assert lines[0] == "# mine, toy"
    summary = "`toy8` with 8,953,232 parameters from `de` to `en`: English-German toys."
    assert lines[2] == summary
    assert "are exchanged" in section(card, "Training data")
    assert "exchanged" not in card_text(card_of(experiment_of()))
    assert section(card, "Limits").splitlines() == [
        "- at most 1,280 lines of a request; other requests are refused",
        "- longest part: 100",
        "- Fixed at export: beam size 4, length penalty 0.6, length offset 5.0, extra length 50, "
        "min length 0, precision float32, lookahead 10. A translation can have `extra length` more "
        "sub-words than its source.",
    ]
    training = section(card, "How it was trained")
    assert f"```\n{card['command']}\n```" in training
    assert (
        "- weights: the mean of updates 2,700, 2,850\n- 2,850 updates, 123,456 target tokens\n"
        in (training)
    )
    assert "saved_models/toy/mine:/models/dtmt" in section(card, "Serve it")
    assert "| `score` | `source`, `target` | `log_probability`, `tokens` |" in (
        section(card, "Signatures")
    )


def test_languages_may_be_unknown():
    card = card_of(experiment_of("data.source_language="))
    assert "from" not in card_text(card).splitlines()[2]
