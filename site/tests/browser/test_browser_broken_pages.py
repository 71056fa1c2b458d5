"""The browser's checks notice what they are there for: each kind of broken page, one by one."""

from __future__ import annotations

import pytest

from browser import visits
from browser.visits import Setting, faults, reader, visit
from tools.site_copy import Site

LACKING = visits.missing()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(visits.skip(LACKING), reason=LACKING),
]

GOOD = "<p>Nothing is wrong here.</p>"
CELLS = "".join(f"<td>a_column_that_does_not_break_{number}</td>" for number in range(12))
BROKEN = {
    "a formula that failed": (
        '<strong class="page-problem">Unknown command "\\fracc".</strong>',
        'shows a problem of the build: Unknown command "\\fracc".',
    ),
    "an image without a text": ('<img src="assets/favicon.svg" width="32">', "axe image-alt (1)"),
    "an image of another host": (
        '<img src="http://images.invalid/x.png" alt="a ring">',
        "asks another host: http://images.invalid/x.png",
    ),
    "a script of another host": (
        '<script src="http://scripts.invalid/x.js"></script>',
        "asks another host: http://scripts.invalid/x.js",
    ),
    "a table that overflows": (
        f'<table class="of-its-own"><tr>{CELLS}</tr></table>',
        "wider than the screen: <table",
    ),
    "a word broken in a cell": (
        '<div class="wide"><table class="data"><tr>'
        '<td style="word-break: break-all; max-width: 3em">'
        "shutdown</td></tr></table></div>",
        "breaks words in tables: shutdown",
    ),
    "a script error": (
        '<script>throw new Error("the figure broke")</script>',
        "script error: the figure broke",
    ),
    "a file that is not there": ('<img src="nowhere.png" alt="a ring">', "404"),
    "grey on white": ('<p style="color: #aaa; background: #fff">Pale.</p>', "axe color-contrast"),
    "a control without a name": ("<button></button>", "axe button-name"),
}


@pytest.fixture(scope="module")
def one_page(tmp_path_factory):
    """Build a site of one page; yield its folder and that page's HTML."""
    if LACKING:
        pytest.fail(LACKING)
    site = Site(tmp_path_factory.mktemp("small-site"))
    site.write(f"# A page\n\n{GOOD}\n")
    built = site.build()
    assert built.status == 0, built.said
    return built.public, (built.public / "index.html").read_text()


def found(chromium, one_page, body: str, width: int = 390) -> list[str]:
    """Return the faults of the page with another body."""
    folder, page = one_page
    assert GOOD in page
    (folder / "broken.html").write_text(page.replace(GOOD, body))
    with visits.serve(folder) as home, reader(chromium, Setting(width)) as context:
        return faults(visit(context, home, "broken.html"))


def test_a_good_page_has_no_fault(chromium, one_page):
    assert found(chromium, one_page, GOOD) == []


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_page_is_noticed_and_named(chromium, one_page, kind):
    body, phrase = BROKEN[kind]
    said = found(chromium, one_page, body)

    assert len(said) == 1, said
    assert phrase in said[0]


def test_the_colours_around_the_article_are_judged_at_each_width(chromium, one_page):
    """Where those of the text are left out, for they are judged at another width."""
    folder, page = one_page
    pale = '<p style="color: #aaa; background: #fff">Pale.</p>'
    (folder / "broken.html").write_text(page.replace("<footer", f"{pale}<footer", 1))
    (folder / "text.html").write_text(page.replace(GOOD, pale))
    with visits.serve(folder) as home, reader(chromium, Setting(390)) as context:
        around = visit(context, home, "broken.html").page
        text = visit(context, home, "text.html").page

        (said,) = visits.accessibility(around, colours_of_the_text=False)
        assert "axe color-contrast" in said
        assert visits.accessibility(text, colours_of_the_text=False) == []
