"""What the stages of `dtmt distill` and `dtmt backtranslate` read and make."""

import argparse
import gzip
import importlib
import json

import pytest

from dtmt_tf import startup
from dtmt_tf.commands import backtranslate, common, distill, own_text, prepare, recipe
from dtmt_tf.errors import UserError
from dtmt_tf.tasks import TASKS
from tests.data.toy_corpus import Lines

OWN = ["--train", "a.en", "a.de", "--from", "en", "--to", "de"]


class Parsed(Exception):
    """Carries what a parser found out of the command."""


def parsed(stage, monkeypatch):
    """What the parser of a stage's command makes of its words."""
    parse = argparse.ArgumentParser.parse_args

    def stop(self, args=None, namespace=None):
        error = Parsed()
        error.found = parse(self, args, namespace)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", stop)
        name, *words = stage.words
        with pytest.raises(Parsed) as error:
            importlib.import_module(f"dtmt_tf.commands.{name}").command(words)
    return error.value.found


@pytest.fixture
def stages_of(monkeypatch, tmp_path):
    """The stages that a command would run, and the settings of their trainings by name."""

    def call(module, *arguments):
        found = []
        monkeypatch.setattr(module, "follow", lambda _, stages, __: found.extend(stages) or 0)
        assert module.command([*arguments, "--output-dir", str(tmp_path)]) == 0
        data = {}
        for stage in found:
            args = parsed(stage, monkeypatch)
            if stage.words[0] == "train":
                of = own_text.unsized if own_text.is_named(args) else common.experiment
                data[args.name] = of(args)[0]
        return found, data

    return call


@pytest.fixture
def exported(tmp_path):
    """Makes an exported version that says which languages it translates, or says nothing."""

    def make(name, *languages, task="cldr_ende"):
        folder = tmp_path / task / name / "1"
        folder.mkdir(parents=True)
        (folder / "saved_model.pb").touch()
        if languages:
            sides = zip(("source_language", "target_language"), languages, strict=True)
            record = {"settings": {"data": dict(sides)}}
            (folder / "experiment.json").write_text(json.dumps(record))
        return name

    return make


def names(paths):
    return ["/".join(path.split("/")[-2:]) for path in paths]


