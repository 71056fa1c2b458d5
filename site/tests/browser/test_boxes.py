"""Boxes and folded outputs: closed on a screen, opened by keyboard, whole on paper."""

from __future__ import annotations

import pytest

from browser import visits
from browser.visits import Setting, reader, visit
from tools.site_copy import Site

LACKING = visits.missing()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(visits.skip(LACKING), reason=LACKING),
]
PAGE = """# A page

!!! law "A law"

    It holds: $a = b$.

    | a | b |
    |---|---|
    | 1 | 2 |

!!! misconception "You may have read: it does not"

    It does.

```python exec="on" source="above" result="text" predict="on"
print("as predicted")
```

??? version "In 2.8: an oddity"

    ```python exec="on" source="above" result="text" predict="on"
    print("an oddity")
    ```
"""
OUTPUTS = ("as predicted", "an oddity")


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """Build a site of one page that has every kind of box."""
    if LACKING:
        pytest.fail(LACKING)
    site = Site(tmp_path_factory.mktemp("boxes"))
    site.write(PAGE)
    built = site.build("-q")
    assert built.status == 0, built.said
    return built.public


def shown(page) -> list[bool]:
    """Tell for each output whether a reader sees it."""
    return [page.locator("pre code", has_text=text).last.is_visible() for text in OUTPUTS]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_boxes_fit_and_are_accessible(chromium, public, width, scheme):
    with visits.serve(public) as home, reader(chromium, Setting(width, scheme)) as context:
        seen = visit(context, home, "index.html")
        closed = visits.faults(seen)
        for summary in seen.page.locator("summary").all():
            summary.click()

        assert shown(seen.page) == [True, True]
        assert (closed, visits.faults(seen)) == ([], [])


def test_a_prediction_opens_by_keyboard(chromium, public):
    with visits.serve(public) as home, reader(chromium, Setting(1440)) as context:
        page = visit(context, home, "index.html").page
        assert shown(page) == [False, False]
        page.locator(".prediction > summary").first.focus()
        page.keyboard.press("Enter")

        assert shown(page) == [True, False]


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_paper_shows_what_is_folded(chromium, public, scripts):
    options = {"java_script_enabled": scripts}
    with visits.serve(public) as home, reader(chromium, Setting(718), **options) as context:
        page = visit(context, home, "index.html").page
        page.emulate_media(media="print")

        assert shown(page) == [True, True]
        assert not page.locator(".prediction > summary").first.is_visible()
