"""The museum breaks what it says it breaks, and mends it; the pages are the only source."""

from __future__ import annotations

import itertools
import os
import re

import pytest

from distlab.spmd import Program, server
from press.executor import Execution, Executor, close_shared_launcher
from press.project import ROOT
from record import tally
from record.race import Race
from tools import museum
from tools.museum import Exhibit

EXHIBITS = museum.exhibits()
BROKEN, FIXED = museum.expected()
PARTS = (
    '\n> "',
    "\n**Who is to blame:**",
    "\n**The fix",
    "\n**The guard:**",
    "\n**Seen in the wild:**",
)
AT_ONCE = [name for name, ((_, race), *_) in tally.RACES.items()
           if race.start == "fork" and not race.program().shell]  # fmt: skip
"""The tallies whose program is forked, so that it can run a dozen times in a test."""

by_slug = pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.slug)
broken_ones = pytest.mark.parametrize(
    "exhibit", [e for e in EXHIBITS if e.broken], ids=lambda exhibit: exhibit.slug
)
fixed_ones = pytest.mark.parametrize(
    "exhibit", [e for e in EXHIBITS if e.fixed], ids=lambda exhibit: exhibit.slug
)


@pytest.fixture(scope="module")
def tour():
    """Execute every fence of the museum; what a build has executed is taken from its cache."""
    executor = Executor(ROOT)
    fences = [fence for exhibit in EXHIBITS for fence in exhibit.fences]
    executor.prefetch(fences)
    yield {fence.id: executor.execute(fence, fence.code) for fence in fences}
    close_shared_launcher()


def shows(execution: Execution, patterns: tuple[str, ...]) -> list[str]:
    """Return the patterns that are missing from what the ranks said."""
    text = museum.said(execution.outcome, execution.code)
    return [pattern for pattern in patterns if not re.search(pattern, text, re.MULTILINE)]


@broken_ones
def test_the_broken_program_breaks_in_its_way(exhibit: Exhibit, tour: dict[str, Execution]):
    execution = tour[exhibit.broken.id]

    assert execution.problem is None, str(execution.problem)
    assert shows(execution, BROKEN[exhibit.slug]) == []


@fixed_ones
def test_the_fixed_program_is_right(exhibit: Exhibit, tour: dict[str, Execution]):
    execution = tour[exhibit.fixed.id]

    assert execution.problem is None, str(execution.problem)
    assert shows(execution, FIXED[exhibit.slug]) == []


@fixed_ones
def test_what_the_broken_program_shows_the_fixed_one_does_not(
    exhibit: Exhibit, tour: dict[str, Execution]
):
    """A pattern that both programs match tells nothing."""
    if exhibit.broken:
        execution = tour[exhibit.fixed.id]

        assert shows(execution, BROKEN[exhibit.slug]) != []


MEET = """
import os, time
open(os.path.join({folder!r}, str(os.getpid())), "w").close()
while len(os.listdir({folder!r})) < {number}:
    time.sleep(0.05)
"""


def test_programs_that_wait_run_beside_each_other(launcher, tmp_path):
    """Each waits for the others to have begun: one after the other they would wait for ever."""
    number = server.WAITING // 2
    source = MEET.format(folder=str(tmp_path), number=number)
    met = [launcher.submit(Program(source, waits=True, timeout=120)) for _ in range(number)]

    assert number >= 4
    assert [future.result().cause for future in met] == ["finished"] * number


def test_what_hangs_in_the_museum_waits_beside_the_others():
    """Without it the cold museum takes the sum of its hangs, minutes."""
    hangs = [fence for exhibit in EXHIBITS for fence in exhibit.fences if fence.hang]

    assert len(hangs) >= 4
    assert all(fence.program(fence.code).waits for fence in hangs)


def test_some_programs_are_tallied():
    assert AT_ONCE


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_ONCE)
def test_a_tallied_program_breaks_within_twelve_runs(name, launcher):
    """Each run breaks with more than one half: all twelve right has a chance under 1 in 4000."""
    ((_, race),) = tally.RACES[name]
    futures = [launcher.submit(race.program()) for _ in range(12)]
    kinds = [kind for future in futures for kind in race.kinds(future.result())]

    assert any(not kind.startswith(race.right) for kind in kinds)


@pytest.mark.skipif("SOAK" not in os.environ, reason="minutes of new interpreters: set SOAK=1")
@pytest.mark.parametrize("name", [name for name, races in tally.RACES.items() if races[1:]])
def test_a_tallied_program_breaks_more_often_than_its_fixed_version(name, launcher):
    races = tally.RACES[name]
    broken, fixed = (share_right(race, launcher) for _, race in (races[0], races[-1]))

    assert broken < fixed


def share_right(race: Race, launcher) -> float:
    """Return which share of a program's runs came out right."""
    counts = tally.run(race, launcher)
    return sum(n for kind, n in counts.items() if kind.startswith(race.right)) / counts.total()


def test_every_recorded_tally_has_its_section_on_a_page():
    pages = "\n".join(path.read_text() for path in museum.wings())

    assert set(tally.RECORDING.sections()) == set(tally.RACES)
    for name in tally.RACES:
        assert f'--8<-- "content/courses/pytorch/museum/tally.txt:{name}"' in pages


def test_every_exhibit_has_what_it_must_show():
    """Either two fences, or a tallied program and what replaces the fix."""
    for exhibit in EXHIBITS:
        assert (exhibit.broken and exhibit.fixed) or exhibit.tallied, exhibit.slug
    assert EXHIBITS
    assert {e.slug for e in EXHIBITS if e.broken} == set(BROKEN)
    assert {e.slug for e in EXHIBITS if e.fixed} == set(FIXED)


@by_slug
def test_an_exhibit_has_all_its_parts(exhibit: Exhibit):
    missing = [part for part in PARTS if part not in exhibit.text]

    assert missing == []
    wild = exhibit.text.rpartition("**Seen in the wild:**")[2]
    assert re.search(r"\]\(https://[\w.]+/[^)\s]+\)", wild), "no link to a public report"


@by_slug
def test_a_program_fits_beside_its_output(exhibit: Exhibit):
    for code in [block.code for block in (*exhibit.tallied, *exhibit.fences)]:
        lines = code.rstrip().split("\n")

        assert len(lines) <= 25
        assert max(map(len, lines)) <= 72


def test_every_exhibit_is_expected_and_listed_and_the_other_way_round():
    """The guide and the symptom index lead to each; modules add their lines in files of theirs."""
    assert museum.faults() == []


def timeouts(code: str) -> list[float]:
    """Return the timeouts, in seconds, that a program gives to torch."""
    return [float(number) for number in re.findall(r"timedelta\(seconds=([\d.]+)\)", code)]


@broken_ones
def test_deadlines_leave_room_for_a_loaded_machine(exhibit: Exhibit):
    """The rule of index.md: timeouts of 2 s, hangs of 4 s and of twice the ignored timeout."""
    given = list(itertools.chain(*(timeouts(fence.code) for fence in exhibit.fences)))

    assert all(seconds >= 2 for seconds in given)
    if exhibit.broken.hang:
        assert exhibit.broken.hang >= max([4.0, *(2 * t for t in timeouts(exhibit.broken.code))])
