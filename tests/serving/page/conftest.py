"""The page, served, and a browser that visits it."""

import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlencode

import pytest
import requests

from tests.serving.running import ROOT

PAGE = ROOT / "pipelines" / "serving" / "page"
TEXT = "two dogs run in the grass"


class SilentFiles(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *unused):
        """Says nothing."""


@pytest.fixture(scope="session")
def client():
    """What sends requests beside the page."""
    with requests.Session() as session:
        session.trust_env = False  # no proxy stands between us and loopback
        yield session


@pytest.fixture(scope="session")
def server(server, client):
    """The server's REST address; its first answers, which take long, are given."""
    for signature in ("serving_default", "translate_nbest", "align", "info"):
        body = {"signature_name": signature, "instances": [TEXT]}
        url = f"{server.rest}/v1/models/translator:predict"
        client.post(url, json=body, timeout=1800).raise_for_status()
    return server.rest


@pytest.fixture(scope="session")
def api(server, client):
    """Rows of the API's answer: `api(signature, lines)`."""

    def call(signature, lines, model="translator"):
        body = {"signature_name": signature, "instances": lines}
        url = f"{server}/v1/models/{model}:predict"
        return client.post(url, json=body, timeout=1800).json()["predictions"]

    return call


@pytest.fixture(scope="session")
def listen():
    """Starts servers on loopback: `listen(handler)` gives an address."""
    servers = []

    def start(handler):
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.closing = threading.Event()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.closing.set()
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def files(listen):
    """Where the page lies."""
    return listen(partial(SilentFiles, directory=PAGE))


@pytest.fixture(scope="session")
def chromium():
    """The browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
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
