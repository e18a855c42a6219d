"""The page in a headless Chromium shows what the server's REST API answers."""

import json

import pytest

from tests.serving.page.conftest import TEXT
from tests.serving.page.driver import (
    ALIGNED,
    answering,
    expect,
    lit,
    readable,
    settled,
    shown,
    texts,
    weights,
    write,
)

HOSTILE = [
    "<script>document.title = 'broken'</script>",
    "<img src=x onerror=\"document.title='broken'\">",
    "&lt;b&gt; \N{LOWER ONE EIGHTH BLOCK} \N{DOG FACE} \N{FAMILY}",
    "\N{HEBREW LETTER SHIN}\N{HEBREW LETTER LAMED} abc",
]


def test_typing_shows_the_translation_that_the_api_gives(page, api):
    page.locator("#source").press_sequentially(TEXT, delay=10)
    settled(page)
    assert shown(page) == [row["translation"] for row in api("serving_default", [TEXT])]
    task = json.loads(api("info", [TEXT])[0])["task"]
    expect(page.locator("#about dl")).to_contain_text(task)


def test_the_list_is_the_n_best_list(page, api):
    write(page, TEXT)
    (row,) = api("translate_nbest", [TEXT])
    expect(page.locator("#hypotheses li")).to_have_count(sum(n > 0 for n in row["lengths"]))
    items = page.locator("#hypotheses li").evaluate_all(
        "all => all.map(({ firstChild: text, lastChild: data }) =>"
        " [text.textContent, Number(data.value), data.textContent])"
    )
    expected = [
        [text, pytest.approx(score), f"{score:.3f}".replace("-", "\N{MINUS SIGN}")]
        for text, score, length in zip(
            row["translations"], row["scores"], row["lengths"], strict=True
        )
        if length
    ]
    assert len(items) > 1
    assert items == expected


def test_the_heat_map_is_the_attention(page, api):
    write(page, TEXT)
    expect(page.locator("#heat-map")).to_be_visible()
    (row,) = api("align", [TEXT])
    source = row["source_subwords"][: row["source_length"]]
    target = row["target_subwords"][: row["target_length"]]
    assert texts(page, "#heat-map thead th") == readable(source)
    assert texts(page, "#heat-map tbody th") == readable(target)
    attention = [weight for row in row["attention"][: len(target)] for weight in row[: len(source)]]
    assert weights(page, "#heat-map tbody td") == pytest.approx(attention, abs=1e-6)
    assert "\u2581" not in page.locator("body").text_content()


def test_the_strongest_attention_has_the_strongest_colour(visit):
    page = visit(before=answering(align=ALIGNED))
    write(page, TEXT)
    expect(page.locator("#heat-map")).to_be_visible()
    colours = page.locator("#heat-map tbody tr:first-child td").evaluate_all(
        "all => all.map((one) => getComputedStyle(one).backgroundColor)"
    )
    assert len(set(colours)) == 5
    strengths = page.locator("#heat-map tbody td").evaluate_all(
        "all => all.map((one) => Number(one.style.getPropertyValue('--weight')))"
    )
    expected = [weight / 0.96 for row in ALIGNED["attention"][:7] for weight in row[:5]]
    assert strengths == pytest.approx(expected, abs=1e-6)
    expect(page.locator("#strongest")).to_have_text("96 %")


@pytest.mark.parametrize("by", ["pointer", "keyboard"])
@pytest.mark.parametrize(
    "side, word, active, others, linked, said",
    [
        ("target", 1, ["Hunde"], [0.05, 0.55, 0.35, 0.03, 0.02], ["dog", "s"],
         "Hunde \N{LEFTWARDS ARROW} dogs 90 %"),
        ("target", 2, ["", "ren", "nen"], [0.13 / 3, 0.05, 0.32 / 3, 2.15 / 3, 0.25 / 3], ["run"],
         "rennen \N{LEFTWARDS ARROW} run 72 %"),
        ("source", 1, ["dog", "s"], [0.07, 0.9, 0.3, 0.08, 0.09, 0.15, 0.02], ["Hunde"],
         "dogs \N{RIGHTWARDS ARROW} Hunde 90 %"),
    ],
    ids=["target word", "target word of several sub-words", "source word"],
)  # fmt: skip
def test_a_word_lights_up_what_it_was_translated_from_or_to(
    visit, by, side, word, active, others, linked, said
):
    page = visit(before=answering(align=ALIGNED))
    write(page, TEXT)
    if by == "pointer":
        page.locator(f"#{side}-words .word").nth(word).hover()
    else:
        page.locator(f"#{side}-words .word").first.focus()
        for _ in range(word):
            page.keyboard.press("ArrowRight")
    other = "source" if side == "target" else "target"
    assert texts(page, f"#{side}-words .active") == active
    assert texts(page, f"#{other}-words .linked") == linked
    assert weights(page, f"#{other}-words [data-index]") == pytest.approx(others, abs=1e-6)
    names = {name: readable(ALIGNED[f"{name}_subwords"]) for name in ("source", "target")}
    rows, columns = (active, linked) if side == "target" else (linked, active)
    assert lit(page) == [
        [names["target"].index(row or "\N{OPEN BOX}"), names["source"].index(column)]
        for row in rows
        for column in columns
    ]
    expect(page.locator("#readout")).to_have_text(said)
    if by == "pointer":
        page.locator("h1").hover()
        expect(page.locator(".active, .linked, .lit")).to_have_count(0)


