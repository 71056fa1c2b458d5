"""Recordings of later versions: comparing, explaining, the page, and the notes on pinned pages."""

from __future__ import annotations

import dataclasses
import functools
import re
import subprocess
import sys

import pytest
from markdown import Markdown

from distlab.spmd import Program
from press import scan
from press.drift import changes, page, recordings
from press.drift.changes import CHANGES, Change
from press.drift.recordings import DECLARED, Edition, ItemRecord, Showing
from press.project import pinned_torch
from record import drift
from tools.site_copy import ROOT

PAGE = ROOT / "content" / page.PAGE
TEXT = PAGE.read_text()
HEADINGS = dict(re.findall(r"(?m)^### (.+?) \{#([\w-]+)\}$", TEXT.partition("\n## Expected")[0]))
RECORDED = recordings.read_all()
DIFFERENCES = changes.differences(RECORDED)


def shown(*texts: str, outcome: str = DECLARED) -> tuple[Showing, ...]:
    return tuple(Showing(outcome, text) for text in texts)


def edition(version: str, **items: tuple[Showing, ...]) -> Edition:
    seen = {name: ItemRecord("program", showings) for name, showings in items.items()}
    return Edition(version, "3.11.7", "Linux, 2 cores", "2026-11-30", "2026-11-30", seen)


# ---- Comparing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pinned", "later", "status"),
    [
        (shown("a"), shown("a"), recordings.UNCHANGED),
        (shown("a", "b"), shown("a"), recordings.VARIES),
        (shown("a"), shown("b", "a"), recordings.VARIES),
        (shown("a", "b"), shown("b", "a"), recordings.VARIES),
        (shown("a"), shown("b"), recordings.DIFFERENT),
        (shown("a", "b"), shown("c"), recordings.DIFFERENT),
        (shown("a"), shown("a", outcome="rank 0 ended"), recordings.DIFFERENT),
    ],
)
def test_texts_that_overlap_vary_and_others_differ(pinned, later, status):
    assert recordings.compare(pinned, later) == status


@pytest.mark.parametrize(
    ("pinned", "later"),
    [
        ("[gloo/transport/tcp/pair.cc:535] gone", "[gloo/transport/tcp/pair.cc:561] gone"),
        ("/pytorch/torch/csrc/x.cpp:12: gone", "/__w/pytorch/pytorch/torch/csrc/x.cpp:9: gone"),
        ("torch/nn/modules/module.py:1 UserWarning", "torch/nn/modules/module.py:2 UserWarning"),
        ("  … 1 frame in torch\n", "  … 3 frames in torch\n"),
    ],
)
def test_where_in_torch_something_was_said_does_not_count(pinned, later):
    assert recordings.compare(shown(pinned), shown(later)) == recordings.UNCHANGED


@pytest.mark.parametrize(
    "later", ["rank 0  a\nrank 0  b\nrank 1  a\nrank 1  b", "ranks 0-1  a\nranks 0-1  b"]
)
def test_how_equal_ranks_are_folded_does_not_count(later):
    pinned = shown("ranks 0-1  a\nranks 0-1  b")

    assert recordings.compare(pinned, shown(later)) == recordings.UNCHANGED
    assert recordings.compare(pinned, shown(later + "\nrank 1  c")) == recordings.DIFFERENT


def test_a_warning_counts():
    later = "ranks 0-1  fence.py:5: FutureWarning: `x` is deprecated\nranks 0-1  1.5"

    assert recordings.compare(shown("ranks 0-1  1.5"), shown(later)) == recordings.DIFFERENT


def test_equal_showings_are_counted():
    (one, two) = recordings.collect(shown("b", "a", "b"))

    assert [(s.text, s.times) for s in (one, two)] == [("a", 1), ("b", 2)]


def test_what_was_recorded_of_another_program_is_not_compared():
    pinned, later = edition("2.8.0", x=shown("a")), edition("2.13.0", x=shown("b"))
    changed = dataclasses.replace(later.items["x"], program="another")
    later.items["x"] = changed

    assert recordings.status("x", pinned, later) == recordings.STALE
    assert changes.differences([pinned, later]) == []


