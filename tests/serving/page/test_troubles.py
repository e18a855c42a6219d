"""The page in time, and with servers that fail; its settings and its widths."""

import socket
from http.server import BaseHTTPRequestHandler

import pytest

from tests.serving.page.conftest import PAGE, TEXT
from tests.serving.page.driver import (
    answering,
    expect,
    settled,
    shown,
    write,
)
from tests.serving.running import running_server

# what a server may give back and the page's words for it: status, body, what is said
TROUBLES = [
    (404, '{"error": "Servable not found"}', "no model"),
    (400, '{"error": "Could not parse"}', "Could not parse"),
    (500, "it\\'s broken", "it\\'s broken"),
    (504, "{}", "did not answer in time"),
    (200, "<html>", "no translation"),
    (200, '{"predictions": []}', "no translation"),
    (200, '{"predictions": [{"label": 1}]}', "no translation"),
]


class NoLeave(BaseHTTPRequestHandler):
    """A server that does not let web pages read its answers."""

    def do_GET(self):
        """Answers."""
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *unused):
        """Says nothing."""


class Never(NoLeave):
    """A server that answers after the test."""

    def do_GET(self):
        """Waits until the test's server is closed, an hour at most."""
        self.server.closing.wait(3600)


def test_an_answer_that_comes_late_does_not_replace_a_newer_one(visit):
    held = []

    def answer(route):
        lines = route.request.post_data_json["instances"]
        if lines == ["slow"]:
            held.append(route)
        else:
            route.continue_()

    page = visit(models="shouter", before=lambda page: page.route("**/*:predict", answer))
    with page.expect_request(lambda request: "slow" in (request.post_data or "")):
        page.locator("#source").fill("slow")
    write(page, "fast")
    assert len(held) == 1
    held[0].fulfill(json={"predictions": ["too late"]})
    page.wait_for_timeout(200)
    assert shown(page) == ["FAST"]


def test_control_and_enter_asks_at_once_and_anew(visit):
    page = visit(models="shouter")
    write(page, TEXT)
    with page.expect_request("**/*:predict"):
        page.locator("#source").press("Control+Enter")
    settled(page)
    assert shown(page) == [TEXT.upper()]
    page.locator("#source").fill("")
    expect(page.locator("#translation p")).to_have_count(0)


def test_a_server_that_goes_is_told_and_its_return_is_noticed(visit, served_models):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    page = visit(server=address, models="shouter")  # the server is not there yet
    trouble = page.locator("#trouble")
    expect(trouble).to_contain_text(f"{address} can not be reached.")
    expect(trouble).to_contain_text("Start the server")
    page.locator("#source").fill(TEXT)
    shouter = {"shouter": served_models["shouter"]}
    with running_server(shouter, f"--rest-port={port}", "--cors"):
        settled(page)  # without a click
        assert shown(page) == [TEXT.upper()]
        expect(trouble).to_be_hidden()
    page.locator("#source").fill("dogs")
    expect(trouble).to_contain_text("can not be reached")
    assert shown(page) == [TEXT.upper()]
    expect(page.locator("#translation")).to_have_class("stale")  # and visibly not of "dogs"


@pytest.mark.parametrize("status, body, said", TROUBLES)
def test_troubles_are_told_in_words(visit, status, body, said):
    def answer(route):
        route.fulfill(status=status, body=body)

    page = visit(models="shouter", before=lambda page: page.route("**/*:predict", answer))
    page.locator("#source").fill(TEXT)
    expect(page.locator("#trouble-what")).to_contain_text(said)
    assert page.locator("#trouble-next").text_content().strip()
    page.unroute("**/*:predict")
    page.locator("#again").click()
    settled(page)
    assert shown(page) == [TEXT.upper()]
    expect(page.locator("#trouble")).to_be_hidden()


LIMIT = "assertion failed: [A line may hold at most 80 bytes (export.max_bytes). Received:] [99]"


