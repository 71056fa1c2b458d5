"""Every page of the built site in Debian's Chromium: what a reader gets, sees and can reach.

`nox -s browser` builds the site first and installs what this needs. The pages are those in public/
(or in the folder SITE_DIR); screenshots for a person go to .cache/screenshots, sizes to
.cache/browser.jsonl. Without a browser, without playwright or without a built site the tests are
skipped, saying so; with BROWSER_REQUIRED=1 they fail instead.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from browser import visits
from browser.visits import Setting, faults, reader, visit
from press import modules
from press.project import ROOT

SITE = Path(os.environ.get("SITE_DIR", ROOT / "public")).resolve()
SCREENSHOTS = ROOT / ".cache" / "screenshots"
FIGURES = ROOT / ".cache" / "browser.jsonl"
PAGES = sorted(str(page.relative_to(SITE)) for page in SITE.glob("**/*.html"))
MODULE = f"courses/pytorch/{modules.everything()[0].stem}.html"
WIDTHS, AUDITED, PHOTOGRAPHED = (1440, 1280, 390), (1280, 390), (1440, 390)
SETTINGS = [Setting(width, scheme) for width in WIDTHS for scheme in ("light", "dark")]
PICTURE = 12_000
MOST_REQUESTS, MOST_BYTES, MOST_SCRIPT = 15, 900_000, 60_000  # per page; script: our own


NOT_BUILT = "" if PAGES else f"no built site in {SITE}: run `nox -s docs` first"
LACKING = visits.missing() or NOT_BUILT
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(visits.skip(LACKING), reason=LACKING),
]


@pytest.fixture(scope="module")  # not session: one process can run only one Playwright at a time
def chromium():
    if LACKING:
        pytest.fail(LACKING)
    with visits.chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def site():
    with visits.serve(SITE) as home:
        yield home


@pytest.fixture
def module_page(chromium, site):
    """Open the module's page on a desktop screen (any page where the site has no such module)."""
    with reader(chromium, Setting(1440)) as context:
        yield visit(context, site, MODULE if MODULE in PAGES else PAGES[0]).page


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("path", PAGES)
def test_a_page_loads_fits_and_is_accessible(chromium, site, path, setting):
    with reader(chromium, setting) as context:
        seen = visit(context, site, path)
        photograph(seen.page, path, setting)

        assert faults(seen, audit=setting.width in AUDITED) == []


def photograph(page, path: str, setting: Setting) -> None:
    """Keep the page as pictures that are not too long: a module is longer than a JPEG may be."""
    if setting.width not in PHOTOGRAPHED:
        return
    name = path.removesuffix(".html").replace("/", "-")
    height = page.evaluate("document.documentElement.scrollHeight")
    for number, top in enumerate(range(0, height, PICTURE), 1):
        clip = {"x": 0, "y": top, "width": setting.width, "height": min(PICTURE, height - top)}
        file = SCREENSHOTS / f"{name}-{setting}-{number}.jpeg"
        page.screenshot(path=file, full_page=True, clip=clip, type="jpeg", quality=70)


def test_no_page_costs_more_than_its_budget(chromium, site):
    """Count what a first visit asks for, and keep it; whoever searches loads the index as well."""
    measured = [measure(chromium, site, path) for path in PAGES]
    index = {"search index bytes": (SITE / "search/search_index.json").stat().st_size}
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.write_text("".join(json.dumps(row) + "\n" for row in [*measured, index]))

    for page in measured:
        assert page["requests"] <= MOST_REQUESTS, page
        assert page["bytes"] <= MOST_BYTES, page
        assert page["own script bytes"] <= MOST_SCRIPT, page


def measure(chromium, site: str, path: str) -> dict[str, str | int]:
    """Return what a first visit to a page costs; it is scrolled, so that nothing waits unloaded."""
    with reader(chromium, Setting(1440)) as context:
        seen = visit(context, site, path)
        seen.page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        seen.page.wait_for_load_state("networkidle")
        fetched = seen.fetched()
        ours = [f for f in fetched if re.match(r"/assets/(?!javascripts/).*\.m?js$", f.path)]
        return {
            "page": path,
            "requests": len(fetched),
            "bytes": sum(f.size for f in fetched),
            "gzip bytes": sum(f.compressed for f in fetched),
            "own script bytes": sum(f.size for f in ours),
            "nodes": seen.page.evaluate("document.querySelectorAll('*').length"),
        }


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


