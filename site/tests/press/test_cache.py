"""An outcome is taken from the cache just as long as all that its program read is unchanged."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import Future

import pytest

from distlab.spmd import Outcome, RankOutcome
from press import executor, scan
from press.cache import KEPT, Cache


def outcome(said: str, *read: str) -> Outcome:
    rank = RankOutcome(0, 0, True, False, said, "", "", 0.1)
    return Outcome("finished", 0.1, (rank,), read=read)


@pytest.fixture
def project(tmp_path):
    """Lay out what programs might read, all of it older than any run."""
    for name in ("lib/a.py", "lib/b.py", "data/x.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("1")
        os.utime(path, (1, 1))
    return tmp_path


def cache(project) -> Cache:
    """Return the cache as another build finds it."""
    return Cache(project / "cache", project)


def edit(path, text: str) -> None:
    path.write_text(text)
    os.utime(path, (2, 2))


READ = ("lib/a.py", "data/", "lib/absent.py")


@pytest.mark.parametrize(
    ("change", "valid"),
    [
        (lambda root: None, True),
        (lambda root: edit(root / "lib/b.py", "2"), True),
        (lambda root: edit(root / "data/x.json", "2"), True),  # of that folder only names were read
        (lambda root: (root / "data/__pycache__").mkdir(), True),
        (lambda root: edit(root / "lib/a.py", "2"), False),
        (lambda root: (root / "lib/a.py").unlink(), False),
        (lambda root: (root / "lib/absent.py").write_text(""), False),
        (lambda root: (root / "data/y.json").write_text(""), False),
    ],
)
def test_it_is_valid_while_what_was_read_is_the_same(project, change, valid):
    stored = outcome("one", *READ)
    cache(project).put("key", stored, time.time())
    change(project)

    assert cache(project).get("key") == (stored if valid else None)


def test_who_goes_back_finds_the_outcome_of_then(project):
    for number in range(KEPT + 2):
        edit(project / "lib/a.py", str(number))
        cache(project).put("key", outcome(f"said {number}", "lib/a.py"), time.time())
    found = {}
    for number in range(KEPT + 2):
        edit(project / "lib/a.py", str(number))
        found[number] = cache(project).get("key")

    assert [number for number in found if found[number]] == list(range(2, KEPT + 2))
    assert all(one == outcome(f"said {n}", "lib/a.py") for n, one in found.items() if one)


def test_what_was_read_while_it_changed_is_not_stored(project):
    begun = time.time() - 10
    (project / "lib/a.py").write_text("edited meanwhile")
    cache(project).put("key", outcome("one", "lib/a.py"), begun)

    assert cache(project).get("key") is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"entries": 1}', '{"entries": [1]}', '{"entries": [{"read": {}}]}',
     json.dumps(outcome("of an older press").to_json())],
)  # fmt: skip
def test_a_file_that_holds_no_outcome_counts_as_none(project, text):
    (project / "cache").mkdir()
    (project / "cache/key.json").write_text(text)
    assert cache(project).get("key") is None
    cache(project).put("key", outcome("one"), time.time())

    assert cache(project).get("key") == outcome("one")
    assert [path.name for path in (project / "cache").iterdir()] == ["key.json"]


def keys(*headers: str) -> set[str]:
    """Return the keys of the same program under different headers."""
    made = executor.Executor(executor.Path("/nowhere"))
    fences = [scan.page(f"```python {h}\nx\n```", "content/x.md").fences[0] for h in headers]
    return {executor.key_of(made.cache, fence, fence.program("x")) for fence in fences}


def test_what_only_shows_it_differently_is_no_part_of_the_key():
    shown = 'source="above" title="t" result="text" id="a" predict="on"'
    assert len(keys('exec="on"', f'exec="on" {shown}')) == 1
    assert len(keys('exec="on"', 'exec="on" timeout="9"', 'exec="on" raises="x"',
                    'exec="on" ranks="2"', 'exec="on" width="40"')) == 5  # fmt: skip


def test_the_longest_is_submitted_first(project, monkeypatch):
    """What has run before is known by its seconds, the rest by its deadline."""
    submitted = []
    monkeypatch.setattr(executor, "shared_launcher", lambda: Submits(submitted))
    headers = ('timeout="5"', 'timeout="9"', "", 'hang="2"')
    text = "\n".join(f'```python exec="on" {header}\nx\n```\n' for header in headers)
    fences = scan.page(text, "content/x.md").fences
    before = executor.Executor(project)
    long_ago = executor.key_of(before.cache, fences[0], fences[0].program("x"))
    before.cache.put(long_ago, Outcome("finished", 12.0, (), read=("lib/a.py",)), time.time())
    edit(project / "lib/a.py", "2")
    executor.Executor(project).prefetch(fences)

    assert submitted == [60, 5, 9, 2]


class Submits:
    """Stands in for the launcher: notes deadlines, runs nothing."""

    def __init__(self, deadlines: list[float]) -> None:
        self.deadlines = deadlines

    def submit(self, program) -> Future:
        """Note a deadline."""
        self.deadlines.append(program.timeout)
        return Future()
