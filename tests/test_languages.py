import sys

import pytest
from babel import Locale
from babel.core import get_global

from dtmt_tf.config import DataConfig
from dtmt_tf.errors import UserError
from dtmt_tf.languages import (
    base_language,
    between_sentences,
    check_language,
    has_blanks,
    script,
    scripts,
)
from dtmt_tf.tasks import TASKS
from tests.toy_experiment import message, resolved


@pytest.mark.parametrize(
    ("code", "base"),
    [
        ("zh-TW", "zh"),
        ("zh_Hans", "zh"),
        ("ZH", "zh"),
        ("x-mine", "x-mine"),
        ("X_Mine", "x-mine"),
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


def test_languages_without_blanks_have_them_in_latin_letters():
    assert not any(map(has_blanks, ("ja", "zh-Hant", "cmn", "th_TH", "shn", "my", "dz")))
    assert all(map(has_blanks, ("ja-Latn", "zh_latn_CN", "en", "ko", "sr-Latn", "x-mine", "")))


def test_sentences_touch_in_chinese_and_japanese_alone():
    assert set(map(between_sentences, ("zh", "zh-tw", "zh_Hans", "yue", "JA"))) == {""}
    assert set(map(between_sentences, ("de", "th", "my", "km", "bo", "ja-Latn", ""))) == {" "}


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


def test_four_digits_are_a_variant_and_no_script():
    assert scripts("de-1996") == {"LATIN"} and scripts("sr-Cyrl-1996") == {"CYRILLIC"}


def test_a_language_that_is_not_known_has_no_script_unless_it_names_one():
    assert scripts("und") == scripts("mul") == frozenset()
    assert scripts("und-Cyrl") == {"CYRILLIC"}


def test_scripts_are_those_that_letters_have():
    letters = {script(chr(code)) for code in range(sys.maxunicode + 1)} - {""}
    likely = get_global("likely_subtags")
    for code in [*Locale("en").languages, *get_global("language_aliases"), *likely]:
        assert scripts(code) <= letters, code
    for own in Locale("en").scripts:
        assert scripts(f"en-{own}") <= letters, own


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("bn", "আমি ভাত খাই"),
        ("as", "মই ভাত খাওঁ"),
        ("or", "ମୁଁ ଭାତ ଖାଏ"),
        ("mni-Mtei", "ꯑꯩ"),
        ("iu", "ᐃᓄᒃᑎᑐᑦ"),
        ("cr", "ᓀᐦᐃᔭᐍᐏᐣ"),
        ("oj", "ᐊᓂᔑᓈᐯᒧᐎᓐ"),
        ("nqo", "ߒߞߏ"),
        ("akk", "𒀝𒅗𒁺𒌑"),
        ("cu-Cyrs", "слово"),
        ("ga-Latg", "Gaeilge"),
        ("yue", "佢哋"),
        ("am", "አማርኛ"),
        ("chr", "ᏣᎳᎩ"),
        ("dv", "ދިވެހި"),
        ("sat", "ᱥᱟᱱᱛᱟᱲᱤ"),
        ("ber-Tfng", "ⵜⴰⵎⴰⵣⵉⵖⵜ"),
    ],
)
def test_a_language_has_the_script_of_its_text(code, text):
    assert scripts(code) == {script(letter) for letter in text} - {""}


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
