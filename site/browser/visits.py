"""A built site in a real browser: serving it, opening pages, saying what is wrong with one.

Everything stays on this machine: the server listens on a loopback port that the system chooses, and
a request to any other host is stopped in the browser and reported.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import importlib.resources
import importlib.util
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Request

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",  # CI runs as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TIMEOUT = 120_000  # milliseconds for one wait: against a hang only, no page takes a tenth
PROBES = Path(__file__).with_name("probes.js")


def missing() -> str:
    """Return what the browser tests lack on this machine, in words, or nothing."""
    modules = ("playwright", "axe_playwright_python")
    lacking = [module for module in modules if importlib.util.find_spec(module) is None]
    if lacking:
        return f"{' and '.join(lacking)} not installed: run `nox -s browser`"
    if not Path(CHROMIUM).exists():
        return f"no Chromium at {CHROMIUM}: apt-get install chromium, or set CHROMIUM"
    return ""


def skip(lacking: str) -> bool:
    """Return whether to skip for what is lacking; where browser tests are required, they fail."""
    return bool(lacking) and "BROWSER_REQUIRED" not in os.environ


@dataclass(frozen=True)
class Setting:
    """What a reader's screen is like."""

    width: int
    scheme: str = "light"

    def __str__(self) -> str:
        """Return a short name, for test ids and file names."""
        return f"{self.width}-{self.scheme}"


@dataclass(frozen=True)
class Fetched:
    """One answer of the server: its path, and its size in bytes as it is and with gzip."""

    path: str
    size: int
    compressed: int


@dataclass
class Visit:
    """What happened while a page was open."""

    page: Page
    home: str
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def fetched(self) -> list[Fetched]:
        """Return what the page asked for and got, in order."""
        answers = [(request.url, request.response()) for request in self.requests]
        return [_fetched(url, answer.body()) for url, answer in answers if answer]


def _fetched(url: str, body: bytes) -> Fetched:
    binary = url.endswith((".woff2", ".png"))
    size = len(body)
    return Fetched(urlsplit(url).path, size, size if binary else len(gzip.compress(body, 6)))


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve `folder` on a loopback port while the context is open; yield its address."""
    handler = functools.partial(_QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Keep the test's output free of one line per request."""

    def send_error(self, code: int, *_: object) -> None:
        """Answer what is missing with the site's own page, as a host of static sites does."""
        page = Path(self.directory) / "404.html"
        body = page.read_bytes() if page.exists() else b""
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start Debian's Chromium with an empty profile; end it when the context closes."""
    from playwright.sync_api import sync_playwright  # only these tests need it

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def reader(browser: Browser, setting: Setting, **options: object) -> Iterator[BrowserContext]:
    """Open a fresh browser context (nothing stored, nothing cached) with a reader's screen."""
    context = browser.new_context(
        viewport={"width": setting.width, "height": 900},
        color_scheme=setting.scheme,
        reduced_motion="reduce",  # colours are judged at rest, not half-way through a transition
        **options,
    )
    context.set_default_timeout(TIMEOUT)
    context.add_init_script(path=PROBES)
    try:
        yield context
    finally:
        context.close()


def visit(context: BrowserContext, home: str, path: str) -> Visit:
    """Open `home + path`, stopping every request to another place, and note what happens."""
    page = context.new_page()
    seen = Visit(page, home)
    page.on("pageerror", lambda error: seen.errors.append(f"script error: {error}"))
    page.on("console", lambda said: said.type == "error" and seen.errors.append(said.text))
    page.on("request", lambda request: seen.requests.append(request))  # noqa: PLW0108, it is marked

    def stop_foreign(route: object) -> None:
        url = route.request.url
        if url.startswith((home, "data:", "blob:")):
            route.continue_()
        else:
            seen.foreign.append(url)
            route.abort()

    page.route("**/*", stop_foreign)
    page.goto(home + path)  # a loaded machine can be idle on the network before its scripts ran
    page.wait_for_load_state("networkidle")
    return seen


def enliven(page: Page) -> None:
    """Go to each figure that can be seen, as a reader does who scrolls, until it has come to life.

    Then go back to where the page begins.
    """
    names = page.evaluate("probes.lifeless()")
    for name in dict.fromkeys(names):
        page.locator(name).first.evaluate("figure => figure.scrollIntoView()")
        page.wait_for_function("name => customElements.get(name)", arg=name)
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_load_state("networkidle")


def show(page: Page, setting: Setting) -> None:
    """Give an open page another screen: its width, and the scheme by the switch in the header."""
    page.set_viewport_size({"width": setting.width, "height": 900})
    scheme = {"light": "default", "dark": "slate"}[setting.scheme]
    if page.locator("body").get_attribute("data-md-color-scheme") != scheme:
        page.locator("[data-md-component=palette] label:visible").click()
        page.locator(f"body[data-md-color-scheme={scheme}]").wait_for()


def faults(seen: Visit) -> list[str]:
    """Return all that is wrong with an open page, in words."""
    return [*faults_of_loading(seen), *faults_of_layout(seen.page), *accessibility(seen.page)]


def faults_of_loading(seen: Visit) -> list[str]:
    """Return what went wrong since the page was opened, whatever screen it is on."""
    foreign = [f"asks another host: {url}" for url in dict.fromkeys(seen.foreign)]
    shown = seen.page.locator(".page-problem").all_inner_texts()
    return [
        *foreign,
        *([] if foreign else dict.fromkeys(seen.errors)),  # a stopped request also logs an error
        *(f"shows a problem of the build: {text}" for text in shown),
    ]


def faults_of_layout(page: Page) -> list[str]:
    """Return what does not fit on the screen."""
    wide = page.evaluate("probes.beyondTheScreen()")
    broken = page.evaluate("probes.brokenWords()")
    return [
        *(f"wider than the screen: {element}" for element in wide),
        *([f"breaks words in tables: {', '.join(dict.fromkeys(broken))}"] if broken else []),
    ]


def accessibility(page: Page, *, colours_of_the_text: bool = True) -> list[str]:
    """Return axe-core's violations of WCAG 2.1 A and AA, each with the first element it names.

    Without the text's colours, which take most of the time and are the same at each width, it still
    judges those of what stands around the article.
    """
    if not page.evaluate("() => 'axe' in window"):
        script = importlib.resources.files("axe_playwright_python") / "axe.min.js"
        page.add_script_tag(content=script.read_text("utf-8"))
    if colours_of_the_text:
        return page.evaluate("probes.violations(document, {})")
    without = {"color-contrast": {"enabled": False}}
    around = "probes.violations({ exclude: ['article'] }, {}, ['color-contrast'])"
    return page.evaluate("rules => probes.violations(document, rules)", without) + page.evaluate(
        around
    )