def test_a_cell_names_its_two_sub_words(visit):
    page = visit(before=answering(align=ALIGNED))
    write(page, TEXT)
    page.locator("#heat-map tbody tr").nth(1).locator("td").nth(2).hover()
    expect(page.locator("#readout")).to_have_text("Hunde \N{LEFTWARDS ARROW} s 35 %")
    assert lit(page) == [[1, 2]]


def test_sub_words_read_as_the_sentence(visit):
    page = visit(before=answering(align=ALIGNED))
    write(page, TEXT)
    expect(page.locator("#source-words")).to_have_text("two dogs run end")
    assert texts(page, "#target-words .word") == ["zwei", "Hunde", "rennen", ".", "end"]
    assert page.locator("#target-words").text_content() == " zwei Hunde rennen. end"


def test_lines_are_sentences_and_one_at_a_time_has_details(page, api):
    lines = ["a small dog runs", "", TEXT, "the cat sleeps on a mat"]
    write(page, "\n".join(lines))
    sentences = [line for line in lines if line]
    assert shown(page) == [row["translation"] for row in api("serving_default", sentences)]
    expect(page.locator("#position")).to_have_text("Sentence 3 of 3")  # where the caret is
    page.locator("#previous").click()
    expect(page.locator("#source-words")).to_have_text(f"{TEXT} end")
    page.locator("#translation p").first.click()
    expect(page.locator("#source-words")).to_have_text(f"{sentences[0]} end")


def test_many_lines_go_a_few_at_a_time_and_known_ones_not_again(page, api):
    asked = []
    page.on("request", lambda request: asked.append(request.post_data_json or {}))
    lines = [f"{k} dogs" for k in range(20)]
    write(page, "\n".join(lines))
    assert shown(page) == [row["translation"] for row in api("serving_default", lines)]
    write(page, "\n".join([*lines, TEXT]))
    parts = [body["instances"] for body in asked if body.get("signature_name") == "serving_default"]
    assert parts == [lines[:16], lines[16:], [TEXT]]


def test_another_model_answers_after_a_switch(page, api):
    write(page, TEXT)
    page.locator("#model").select_option("shouter")
    settled(page)
    assert shown(page) == [TEXT.upper()] == api("serving_default", [TEXT], "shouter")
    page.locator("#model").select_option("translator")
    settled(page)
    assert shown(page) == [row["translation"] for row in api("serving_default", [TEXT])]


def test_a_model_without_alignment_still_translates(visit):
    page = visit(models="shouter")
    write(page, TEXT)
    assert shown(page) == [TEXT.upper()]
    for panel in ("#hypotheses", "#alignment", "#trouble"):
        expect(page.locator(panel)).to_be_hidden()


def test_the_card_is_shown_as_far_as_it_is_there(visit):
    info = {
        "task": "multi30k_ende", "source_language": "en", "target_language": "de",
        "parameters": 1234567,
        "scores": {"test": {"bleu": 38.616, "signature": "nrefs:1|tok:13a"}, "validation": None},
    }  # fmt: skip

    page = visit(before=answering(info=json.dumps(info)))
    facts = page.locator("#about dl")
    expect(facts).to_contain_text("English \N{RIGHTWARDS ARROW} German")
    for fact in ("multi30k_ende", "1,234,567", "38.62", "nrefs:1|tok:13a"):
        expect(facts).to_contain_text(fact)
    expect(facts.locator("dt", has_text="BLEU")).to_have_count(1)
    expect(page.locator("#source-language")).to_have_text("English")
    expect(page.locator("#target-language")).to_have_text("German")
    expect(page.locator("#translation")).to_have_attribute("lang", "de")


def test_hostile_text_is_shown_as_text(visit):
    page = visit(models="shouter")
    write(page, "\n".join(HOSTILE))
    assert shown(page) == [line.upper() for line in HOSTILE]
    assert page.title() == "Translate"
    directions = page.locator("#translation p").evaluate_all(
        "all => all.map((one) => getComputedStyle(one).direction)"
    )
    assert directions == ["ltr", "ltr", "ltr", "rtl"]


def test_hostile_sub_words_hypotheses_and_cards_are_shown_as_text(visit):
    page = visit(
        before=answering(
            serving_default={"translation": HOSTILE[1]},
            translate_nbest={"translations": HOSTILE, "scores": [-1] * 4, "lengths": [1, 1, 0, 1]},
            align=ALIGNED
            | {
                "source_subwords": [HOSTILE[0], *ALIGNED["source_subwords"][1:]],
                "target_subwords": [HOSTILE[1], *ALIGNED["target_subwords"][1:]],
            },
            info=json.dumps({"task": HOSTILE[1], "source_language": HOSTILE[0]}),
        )
    )
    write(page, TEXT)
    expect(page.locator("#hypotheses li span")).to_have_text([HOSTILE[0], HOSTILE[1], HOSTILE[3]])
    expect(page.locator("#heat-map thead th").first).to_have_text(HOSTILE[0])
    expect(page.locator("#target-words")).to_contain_text(HOSTILE[1])
    page.locator("#heat-map tbody td").first.hover()
    expect(page.locator("#readout")).to_contain_text(HOSTILE[0])
    expect(page.locator("#about")).to_contain_text(HOSTILE[1])
    expect(page.locator("img, body script")).to_have_count(0)
    assert page.title() == "Translate"