def test_the_search_index_is_fetched_only_by_who_searches(chromium, site):
    with reader(chromium, Setting(390)) as context:
        seen = visit(context, site, "index.html")
        assert not any("search_index" in request.url for request in seen.requests)

        with seen.page.expect_request("**/search_index.json"):
            seen.page.locator("header [for=__search]").first.click()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_opened_from_a_folder_asks_nobody(chromium, path):
    if path == "404.html":
        pytest.skip("a server's page: its links start at the server's root")
    with reader(chromium, Setting(1280)) as context:
        seen = visit(context, f"{SITE.as_uri()}/", path)
        broken = [r.url for r in seen.requests if r.failure]

        assert (seen.foreign, seen.errors, broken) == ([], [], [])


@pytest.mark.parametrize("path", PAGES)
def test_a_page_reads_without_javascript(chromium, site, path):
    with reader(chromium, Setting(390), java_script_enabled=False) as context:
        page = visit(context, site, path).page

        assert page.locator("h1").first.is_visible()
        assert page.locator("article").inner_text().strip()
        assert page.locator("article .arithmatex").count() == 0  # TeX that waits for a script


@pytest.mark.parametrize("path", PAGES)
def test_a_page_prints_whole(chromium, site, path):
    """On A4 nothing is wider than its box, code wraps, and the dark scheme prints on white."""
    a4_text_width = 718  # 190 mm in CSS pixels
    with reader(chromium, Setting(a4_text_width, "dark")) as context:
        page = visit(context, site, path).page
        page.emulate_media(media="print", color_scheme="dark", reduced_motion="reduce")
        clipped = page.evaluate("probes.clipped()")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")

        assert clipped == []
        assert background == "rgb(255, 255, 255)"


def test_every_stop_of_the_tab_key_can_be_seen(module_page):
    unseen, stops = [], 0
    for _ in range(400):
        module_page.keyboard.press("Tab")
        stop = module_page.evaluate("probes.focus()")
        if stop is None:
            break
        stops += 1
        if not stop["seen"]:
            unseen.append(stop["name"])

    assert unseen == []
    assert stops > 10


def test_blocks_that_scroll_are_stops_of_the_tab_key_on_a_phone(chromium, site):
    with reader(chromium, Setting(390), has_touch=True, is_mobile=True) as context:
        page = visit(context, site, MODULE if MODULE in PAGES else PAGES[0]).page

        assert page.evaluate("probes.unreachable()") == []
        assert page.evaluate("probes.scrollers().length") > 0


def test_a_definition_shows_on_focus_and_on_hover_and_leaves_on_escape(module_page):
    term = module_page.locator(".term").first
    definition = term.get_by_role("tooltip", include_hidden=True)
    assert not definition.is_visible()

    term.locator("a").focus()
    assert definition.is_visible()
    module_page.keyboard.press("Escape")
    assert not definition.is_visible()
    assert term.locator("a").evaluate("link => link === document.activeElement")

    module_page.locator("h1").click()
    term.hover()
    assert definition.is_visible()


def test_a_term_leads_to_its_entry(module_page):
    link = module_page.locator(".term > a").first
    word = link.inner_text()
    link.click()

    entry = module_page.locator("dt:target")
    entry.wait_for()
    assert entry.inner_text().lower()[:4] == word.lower()[:4]


def test_the_list_of_keys_opens_and_closes_by_keyboard(module_page):
    keys = module_page.locator("#keys")
    module_page.keyboard.press("?")
    assert keys.is_visible()
    assert visits.accessibility(module_page) == []
    module_page.keyboard.press("Escape")
    assert not keys.is_visible()

    module_page.keyboard.press("/")
    module_page.keyboard.type("what?")
    assert not keys.is_visible()


def test_a_missing_page_is_answered_with_the_sites_own(chromium, site):
    with reader(chromium, Setting(1440)) as context:
        page = context.new_page()
        answer = page.goto(f"{site}no/such/page.html")

        assert answer.status == 404
        page.get_by_role("link", name="Start from the first page").click()
        assert page.url.removesuffix("index.html") == site