def test_a_line_beyond_a_limit_is_shown_as_refused_and_others_are_translated(visit):
    asked = []

    def answer(route):
        lines = route.request.post_data_json["instances"]
        asked.append(lines)
        if "too long" in lines:
            route.fulfill(status=400, json={"error": LIMIT})
        else:
            route.continue_()

    page = visit(before=lambda page: page.route("**/*:predict", answer))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    lines = ["a dog", "two dogs", "too long", "a cat", "two cats"]
    write(page, "\n".join(lines))
    found = shown(page)
    refused = page.locator("#translation .refused")
    expect(refused).to_contain_text("at most 80 bytes (export.max_bytes)")
    expect(refused).to_contain_text("Shorten the line, or export with another limit.")
    assert found[2] == refused.text_content() and len(found) == 5
    expect(page.locator("#trouble")).to_be_hidden()
    refused.click()  # of it there are no details
    expect(page.locator("#hypotheses")).to_be_hidden()
    parts = [lines, lines[:3], lines[:2], ["too long"], lines[3:]]
    assert [each for each in asked if each in parts] == parts
    assert sum("too long" in each for each in asked) == 3
    page.locator("#copy").click()
    expect(page.locator("#copy")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert copied == [*found[:2], "", *found[3:]]
    page.locator("#translation p").nth(0).click()
    expect(page.locator("#hypotheses")).to_be_visible()


def test_a_refusal_that_names_no_limit_ends_it(visit):
    page = visit(
        models="shouter",
        before=lambda page: page.route(
            "**/*:predict", lambda route: route.fulfill(status=400, json={"error": "in my words"})
        ),
    )
    page.locator("#source").fill("a\nb\nc")
    expect(page.locator("#trouble")).to_contain_text("in my words")
    expect(page.locator("#trouble-next")).to_contain_text("one of dtmt_tf's exports")


def test_a_model_that_is_not_there_is_told(visit):
    page = visit(models="other")
    expect(page.locator("#trouble")).to_contain_text("no model \N{LEFT DOUBLE QUOTATION MARK}other")


def test_a_model_that_can_not_translate_is_told(visit):
    signatures = {"metadata": {"signature_def": {"signature_def": {"score": {}}}}}
    page = visit(
        before=lambda page: page.route("**/metadata", lambda route: route.fulfill(json=signatures))
    )
    page.locator("#source").fill(TEXT)
    expect(page.locator("#trouble")).to_contain_text("has no signature")


def test_a_server_without_leave_for_pages_is_told(visit, listen):
    page = visit(server=listen(NoLeave))
    expect(page.locator("#trouble")).to_contain_text("--rest_api_enable_cors_support")


def test_a_server_that_never_answers_is_told(visit, listen):
    page = visit(
        server=listen(Never),
        before=lambda page: page.add_init_script(
            "const wait = AbortSignal.timeout.bind(AbortSignal);"
            "AbortSignal.timeout = () => wait(100);"
        ),
    )
    expect(page.locator("#trouble")).to_contain_text("did not answer in time")


def test_settings_are_used_and_remembered(visit, files, server):
    page = visit(server="http://127.0.0.1:9", models="other")
    expect(page.locator("#trouble")).to_be_visible()
    page.locator("#settings-button").click()
    page.locator("#server").fill(server.removeprefix("http://") + "/")
    page.locator("#models").fill(" shouter , translator")
    page.locator("#models").press("Enter")
    expect(page.locator("#settings")).to_be_hidden()
    expect(page.locator("#trouble")).to_be_hidden()
    write(page, TEXT)
    assert shown(page) == [TEXT.upper()]
    again = visit(context=page.context)
    again.goto(f"{files}/index.html")  # nothing in the address
    assert again.locator("#model option").all_text_contents() == ["shouter", "translator"]
    write(again, TEXT)
    assert shown(again) == [TEXT.upper()]


def test_the_page_works_as_a_file(visit, api):
    page = visit(address=PAGE.as_uri())
    write(page, TEXT)
    assert shown(page) == [row["translation"] for row in api("serving_default", [TEXT])]
    expect(page.locator("#heat-map tbody td").first).to_be_visible()


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_makes_the_page_wider_than_its_window(visit, width):
    wide = {
        "source_subwords": ["\u2581word"] * 60, "target_subwords": ["\u2581" + "w" * 60] * 3,
        "attention": [[1 / 60] * 60] * 3, "source_length": 60, "target_length": 3,
    }  # fmt: skip
    page = visit(width=width, before=answering(align=wide | {"translation": "w" * 180}))
    write(page, "w" * 300)
    page.locator("#settings-button").click()
    frame, table = page.locator(".scroll"), page.locator("#heat-map")
    expect(table).to_be_visible()
    assert frame.bounding_box()["width"] < table.bounding_box()["width"]  # the frame scrolls
    assert page.evaluate("document.documentElement.scrollWidth") <= width
