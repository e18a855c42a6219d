"""What tests do with the page, and read from it."""

import re

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
expect.set_options(timeout=180_000)  # the machine may be busy

# an alignment of words that have several sub-words, padded
ALIGNED = {
    "translation": "zwei Hunde rennen.",
    "source_subwords": ["\u2581two", "\u2581dog", "s", "\u2581run", "<eos>", ""],
    "target_subwords": ["\u2581zwei", "\u2581Hunde", "\u2581", "ren", "nen", ".", "<eos>", ""],
    "attention": [
        [0.90, 0.04, 0.03, 0.02, 0.01, 0.0],
        [0.05, 0.55, 0.35, 0.03, 0.02, 0.0],
        [0.10, 0.10, 0.20, 0.50, 0.10, 0.0],
        [0.02, 0.03, 0.05, 0.80, 0.10, 0.0],
        [0.01, 0.02, 0.07, 0.85, 0.05, 0.0],
        [0.05, 0.05, 0.10, 0.30, 0.50, 0.0],
        [0.01, 0.01, 0.01, 0.01, 0.96, 0.0],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.0],
    ],
    "source_length": 5,
    "target_length": 7,
}


def write(page, text):
    """Types a text and waits until all of the page is about it."""
    page.locator("#source").fill(text)
    settled(page)


def settled(page):
    """Waits until nothing old is shown and no sentence waits for its translation."""
    expect(page.locator("#status")).to_have_text(re.compile(r"^\d+\.\d\d s$"))
    expect(page.locator(".stale:visible")).to_have_count(0)


def shown(page):
    """The translations on the page, by line."""
    return texts(page, "#translation p")


def readable(subwords):
    """Sub-words as the page writes them."""
    words = [subword.replace("\u2581", " ").strip() or "\N{OPEN BOX}" for subword in subwords]
    return [*words[:-1], "end"] if subwords[-1] == "<eos>" else words


def texts(page, selector):
    """The text of elements."""
    return page.locator(selector).evaluate_all("all => all.map((one) => one.textContent)")


def weights(page, selector):
    """The attention that elements stand for."""
    return page.locator(selector).evaluate_all(
        "all => all.map((one) => Number(one.dataset.weight))"
    )


def lit(page):
    """Rows and columns of the heat map's cells that are lit."""
    return page.locator("#heat-map td.lit").evaluate_all(
        "all => all.map((one) => [one.parentNode.rowIndex - 1, one.cellIndex - 1])"
    )


def answering(**rows):
    """Puts rows in the place of signatures' answers: `visit(before=answering(align={...}))`."""

    def answer(route):
        signature = route.request.post_data_json["signature_name"]
        if signature in rows:
            route.fulfill(json={"predictions": [rows[signature]]})
        else:
            route.continue_()

    return lambda page: page.route("**/*:predict", answer)