def test_what_equalled_another_recording_of_the_pinned_version_is_not_compared():
    old, new = shown("a"), shown("b")
    later = edition("2.13.0")
    later.items["x"] = ItemRecord("program", pinned=recordings.digest(old))

    assert recordings.status("x", edition("2.8.0", x=old), later) == recordings.UNCHANGED
    assert recordings.status("x", edition("2.8.0", x=new), later) == recordings.STALE


# ---- Files ---------------------------------------------------------------------------------------


def test_a_recording_is_read_as_it_was_written(tmp_path):
    one = edition("2.13.0+cpu", x=shown("two\nlines \N{BEACH WITH UMBRELLA}"))
    one.items["y"] = ItemRecord("program", pinned="0123456789ab")
    path = recordings.write(one, tmp_path)

    assert path.name == "torch-2.13.0.json"
    assert recordings.read(path) == one
    assert list(tmp_path.iterdir()) == [path]


def test_versions_are_in_their_order_and_not_in_that_of_their_names(tmp_path):
    for version in ("2.14.1", "2.8.0", "2.13.0+cpu"):
        recordings.write(edition(version), tmp_path)

    assert [r.version for r in recordings.read_all(tmp_path)] == ["2.8.0", "2.13.0", "2.14.1"]


@pytest.mark.parametrize("text", ["", "[]", '{"torch": "2.13.0"}', '{"items": {"x": {}}}'])
def test_a_file_that_is_no_recording_is_named(tmp_path, text):
    path = tmp_path / "torch-2.13.0.json"
    path.write_text(text)

    with pytest.raises(ValueError, match=r"torch-2\.13\.0\.json is no recording .* -- 2\.13\.0"):
        recordings.read(path)


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    path = recordings.write(edition("2.13.0", x=shown("old")), tmp_path)
    monkeypatch.setattr(type(path), "replace", interrupted)

    with pytest.raises(KeyboardInterrupt):
        recordings.write(edition("2.13.0", x=shown("new")), tmp_path)
    assert recordings.read(path).items["x"].showings == shown("old")
    assert list(tmp_path.iterdir()) == [path]


# ---- Explaining ----------------------------------------------------------------------------------

WARNS = Change("warns", "It warns", "x", rules=((r"(?m)^.*FutureWarning.*\n", ""),))
WHOLE = Change("whole", "It works", "y", items=("y",))


def explained(name: str, pinned: str, later: str) -> list[str]:
    found = changes.explaining(name, shown(pinned), shown(later), (WARNS, WHOLE))
    return [change.id for change in found]


def test_a_rule_explains_what_it_undoes_and_nothing_else():
    assert explained("x", "1.5", "f.py: FutureWarning: old\n1.5") == ["warns"]
    assert explained("x", "3.0", "f.py: FutureWarning: old\n1.5") == []
    assert explained("x", "3.0", "1.5") == []


def test_a_change_explains_the_items_that_it_names():
    assert explained("y", "3.0", "1.5") == ["whole"]
    assert explained("y", "3.0", "f.py: FutureWarning: old\n1.5") == ["whole", "warns"]


def test_another_outcome_is_not_explained_by_a_rule():
    later = shown("f.py: FutureWarning: old\n1.5", outcome="rank 0 ended with exit status 1")

    assert changes.explaining("x", shown("1.5"), later, (WARNS,)) == ()


# ---- What is recorded, and the page --------------------------------------------------------------


def test_the_pinned_version_and_at_least_two_later_ones_are_recorded():
    versions = [one.version for one in RECORDED]

    assert versions[0] == pinned_torch()
    assert len(versions) >= 3


@pytest.mark.parametrize("one", RECORDED[1:], ids=lambda one: one.version)
def test_every_version_holds_every_item(one):
    missing = RECORDED[0].items.keys() ^ one.items.keys()

    assert missing == set(), f"record it again: nox -s drift -- {one.version}"


