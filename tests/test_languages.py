import pytest
from babel.core import get_global

from dtmt_tf.config import DataConfig
from dtmt_tf.errors import UserError
from dtmt_tf.languages import base_language, check_language, scripts
from dtmt_tf.tasks import TASKS
from tests.toy_experiment import message, resolved


@pytest.mark.parametrize(
    ("code", "base"),
    [
        ("zh-TW", "zh"),
        ("zh_Hans", "zh"),
        ("ZH", "zh"),
        ("x-mine", "x"),
        ("", ""),
        ("zho", "zh"),
        ("cmn-Hans", "zh"),
        ("jpn", "ja"),
        ("deu", "de"),
        ("gsw", "gsw"),
    ],
)
def test_the_base_of_a_code_is_its_language(code, base):
    assert base_language(code) == base


@pytest.mark.parametrize(
    "code",
    [
        *("", "en", "DE", "pt-BR", "pt_br", "zh-Hans-TW", "gsw", "deu", "cmn", "iw", "tlh"),
        *("x-klingon", "x_mine-2", "qaa", "qtz-x"),
    ],
)
def test_known_and_private_codes_are_taken(code):
    check_language("data.source_language", code)
    data = resolved(f"data.source_language={code}")[0].data
    assert data.source_language == code


def test_every_code_that_cldr_has_another_for_is_taken():
    for code in get_global("language_aliases"):
        check_language("data.source_language", code.replace("_", "-"))


def test_three_letters_are_written_as_two_are():
    assert scripts("zho") == scripts("zh") == {"CJK"} and scripts("deu") == {"LATIN"}


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("klingon", " Did you mean 'tlh'?"),
        ("German", " Did you mean 'de'?"),
        ("Deutsch", ""),
        ("xx", ""),
        ("x", ""),
        ("quz-", ""),
        ("../../evil", ""),
        ("/tmp/x", ""),
        ("en/../../x", ""),
        ("..", ""),
        ("a b", ""),
        ("en\n", ""),
        ("en\0", ""),
        ("e" * 300, ""),
        ("日本語", ""),
    ],
)
def test_any_other_text_is_refused_by_name(code, hint):
    for side in ("source", "target"):
        assert message(f"data.{side}_language={code}") == (
            f"`data.{side}_language` should be a language code, such as en or pt-BR, or a private "
            f"one, such as x-mine. Received: {code!r}.{hint}"
        )


def test_a_run_of_an_earlier_version_may_have_any_code_but_no_path():
    assert DataConfig(source_language="mylang").source_language == "mylang"
    with pytest.raises(UserError, match="language code"):
        DataConfig(target_language="../evil")


def test_a_public_corpus_may_call_its_languages_as_it_likes():
    public = "data.corpus=tfds", "data.tfds_name=ted_hrlr_translate/aztr_to_en"
    assert resolved(*public, "data.source_language=aztr")[0].data.source_language == "aztr"
    assert "language code" in message(*public, "data.source_language=../evil")


def test_tasks_name_languages():
    for task in TASKS.values():
        for side in (task.data.source_language, task.data.target_language):
            check_language("", side)
