"""What the page does beside translating: files, copies, marks, and a sign of work that goes on."""

from tests.serving.page.conftest import TEXT
from tests.serving.page.driver import ALIGNED, answering, expect, settled, shown, write

LISTED = {
    "translations": ["zwei Hunde rennen", "zwei Hunde laufen", "zwei Tiere laufen"],
    "scores": [-0.5, -0.6, -0.7],
    "lengths": [4, 4, 4],
}


def test_a_word_that_most_other_translations_lack_is_marked(visit):
    page = visit(
        before=answering(
            serving_default={"translation": LISTED["translations"][0]}, translate_nbest=LISTED
        )
    )
    write(page, TEXT)
    marks = page.locator("#translation mark")
    expect(marks).to_have_text(["rennen"])
    expect(marks).to_have_attribute("title", "37 % of the best translations have this word")
    assert shown(page) == [LISTED["translations"][0]]
    expect(page.locator("#unsure-hint")).to_be_visible()
    page.locator("#source").fill("")
    expect(page.locator("#unsure-hint")).to_be_hidden()


def test_work_shows_in_its_place_and_what_was_there_stays(visit):
    held = []

    def hold(route):
        """Answers the first alignment and keeps the second one waiting."""
        if route.request.post_data_json["signature_name"] != "align":
            route.continue_()
        elif held:
            held.append(route)
        else:
            held.append(None)
            route.fulfill(json={"predictions": [ALIGNED]})

    page = visit(before=lambda page: page.route("**/*:predict", hold))
    write(page, TEXT)
    alignment, top = page.locator("#alignment"), page.locator("#about").bounding_box()["y"]
    expect(alignment).to_have_attribute("aria-busy", "false")
    page.locator("#source").fill("a small dog runs")
    expect(alignment).to_have_attribute("aria-busy", "true")
    expect(page.locator("#target-words")).to_contain_text("rennen")
    assert page.locator("#about").bounding_box()["y"] == top
    held[-1].fulfill(json={"predictions": [ALIGNED | {"target_subwords": ["und", "<eos>"]}]})
    expect(page.locator("#target-words")).to_contain_text("und")
    expect(alignment).to_have_attribute("aria-busy", "false")


def test_a_file_is_translated_and_its_translations_are_copied(visit):
    page = visit(models="shouter")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    lines = [f"line {k}" for k in range(40)]
    lines[7] = ""
    text = "\ufeff" + "\r\n".join(lines)
    _open(page, text.encode())
    settled(page)
    assert shown(page) == [line.upper() for line in lines if line]
    page.locator("#copy").click()
    expect(page.locator("#copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "\n".join(lines).upper()
    _open(page, b"\xff\xfe no text")
    expect(page.locator("#status")).to_have_text("lines.txt is no text in UTF-8.")
    _open(page, b"x" * (2**20 + 1))
    expect(page.locator("#status")).to_contain_text("larger than 1 MiB")
    assert page.locator("#source").input_value() == "\n".join(lines)


def _open(page, content):
    file = {"name": "lines.txt", "mimeType": "text/plain", "buffer": content}
    page.locator("#file").set_input_files(file)