def test_what_there_is_to_run_has_the_recorded_names():
    """Fences, races, labs and exercises of all modules; a name that changes would lose its past."""
    names = [item.name for item in drift.items(drift.Servers(None, None))]

    assert sorted(names) == sorted(RECORDED[0].items)


def test_under_the_pinned_version_everything_is_as_declared():
    bad = {
        name: showing.outcome
        for name, seen in RECORDED[0].items.items()
        for showing in seen.showings
        if showing.outcome != DECLARED
    }

    assert bad == {}


def test_every_recorded_difference_is_explained():
    assert [f"{one.version} {one.name}" for one in DIFFERENCES if not one.changes] == []


def test_every_explanation_has_a_recorded_difference():
    used = {change for one in DIFFERENCES for change in one.changes}

    assert [change.id for change in CHANGES if change not in used] == []
    assert [change.id for change in CHANGES for name in change.items if not differs(name)] == []
    assert [change.id for change in CHANGES if not differs(change.example)] == []


def differs(name: str) -> bool:
    return any(one.name == name for one in DIFFERENCES)


def test_every_change_has_its_section_with_both_outputs_and_a_source():
    assert {change.title: change.id for change in CHANGES} == HEADINGS
    for change in CHANGES:
        section = TEXT.partition(f"{{#{change.id}}}\n")[2].partition("\n##")[0]
        assert f'print(page.change("{change.id}"))' in section
        cited = re.search(r"\[\[src:(?!drift-recording)[\w-]+\]\]", section)
        assert bool(cited) != change.ours, change.id


def test_the_table_counts_every_item_once():
    pinned, *later = RECORDED
    rows = page.versions(RECORDED).splitlines()[3 : 3 + len(later)]

    for one, row in zip(later, rows, strict=True):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        when = one.date if one.since == one.date else f"{one.since} to {one.date}"
        assert cells[:3] == [one.torch, when, str(len(one.items))]
        stale = sum(recordings.status(n, pinned, one) == recordings.STALE for n in one.items)
        assert sum(map(int, cells[3:])) + stale == len(one.items)


def test_what_cannot_be_compared_is_known():
    (fence, *_) = scan.page('```python exec="on" id="y"\nx\n```', "content/new.md").fences
    pinned, later = edition("2.8.0", x=shown("a")), edition("2.13.0", x=shown("a"))

    assert page.not_compared([], [pinned, later]) == []
    assert page.not_compared([fence], [pinned, later]) == ["new.md#fence-y"]
    name, program = recordings.fence_item(fence)
    pinned.items[name] = later.items[name] = ItemRecord(program, shown("b"))
    assert page.not_compared([fence], [pinned, later]) == []
    changed = dataclasses.replace(fence, code="y")
    assert page.not_compared([changed], [pinned, later]) == ["new.md#fence-y"]


