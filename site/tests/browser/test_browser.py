"""Every page of the built site in Debian's Chromium: what a reader gets, sees and can reach.

`nox -s browser` builds the site first and installs what this needs. The pages are those in public/
(or in the folder SITE_DIR); screenshots for a person go to .cache/screenshots, sizes to
.cache/browser. Without a browser, without playwright or without a built site the tests are
skipped, saying so; with BROWSER_REQUIRED=1 they fail instead.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from browser import visits
from browser.visits import Setting, reader, visit
from press.project import ROOT

SITE = Path(os.environ.get("SITE_DIR", ROOT / "public")).resolve()
SCREENSHOTS = ROOT / ".cache" / "screenshots"
FIGURES = ROOT / ".cache" / "browser"
# The longest first, so that nobody waits for it at the end.
PAGES = [
    str(page.relative_to(SITE))
    for page in sorted(SITE.glob("**/*.html"), key=lambda page: -page.stat().st_size)
]
LONGEST = PAGES[0] if PAGES else ""
WIDE, DESKTOP, PHONE = 1440, 1280, 390
SETTINGS = [Setting(width, "light") for width in (WIDE, DESKTOP, PHONE)]
SETTINGS += [Setting(width, "dark") for width in (PHONE, DESKTOP, WIDE)]
OPEN_ALL = """async () => {
  for (const box of document.querySelectorAll("details")) box.open = true;
  for (const frame of [1, 2]) await new Promise(requestAnimationFrame); // page.js has seen it
}"""
A4 = Setting(718, "dark")  # 190 mm in CSS pixels
PICTURE = 12_000
MOST = {"requests": 15, "bytes": 878_000, "own script bytes": 60_000}  # of a first visit


NOT_BUILT = "" if PAGES else f"no built site in {SITE}: run `nox -s docs` first"
LACKING = visits.missing() or NOT_BUILT
if visits.skip(NOT_BUILT):
    pytest.skip(NOT_BUILT, allow_module_level=True)  # there is no page to name a test after
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(visits.skip(LACKING), reason=LACKING),
]


@pytest.fixture(scope="module")
def site():
    with visits.serve(SITE) as home:
        yield home


@pytest.fixture
def longest(chromium, site):
    """Open the longest page on a desktop screen: it has something of everything."""
    with reader(chromium, Setting(WIDE)) as context:
        yield visit(context, site, LONGEST).page


each_page = pytest.mark.parametrize("path", PAGES or ["no page"])


@each_page
def test_a_page_loads_fits_prints_and_is_accessible(chromium, site, path):
    """One visit, on six screens in turn and then on paper; all that is wrong is told."""
    with reader(chromium, SETTINGS[0]) as context:
        seen = visit(context, site, path)
        told = over_budget(seen, path)
        visits.enliven(seen.page)
        for setting in SETTINGS:
            visits.show(seen.page, setting)
            photograph(seen.page, path, setting)
            told += [f"{setting}: {fault}" for fault in faults_on(seen.page, setting)]
        told += [f"on paper: {fault}" for fault in faults_on_paper(seen.page)]
        told += visits.faults_of_loading(seen)

    assert told == []


def faults_on(page, setting: Setting) -> list[str]:
    """Return what is wrong on one screen; the colours of a text are the same at each width."""
    layout = visits.faults_of_layout(page)
    if setting.width == WIDE:
        return layout
    colours = setting.width == DESKTOP
    return layout + visits.accessibility(page, colours_of_the_text=colours)


def faults_on_paper(page) -> list[str]:
    """Nothing is wider than its box, code wraps, and the dark scheme prints on white."""
    visits.show(page, A4)
    page.emulate_media(media="print", color_scheme="dark", reduced_motion="reduce")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    clipped = [f"clipped: {element}" for element in page.evaluate("probes.clipped()")]
    return clipped + ([] if background == "rgb(255, 255, 255)" else [f"prints on {background}"])


def photograph(page, path: str, setting: Setting) -> None:
    """Keep the page as pictures that are not too long: a module is longer than a JPEG may be."""
    if setting.width == DESKTOP:
        return
    name = path.removesuffix(".html").replace("/", "-")
    height = page.evaluate("document.documentElement.scrollHeight")
    for number, top in enumerate(range(0, height, PICTURE), 1):
        clip = {"x": 0, "y": top, "width": setting.width, "height": min(PICTURE, height - top)}
        file = SCREENSHOTS / f"{name}-{setting}-{number}.jpeg"
        page.screenshot(path=file, full_page=True, clip=clip, type="jpeg", quality=70)


def over_budget(seen, path: str) -> list[str]:
    """Keep what a first visit costs, down to the end of the page; tell what is dear.

    What a figure needs comes when a reader stops near it: not here, in `visits.enliven`.
    """
    seen.page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    seen.page.wait_for_load_state("networkidle")
    fetched = seen.fetched()
    ours = [f for f in fetched if re.match(r"/assets/(?!javascripts/).*\.m?js$", f.path)]
    cost = {
        "page": path,
        "requests": len(fetched),
        "bytes": sum(f.size for f in fetched),
        "gzip bytes": sum(f.compressed for f in fetched),
        "own script bytes": sum(f.size for f in ours),
        "nodes": seen.page.evaluate("document.querySelectorAll('*').length"),
    }
    keep(cost, path.replace("/", "-"))
    return [
        f"first visit: {cost[what]} {what}, more than {most}"
        for what, most in MOST.items()
        if cost[what] > most
    ]


def keep(figures: dict[str, object], name: str) -> None:
    """Write figures for a person."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / f"{name}.json").write_text(json.dumps(figures) + "\n")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_comes_in_the_scheme_of_the_readers_system(chromium, site, scheme):
    with reader(chromium, Setting(PHONE, scheme)) as context:
        page = visit(context, site, "index.html").page
        shown = page.evaluate("document.body.dataset.mdColorScheme")

        assert shown == {"light": "default", "dark": "slate"}[scheme]
        assert visits.faults_of_layout(page) == []


