"""The symptom index covers every kind and every exhibit, and the site's search finds them."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

import pytest

from browser.search import SiteSearch
from press import modules
from press.project import ROOT
from tools import museum, site_copy

TEXT = museum.symptom_index()
CASES = [
    case
    for module in modules.everything()
    if (module.folder / "symptoms.json").is_file()
    for case in json.loads((module.folder / "symptoms.json").read_text())
]
SITE = Path(os.environ.get("SITE_DIR", ROOT / "public"))
INDEX = "search/search_index.json"


def sections() -> dict[str, str]:
    """Return the text of each section of the index by its anchor."""
    parts = re.split(r"^## .+ \{ #([\w-]+) \}$", TEXT, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    """Search the site in public/; where anything has changed since, a new build of it."""
    folder = SITE if site_copy.is_current(SITE) else tmp_path_factory.mktemp("site")
    if folder != SITE:
        site_copy.build_into(folder)
    return SiteSearch(folder / INDEX)


def leads_there(hits: list, case: dict) -> bool:
    """Tell whether one of the first three hits is an exhibit or a kind of this case."""
    return any(hit.location.endswith(tuple(case["leads_to"])) for hit in hits[:3])


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["case"]))
def test_a_symptom_leads_to_its_exhibit_or_kind(case, search: SiteSearch):
    """By the search box, or among the lists of the index, in the first three hits."""
    hits = search(case["symptom"])
    lists = [hit for hit in hits if "symptoms.html#" in hit.location]

    assert leads_there(hits, case) or leads_there(lists, case), [h.location for h in hits[:3]]


def test_of_twenty_symptoms_at_random_the_search_box_finds_eighteen(search: SiteSearch):
    """Without the index's help: whole sentences are the hardest queries there are."""
    drawn = random.Random(2026).sample(CASES, 20)  # noqa: S311 -- a draw, not a secret
    found = [case["case"] for case in drawn if leads_there(search(case["symptom"]), case)]

    assert len(found) >= 18


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("Connection closed by peer", "#peer-gone"),
        ("Connection closed by peer", "#raised"),
        ("exit code -6", "loud_"),
        ("stuck after the last batch", "#uneven"),
        ("loss differs between ranks", "#ddp-backward"),
        ("accuracy depends on world size", "#metrics"),
        ("works on one node", "symptoms.html"),
        ("Expected to have finished reduction in the prior iteration", "#unused"),
        ("EADDRINUSE", "#port"),
        ("ChildFailedError", "#record"),
    ],
)
def test_a_text_that_readers_paste_is_found(text, place, search: SiteSearch):
    hits = [hit.location for hit in search(text)[:4]]

    assert any(place in location for location in hits), hits


def test_a_word_that_nobody_wrote_finds_nothing(search: SiteSearch):
    assert search("zyzzyva") == []


def test_every_kind_has_its_list_its_test_and_its_advice():
    """Who has a failure without an exhibit finds how to tell it, and what to try."""
    first, *kinds = sections().items()

    assert first[0] == "how-it-ended"
    assert kinds
    for kind, text in kinds:
        assert re.search(r"^- ", text, re.MULTILINE), kind
        assert "**How to tell:**" in text, kind
        assert "**What to try:**" in text, kind


def test_every_case_leads_to_places_that_exist():
    exhibits = {f"museum/{Path(e.page).stem}.html#{e.slug}" for e in museum.exhibits()}
    places = exhibits | {f"symptoms.html#{anchor}" for anchor in sections()}

    assert CASES
    for case in CASES:
        assert set(case["leads_to"]) <= places, case["case"]
