"""The page sends text to no server that only a link names, and runs no script but its own."""

import re
from html.parser import HTMLParser

import pytest

from tests.serving.page.conftest import PAGE, TEXT
from tests.serving.page.driver import expect, settled, shown, write

EVIL = "https://evil.example"


class Markup(HTMLParser):
    """Collects the page's elements: `(name, attributes, text)`."""

    def __init__(self):
        super().__init__()
        self.elements = []
        self.feed((PAGE / "index.html").read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.elements.append([tag, dict(attrs), ""])

    def handle_data(self, data):
        if self.elements:
            self.elements[-1][2] += data


def policy():
    """Returns the page's Content-Security-Policy: {directive: its sources}."""
    (text,) = [
        attributes["content"]
        for tag, attributes, _ in Markup().elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    parts = [part.split() for part in text.split(";")]
    return {name: sources for name, *sources in parts}


def test_there_is_no_inline_script_or_style():
    for tag, attributes, text in Markup().elements:
        assert tag != "style"
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        if tag == "script":
            assert re.fullmatch(r"\w+\.js", attributes["src"]) and not text.strip()
        assert "javascript:" not in str(attributes)


def test_the_policy_allows_scripts_and_styles_of_the_page_alone():
    directives = policy()
    assert directives["default-src"] == ["'none'"]
    assert directives["script-src"] == directives["style-src"] == ["'self'"]
    assert directives["base-uri"] == directives["form-action"] == ["'none'"]
    assert not [word for words in directives.values() for word in words if "unsafe" in word]
    first = [tag for tag, *_ in Markup().elements].index("script")
    assert any(
        "http-equiv" in each[1] for each in Markup().elements[:first]
    )  # it counts from there


def test_the_policy_is_in_force(visit):
    refused = []
    page = visit(before=lambda page: page.on("console", lambda said: refused.append(said.text)))
    write(page, TEXT)
    assert refused == []  # nothing of the page's own
    ran = page.evaluate(
        """async () => {
          window.ran = [];
          const attempts = {
            script() {
              const script = document.createElement("script");
              script.append("ran.push('script')");
              document.head.append(script);
            },
            markup() {
              const markup = "<img src=x onerror=ran.push('markup')>";
              document.body.insertAdjacentHTML("beforeend", markup);
            },
            handler() {
              document.body.setAttribute("onclick", "ran.push('handler')");
              document.body.click();
            },
            text() { setTimeout("ran.push('text')", 0); },
          };
          for (const attempt of Object.values(attempts)) try { attempt(); } catch {}
          await new Promise((done) => setTimeout(done, 200));
          return window.ran;
        }"""
    )
    assert ran == []
    assert any("Content Security Policy" in said or "Trusted" in said for said in refused)


@pytest.fixture
def requests_to():
    """Lists requests that leave for a host: `visit(before=requests_to(list))`."""

    def watch(seen, answer="refused"):
        def before(page):
            page.on("request", lambda request: seen.append((request.url, request.post_data)))
            page.route(f"{EVIL}/**", lambda route: route.fulfill(json={"predictions": [answer]}))

        return before

    return watch


def outside(seen):
    return [url for url, _ in seen if url.startswith(EVIL)]


def test_a_server_that_a_link_names_is_asked_about(visit, requests_to):
    seen = []
    page = visit(server=EVIL, before=requests_to(seen))
    expect(page.locator("#leave")).to_be_visible()
    expect(page.locator("#leave-server")).to_have_text(EVIL)
    page.evaluate(  # past the question, as a browser's extension might
        """() => {
          document.querySelector("#source").value = "my secret";
          document.querySelector("#source").dispatchEvent(new Event("input"));
          document.querySelector("#translate").click();
        }"""
    )
    page.wait_for_timeout(1000)  # more than the pause after typing
    assert not [post for _, post in seen if post]
    assert outside(seen) == []


@pytest.mark.parametrize("by", ["button", "Escape"])
def test_a_refusal_keeps_the_text_here(visit, files, requests_to, server, by):
    page = visit(server=server, models="shouter")
    page.locator("#settings-button").click()
    page.locator("#models").press("Enter")  # the user's own server is remembered
    seen = []
    again = visit(context=page.context, server=EVIL, models="shouter", before=requests_to(seen))
    expect(again.locator("#leave-no")).to_have_text(f"No, use {server}")
    expect(again.locator("#leave-no")).to_be_focused()
    if by == "Escape":
        again.keyboard.press("Escape")
    else:
        again.locator("#leave-no").click()
    expect(again.locator("#leave")).to_be_hidden()
    write(again, TEXT)
    assert shown(again) == [TEXT.upper()]
    assert outside(seen) == []
    assert "evil" not in again.url  # a reload does not ask again
    again.reload()
    expect(again.locator("#leave")).to_be_hidden()


def test_leave_is_for_this_visit(visit, requests_to):
    seen = []
    page = visit(server=EVIL, models="shouter", before=requests_to(seen))
    page.route(
        f"{EVIL}/**/metadata",
        lambda route: route.fulfill(
            json={"metadata": {"signature_def": {"signature_def": {"serving_default": {}}}}}
        ),
    )
    page.locator("#leave-yes").click()
    page.locator("#source").fill(TEXT)
    settled(page)
    assert shown(page) == ["refused"]
    assert f"{EVIL}/v1/models/shouter:predict" in outside(seen)
    page.reload()
    expect(page.locator("#leave")).to_be_visible()


@pytest.mark.parametrize(
    "address",
    [
        "evil.example:8501",
        "http://localhost@evil.example",
        "http://localhost.evil.example:8501",
        "http://127.0.0.1.evil.example",
        "//evil.example",
        "http://evil.example#.localhost",
        "HTTPS://EVIL.EXAMPLE",
        "http://10.0.0.1:8501",
        "http://0.0.0.0:8501",
    ],
)
def test_what_only_looks_like_this_machine_is_asked_about(visit, requests_to, address):
    seen = []
    page = visit(server=address, before=requests_to(seen))
    expect(page.locator("#leave")).to_be_visible()
    assert [url for url, _ in seen if "/v1/" in url] == []


@pytest.mark.parametrize(
    "address", ["localhost:1", "http://127.3.2.1:1", "http://[::1]:1", "https://a.localhost:1"]
)
def test_servers_of_this_machine_are_not_asked_about(visit, address):
    page = visit(server=address)
    expect(page.locator("#trouble")).to_contain_text("can not be reached")
    expect(page.locator("#leave")).to_be_hidden()


def test_the_host_of_the_page_itself_is_not_asked_about(visit):
    page = visit(
        address="http://translate.example",
        server="http://translate.example:8501",
        before=lambda page: page.route(
            "http://translate.example/*",
            lambda route: route.fulfill(
                path=PAGE / (route.request.url.split("?")[0].rpartition("/")[2] or "index.html")
            ),
        ),
    )
    expect(page.locator("#trouble")).to_contain_text("http://translate.example:8501")
    expect(page.locator("#leave")).to_be_hidden()


def test_a_server_that_the_user_wrote_is_not_asked_about(visit, requests_to):
    seen = []
    page = visit(before=requests_to(seen))
    page.locator("#settings-button").click()
    page.locator("#server").fill(EVIL)
    page.locator("#server").press("Enter")
    expect(page.locator("#settings")).to_be_hidden()
    page.reload()
    expect(page.locator("#about")).to_contain_text(EVIL)
    expect(page.locator("#leave")).to_be_hidden()
    assert outside(seen)