@pytest.mark.parametrize("opened", ["over http", "from a folder"])
def test_search_finds_a_word(chromium, site, opened):
    home = site if opened == "over http" else f"{SITE.as_uri()}/"
    with reader(chromium, Setting(1440)) as context:
        seen = visit(context, home, "index.html")
        seen.page.keyboard.press("/")
        seen.page.keyboard.type("rendezvous")
        results = seen.page.locator(".md-search-result__item")
        results.first.wait_for()

        assert "rendezvous" in results.first.inner_text().lower()
        seen.page.locator("a[href*='h=rendezvous']").first.click()
        seen.page.locator("article mark").first.wait_for()  # the page marks what was searched
        assert seen.foreign == []
        assert seen.errors == []


def test_the_search_and_its_index_are_fetched_only_by_who_searches(chromium, site):
    with reader(chromium, Setting(390)) as context:
        seen = visit(context, site, "index.html")
        assert not any("/search" in request.url for request in seen.requests)

        with seen.page.expect_request("**/search_index.json"):
            seen.page.locator("header [for=__search]").first.click()
        seen.page.keyboard.type("rendezvous")
        seen.page.locator(".md-search-result__item").first.wait_for()
    keep({"search index bytes": (SITE / "search/search_index.json").stat().st_size}, "search")


@each_page
def test_a_page_opened_from_a_folder_asks_nobody(chromium, path):
    if path == "404.html":
        pytest.skip("a server's page: its links start at the server's root")
    with reader(chromium, Setting(1280)) as context:
        seen = visit(context, f"{SITE.as_uri()}/", path)
        broken = [r.url for r in seen.requests if r.failure]

        assert (seen.foreign, seen.errors, broken) == ([], [], [])


@each_page
def test_a_page_reads_without_javascript(chromium, site, path):
    with reader(chromium, Setting(390), java_script_enabled=False) as context:
        page = visit(context, site, path).page

        assert page.locator("h1").first.is_visible()
        assert page.locator("article").inner_text().strip()
        assert page.locator("article .arithmatex").count() == 0  # TeX that waits for a script


def test_every_stop_of_the_tab_key_can_be_seen(longest):
    unseen, stops = [], 0
    for _ in range(400):
        longest.keyboard.press("Tab")
        stop = longest.evaluate("probes.focus()")
        if stop is None:
            break
        stops += 1
        if not stop["seen"]:
            unseen.append(stop["name"])

    assert unseen == []
    assert stops > 10


def test_blocks_that_scroll_are_stops_of_the_tab_key_on_a_phone(chromium, site):
    with reader(chromium, Setting(390), has_touch=True, is_mobile=True) as context:
        page = visit(context, site, LONGEST).page
        closed = page.evaluate("probes.scrollers().length")
        unreachable = page.evaluate("probes.unreachable()")
        page.evaluate(OPEN_ALL)

        assert (unreachable, page.evaluate("probes.unreachable()")) == ([], [])
        assert page.evaluate("probes.scrollers().length") > closed > 0


def test_a_definition_shows_on_focus_and_on_hover_and_leaves_on_escape(longest):
    term = longest.locator(".term").first
    definition = term.get_by_role("tooltip", include_hidden=True)
    assert not definition.is_visible()

    term.locator("a").focus()
    assert definition.is_visible()
    longest.keyboard.press("Escape")
    assert not definition.is_visible()
    assert term.locator("a").evaluate("link => link === document.activeElement")

    longest.locator("h1").click()
    term.hover()
    assert definition.is_visible()


def test_a_term_leads_to_its_entry(longest):
    link = longest.locator(".term > a").first
    word = link.inner_text()
    link.click()

    entry = longest.locator("dt:target")
    entry.wait_for()
    assert entry.inner_text().lower()[:4] == word.lower()[:4]


def test_the_list_of_keys_opens_and_closes_by_keyboard(longest):
    keys = longest.locator("#keys")
    longest.keyboard.press("?")
    assert keys.is_visible()
    assert visits.accessibility(longest) == []
    longest.keyboard.press("Escape")
    assert not keys.is_visible()

    longest.keyboard.press("/")
    longest.keyboard.type("what?")
    assert not keys.is_visible()


def test_a_missing_page_is_answered_with_the_sites_own(chromium, site):
    with reader(chromium, Setting(1440)) as context:
        page = context.new_page()
        answer = page.goto(f"{site}no/such/page.html")

        assert answer.status == 404
        page.get_by_role("link", name="Start from the first page").click()
        assert page.url.removesuffix("index.html") == site
