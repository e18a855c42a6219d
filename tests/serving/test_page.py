"""The translation page in a headless Chromium shows what the server's REST API answers."""

import json
import re
import shutil
import socket
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlencode

import pytest
import requests
import tensorflow as tf

from tests.serving.running import ROOT, running_double

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
expect.set_options(timeout=30000)  # the machine may be busy
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")

PAGE = ROOT / "pipelines" / "serving" / "page"
TEXT = "two dogs run in the grass"
HOSTILE = [
    "<script>document.title = 'broken'</script>",
    "<img src=x onerror=\"document.title='broken'\">",
    "&lt;b&gt; \N{LOWER ONE EIGHTH BLOCK} \N{DOG FACE} \N{FAMILY}",
    "\N{HEBREW LETTER SHIN}\N{HEBREW LETTER LAMED} abc",
]
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


class Shouter(tf.Module):
    """A model that translates and has no other signature."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def translate(self, text):
        """Gives the text in capitals."""
        return {"translation": tf.strings.upper(text, "utf-8")}


class SilentFiles(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *unused):
        """Says nothing."""


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
        """Waits."""
        time.sleep(2)


@pytest.fixture(scope="module")
def models(served_models, tmp_path_factory):
    """`translator`, with all signatures, and `shouter`, with one."""
    folder = tmp_path_factory.mktemp("shouter")
    shouter = Shouter()
    tf.saved_model.save(
        shouter, str(folder / "1"), signatures={"serving_default": shouter.translate}
    )
    return {"translator": served_models["translator"], "shouter": folder}


@pytest.fixture(scope="module")
def client():
    """What sends requests beside the page."""
    with requests.Session() as session:
        session.trust_env = False  # no proxy stands between us and loopback
        yield session


@pytest.fixture(scope="module")
def server(models, client):
    """The server's REST address; its first answers, which take long, are given."""
    with running_double(models, "--rest-timeout-ms=120000") as running:
        for signature in ("serving_default", "translate_nbest", "align", "info"):
            body = {"signature_name": signature, "instances": [TEXT]}
            url = f"{running.rest}/v1/models/translator:predict"
            client.post(url, json=body, timeout=120).raise_for_status()
        yield running.rest


@pytest.fixture(scope="module")
def api(server, client):
    """Rows of the API's answer: `api(signature, lines)`."""

    def call(signature, lines, model="translator"):
        body = {"signature_name": signature, "instances": lines}
        url = f"{server}/v1/models/{model}:predict"
        return client.post(url, json=body, timeout=60).json()["predictions"]

    return call


@pytest.fixture(scope="module")
def listen():
    """Starts servers on loopback: `listen(handler)` gives an address."""
    servers = []

    def start(handler):
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def files(listen):
    """Where the page lies."""
    return listen(partial(SilentFiles, directory=PAGE))


@pytest.fixture(scope="module")
def chromium():
    """The browser."""
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, files, server):
    """Opens the page in a browser without a past: `visit(width=..., server=..., models=...)`."""
    contexts, failures = [], []

    def open_page(address=files, width=1280, context=None, before=None, **query):
        if context is None:
            context = chromium.new_context(viewport={"width": width, "height": 800})
            contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: failures.append(error))
        if before:
            before(page)
        query = {"models": "translator,shouter", "server": server} | query
        page.goto(f"{address}/index.html?{urlencode(query)}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert failures == []


@pytest.fixture
def page(visit):
    """The page, open."""
    return visit()


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
         "Hunde \N{LEFTWARDS ARROW} dog 55 %, s 35 %"),
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


def test_a_server_that_goes_is_told_and_its_return_is_noticed(visit, models):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    page = visit(server=address, models="shouter")  # the server is not there yet
    trouble = page.locator("#trouble")
    expect(trouble).to_contain_text(f"{address} can not be reached.")
    expect(trouble).to_contain_text("Start the server")
    page.locator("#source").fill(TEXT)
    shouter = {"shouter": models["shouter"]}
    with running_double(shouter, f"--rest-port={port}"):
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