@pytest.mark.parametrize(
    ("names", "html"),
    [
        ([], "<p>before</p>\n<p>after</p>"),
        (["new.md#fence-y", "a/ race.py"], "so not compared here: "
         '<a href="../../new.md#fence-y"><code>y</code></a>, <code>race.py</code>.</p>'),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_said_while_the_page_is_rendered(monkeypatch, names, html):
    monkeypatch.setattr(page, "not_compared", lambda _: names)
    md = Markdown(extensions=["press.not_compared"])

    assert html in md.convert("before\n\n[[not-compared]]\n\nafter")


@pytest.mark.parametrize("call", ["page.versions()", "page.change('doctor')"])
def test_a_fence_of_the_page_reads_recordings_and_no_page(launcher, call):
    source = f"from press.drift import page\nprint({call})"
    outcome = launcher.run(Program(source, watch=str(ROOT)))

    assert outcome.cause == "finished", outcome
    assert any(path.endswith("drift/torch-2.8.0.json") for path in outcome.read)
    assert [path for path in outcome.read if path.endswith(".md")] == []


# ---- Notes on the pinned pages -------------------------------------------------------------------


@functools.cache
def fences_by_name():
    scanned = scan.folder(ROOT / "content").fences
    return {recordings.fence_item(fence)[0]: fence for fence in scanned}


def test_a_fence_has_a_note_just_where_a_difference_is_recorded():
    fences = fences_by_name()
    now = dict(map(recordings.fence_item, fences.values()))
    recorded = {
        n for n in fences if n in now and RECORDED[0].items.get(n, ItemRecord("")).program == now[n]
    }

    assert {name for name, fence in fences.items() if page.note(fence)} == {
        one.name for one in DIFFERENCES if one.name in recorded
    }


@functools.cache
def notes():
    """Return the notes that there are, by the fence's name."""
    noted = {name: page.note(fence) for name, fence in fences_by_name().items()}
    return {name: note for name, note in noted.items() if note}


def test_a_note_names_the_versions_that_differ_and_no_other():
    assert notes()
    for name, note in notes().items():
        versions = ", ".join(one.version for one in DIFFERENCES if one.name == name)
        assert f">Differs in torch {versions}: <" in note


def test_a_note_leads_to_a_section_that_exists():
    for name, note in notes().items():
        links = re.findall(r'href="([^"#]+)#([\w-]+)"', note)
        assert links, name
        for address, anchor in links:
            target = (ROOT / "content" / name.partition("#")[0]).parent / address
            assert target.resolve() == PAGE.with_suffix(".html")
            assert anchor in HEADINGS.values()


def test_a_fence_that_was_changed_since_has_no_note():
    assert notes()
    for name in notes():
        fence = fences_by_name()[name]
        edited = dataclasses.replace(fence, code=fence.code + "\nprint()")
        assert page.note(edited) == "", name


# ---- The command ---------------------------------------------------------------------------------


def item(name: str, *texts: str, runs: int = 1) -> drift.Item:
    """Stand for something to run: its runs show these texts in turn, the last one for ever."""
    left = list(texts)
    return drift.Item(name, "program", lambda: lambda: shown(take(left)), runs)


def take(left: list[str]) -> str:
    return left.pop(0) if len(left) > 1 else left[0]


def test_what_differs_runs_again_and_only_that(capsys):
    pinned = edition("2.8.0", x=shown("a"), y=shown("a"), z=shown("a"))
    seen = drift.record([item("x", "a"), item("y", "b", "a"), item("z", "c")], pinned)

    assert seen["x"] == ItemRecord("program", pinned=recordings.digest(shown("a")))
    assert [(s.text, s.times) for s in seen["y"].showings] == [("a", drift.AGAIN), ("b", 1)]
    assert [(s.text, s.times) for s in seen["z"].showings] == [("c", 1 + drift.AGAIN)]
    assert "2 items differ" in capsys.readouterr().out


def test_under_the_pinned_version_everything_runs_more_than_once():
    seen = drift.record([item("x", "a")], None)

    assert seen["x"].showings[0].times == drift.AGAIN > 1


def test_how_often_a_race_came_out_how_is_kept_even_if_nothing_differs():
    pinned = edition("2.8.0", x=shown("a"))

    assert drift.record([item("x", "a", runs=5)], pinned)["x"].showings[0].times == 5


def test_only_what_was_recorded_of_the_same_program_and_torch_is_kept():
    old = edition("2.8.0", x=shown("a"), y=shown("a"))
    changed = dataclasses.replace(item("y", "a"), program="another")
    wanted = [item("x", "a"), changed, item("new", "a")]

    assert drift.kept(old, edition("2.8.0"), wanted).keys() == {"x"}
    assert drift.kept(old, edition("2.8.0+cpu"), wanted) == {}
    assert drift.kept(None, edition("2.8.0"), wanted) == {}


def test_the_command_takes_no_version():
    command = [sys.executable, "-m", "record.drift", "2.13.0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr.startswith("'2.13.0': this records the torch that is installed; name")