@pytest.mark.parametrize("arguments", [["--task", "multi30k_ende"], OWN], ids=["task", "own text"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_student_reads_references_and_translations_in_its_direction(stages_of, arguments, turned):
    sides = {"en": "a.en", "de": "a.de"} if arguments is OWN else {}
    setting = ["--set", "data.reverse=true"] if turned else []
    found, runs = stages_of(distill, *arguments, "--seeds", "4", "7", *setting)
    assert [stage.words[0] for stage in found] == [
        *("prepare", "train", "train", "ensemble", "export", "translate", "train")
    ]
    needed = {names([str(path)])[0]: lacking for path, lacking in found[0].needed}
    assert {*needed} == {f"text/{split}.target" for split in
                         ("train", "validation", *([] if sides else ["test"]))}  # fmt: skip
    if not sides:  # as a set of TFDS may have none
        assert needed["text/test.target"].endswith(
            "data.test_source=SOURCE data.test_target=TARGET."
        )
    else:
        assert needed["text/validation.target"].endswith(": --dev SOURCE TARGET.")
    teachers = [runs[f"distilled-teacher{seed}"] for seed in (4, 7)]
    assert [each.training.seed for each in teachers] == [4, 7]
    student = runs["distilled"]
    languages = ("de", "en") if turned else ("en", "de")
    for each in (*teachers, student):
        assert (each.data.source_language, each.data.target_language) == languages
    for each in teachers if sides else []:
        assert each.data.train_source == (sides[languages[0]],)
    data = student.data
    assert names(data.train_source) == ["text/train.source"] * 2
    assert names(data.train_target) == ["text/train.target", "recipe/translations.txt"]
    assert names(data.validation_source) == ["text/validation.source"]
    assert names(data.validation_target) == ["text/validation.target"]
    assert names(data.test_target) == ([] if sides else ["text/test.target"])
    assert data.held_out == 0
    translate = found[5].words
    assert found[5].options == ("--skip-refused",)
    assert translate[-1] == data.train_source[0] and translate[-2] == data.train_target[1]


def test_a_trained_teacher_teaches_and_the_student_may_differ(stages_of, exported):
    exported("big", "en-GB", "de")
    student = ["--student-model", "dtmt_tiny", "--student-set", "training.max_steps=7"]
    found, runs = stages_of(distill, "--teacher", "big", "--without-references", *student)
    assert [stage.words[0] for stage in found] == ["prepare", "translate", "train"]
    assert found[1].words[3:5] == ("--model", "big")
    data = runs["distilled"].data
    assert data.corpus == "files"  # no longer rendered
    assert names(data.train_target) == ["recipe/translations.txt"]
    assert names(data.test_source) == ["text/test.source"]
    assert runs["distilled"].model_name == "dtmt_tiny"
    assert runs["distilled"].training.max_steps == 7


def test_a_teacher_is_found_where_the_stage_that_translates_looks_for_it(stages_of, exported):
    exported("big", "en", "de", task="elsewhere")
    with pytest.raises(UserError, match="--teacher: .*cldr_ende/big holds no exported model"):
        stages_of(distill, "--teacher", "big")


def test_without_a_preset_of_its_own_the_student_has_that_which_is_asked_of_all(stages_of):
    assert stages_of(distill)[1]["distilled"].model_name == TASKS["cldr_ende"].model
    _, runs = stages_of(distill, "--model", "transformer_tiny")
    assert {each.model_name for each in runs.values()} == {"transformer_tiny"}
    _, runs = stages_of(distill, "--model", "transformer_tiny", "--student-model", "dtmt_tiny")
    assert runs["distilled"].model_name == "dtmt_tiny"


def test_one_seed_teaches_without_an_ensemble(stages_of):
    found, _ = stages_of(distill, "--seeds", "3")
    assert [stage.words[0] for stage in found] == ["prepare", "train", "translate", "train"]
    assert found[2].words[3:5] == ("--name", "distilled-teacher3")


@pytest.fixture
def more(tmp_path):
    """Text of the target language."""
    (tmp_path / "more.de").write_text("eins\n")
    return ["--target-text", str(tmp_path / "more.de")]


@pytest.mark.parametrize("arguments", [["--task", "multi30k_ende"], OWN], ids=["task", "own text"])
@pytest.mark.parametrize("turned", [False, True])
def test_back_translations_are_read_as_sources_of_the_target_text(
    stages_of, more, arguments, turned
):
    setting = ["--set", "data.filters=identical,duplicates"]
    setting += ["data.reverse=true", "data.reserved_symbols=<a>"] if turned else []
    options = ["--tag", "<bt>", "--sample", "--top-k", "5", "--upsample", "2"]
    found, runs = stages_of(backtranslate, *arguments, *more, *setting, *options)
    assert [stage.words[0] for stage in found] == ["prepare", "train", "translate", "train"]
    languages = ("de", "en") if turned else ("en", "de")
    reverse, forward = (runs[f"backtranslated{end}"].data for end in ("-reverse", ""))
    assert (reverse.target_language, reverse.source_language) == languages
    assert (forward.source_language, forward.target_language) == languages
    assert names(forward.train_source) == ["text/train.source"] * 2 + ["recipe/back1.txt"]
    assert (reverse.filters, forward.filters) == (("identical", "duplicates"), ("identical",))
    assert names(forward.train_target)[:2] == ["text/train.target"] * 2
    assert forward.train_target[2] == more[1]
    assert names(forward.validation_source) == ["text/validation.source"]
    assert forward.reserved_symbols == (("<a>", "<bt>") if turned else ("<bt>",))
    words = found[2].words
    asked = ("--name", "backtranslated-reverse", "--sample", "--top-k", "5", "--tag", "<bt>")
    assert words[3:] == (*asked, "-o", forward.train_source[2], more[1])


def test_a_trained_reverse_model_translates_every_file_back(stages_of, exported, more):
    exported("back", "de", "en")
    found, runs = stages_of(backtranslate, "--reverse-model", "back", *more, more[1])
    assert [stage.words[0] for stage in found] == ["prepare", "translate", "translate", "train"]
    assert found[1].words[3:6] == ("--model", "back", "-o")
    data = runs["backtranslated"].data
    assert names(data.train_source)[1:] == ["recipe/back1.txt", "recipe/back2.txt"]
    assert data.reserved_symbols == ()


def test_files_of_the_user_are_noted_by_the_stage_that_reads_them(stages_of, more, tmp_path):
    files = [tmp_path / name for name in ("a.en", "a.de", "test.en", "test.de", "run.yaml")]
    for path in files:
        path.write_text("training.seed: 2\n")
    own = ["--train", *map(str, files[:2]), "--test", *map(str, files[2:4]), *OWN[3:]]
    found, _ = stages_of(backtranslate, *own, *more, "--config", str(files[4]))
    text, reverse, translate, forward = (stage.reads for stage in found)
    assert text == tuple(files) and translate == (tmp_path / "more.de",)
    assert reverse == forward == ()  # they read what these made, or what these noted
    found, _ = stages_of(distill, "--task", "multi30k_ende", "--seeds", "1")
    assert not any(stage.reads for stage in found)  # the task knows the hashes of its files


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.de", b"eins\nz\xff\n", r"a\.de:2: byte 0xff at position 2 .*UTF-8`\.$"),
        ("a.de", b"eins\nz\0\n", r"a\.de:2: NUL character"),
        ("a.de", b" \n\n", r"a\.de holds no text"),
        ("a.de", b"x" * (2**20 + 1), r"a\.de:1: the line has more than"),
        ("a.de.gz", gzip.compress(b"eins\n" * 99, mtime=0)[:-9], r"a\.de\.gz is damaged"),
    ],
)
def test_target_text_is_read_through_before_the_first_stage(
    stages_of, tmp_path, name, content, told
):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=told):
        stages_of(backtranslate, "--target-text", str(tmp_path / name))


@pytest.mark.parametrize("arguments", [[], OWN], ids=["task", "own text"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_model_of_another_direction_is_refused(stages_of, exported, more, arguments, turned):
    task = "custom" if arguments else "cldr_ende"
    for languages in ("en", "de"), ("de", "en"), ("de", "fr"):
        exported("-".join(languages), *languages, task=task)
    setting = ["--set", "data.reverse=true"] if turned else []
    forward, back = ("de-en", "en-de") if turned else ("en-de", "de-en")
    options = {distill: ["--teacher"], backtranslate: [*more, "--reverse-model"]}
    for command, right in (distill, forward), (backtranslate, back):
        given = [*arguments, *setting, *options[command]]
        assert stages_of(command, *given, right)
        for wrong in {"en-de", "de-en", "de-fr"} - {right}:
            told = f"{wrong}/1 translates {wrong.replace('-', ' to ')}, and a model of "
            with pytest.raises(UserError, match=told + right.replace("-", " to ")):
                stages_of(command, *given, wrong)


@pytest.mark.parametrize("languages", [(), ("", ""), ("mul", "de")])
def test_a_model_that_does_not_say_its_languages_is_taken(stages_of, exported, languages):
    assert stages_of(distill, "--teacher", exported("silent", *languages))


def test_names_that_settings_can_not_hold_are_refused(stages_of, more, tmp_path):
    with pytest.raises(UserError, match=r"x,y/\S+ has a comma"):
        stages_of(distill, "--name", "x,y")
    assert stages_of(distill, *OWN, "--name", "x,y")  # options name files one by one
    for name, told in ("a,b", r"a,b has a comma"), ("a\udcff", r"a\\xff' is not UTF-8"):
        (tmp_path / name).write_text("eins\n")
        with pytest.raises(UserError, match=told):
            stages_of(backtranslate, *more, str(tmp_path / name))


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (distill, ["--seeds", "1", "1"], "--seeds should differ"),
        (distill, ["--student-set", "model.unit=1"], "Unknown setting 'model.unit'"),
        (distill, ["--student-model", "dtmt9"], "Unknown model 'dtmt9'"),
        (distill, ["--name", "a/b"], "plain name"),
        (backtranslate, ["--target-text", "none.de"], "--target-text: none.de was not found"),
        (distill, ["--teacher", "none"], "--teacher: .*none holds no exported model"),
        (backtranslate, ["--target-text", __file__, "--tag", "a b"], "without blanks"),
        (backtranslate, ["--target-text", __file__, "--tag", ","], "--tag should hold no comma"),
        (backtranslate, ["--target-text", __file__, "--tag=-b"], "--tag should .* no dash"),
        (backtranslate, ["--target-text", __file__, "--reverse-model", "none"], "--reverse-model:"),
        (backtranslate, ["--target-text", __file__, "--sample", "--top-k", "-5"], "at least 0"),
        (backtranslate, ["--target-text", __file__, "--upsample", "0"], "--upsample should be"),
    ],
)
def test_mistakes_are_told_before_the_first_stage(stages_of, command, arguments, message):
    with pytest.raises(UserError, match=message):
        stages_of(command, *arguments)


def test_several_machines_are_refused(stages_of, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", startup.CLUSTER_EXAMPLE)
    with pytest.raises(UserError, match="Unset TF_CONFIG"):
        stages_of(distill)


def test_places_are_named_only_if_they_are_no_defaults(tmp_path, monkeypatch):
    monkeypatch.setenv(common.DATA_DIR_VARIABLE, str(tmp_path))

    def places(*arguments):
        parser = recipe.recipe_parser("dtmt distill", "text", "x", "example")
        return recipe.Recipe(parser.parse_args(list(arguments))).places

    assert places() == []
    (tmp_path / "d").mkdir()
    data = ["--data-dir", str(tmp_path / "d")]
    assert places(*data, "--output-dir", "o") == ["--output-dir", "o", *data]


def test_text_is_written_pair_by_pair(tmp_path):
    of_a_killed_process = tmp_path / f"train.source.{'0' * 16}.partial"
    of_a_killed_process.write_text("half")
    prepare.write_text(Lines(["one", "\0", "a\u0085b"], ["eins", "zwei\nzwei", "drei"]), tmp_path)
    assert (tmp_path / "train.source").read_bytes() == "one\n \na\u0085b\n".encode()
    assert (tmp_path / "train.target").read_text() == "eins\nzwei zwei\ndrei\n"
    assert not of_a_killed_process.exists()
