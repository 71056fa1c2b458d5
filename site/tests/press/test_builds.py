"""Builds are repeatable, leave nothing behind however they end, and do not disturb each other."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from press import draft
from press.draft import Draft
from tools.site_copy import ROOT, Site, build_into, differences, files, is_current
from tools.watch import HANG, eventually, processes_with

FAULTS = (
    '# A page\n\n```python exec="on"\n1 / 0\n```\n',
    "# A page\n\n```python exec=on\npass\n```\n",
    '# A page\n\n```python exec="on"\nprint("[dead](index.md)")\n```\n',
)
SLOW = """# A page

```python exec="on" ranks="2" timeout="600"
import subprocess, time
subprocess.Popen(["sleep", "{mark}"], start_new_session=True)
time.sleep(5000)
```

```bash exec="on" timeout="600"
python -c "import time; time.sleep(5000)" & sleep {mark}
```
"""


def drafts(site: Site) -> list[Path]:
    """Return what unfinished builds of a site have left, or are at."""
    return list(site.folder.glob(".*.draft"))


SHARES = 5
"""The fences are run a second time in so many shares, another each day: all at once are minutes."""


def without_a_share(cache: Path, folder: Path) -> set[str]:
    """Copy known outcomes but for today's share; return the keys that were left out."""
    today = datetime.date.today().toordinal() % SHARES
    left_out = {path.name for path in cache.iterdir() if int(path.stem, 16) % SHARES == today}
    shutil.copytree(cache, folder, ignore=lambda *_: left_out)
    return left_out


@pytest.mark.slow
def test_two_builds_of_the_whole_site_are_byte_identical(tmp_path):
    """In the second a share of the fences runs again, which may be cached in the first.

    The first is public/ where that is of this tree.
    """
    public = ROOT / "public"
    if not is_current(public):
        public = build_into(tmp_path / "first")
    before = files(public)
    known = Path(os.environ.get("FENCE_CACHE", ROOT / ".cache/fences"))
    assert without_a_share(known, tmp_path / "known")
    second = build_into(tmp_path / "second", FENCE_CACHE=str(tmp_path / "known"))
    executed = json.loads((second / "executions.json").read_text())

    assert differences(before, files(second)) == ""
    assert any(name.endswith(".zip") for name in before)
    assert not all(entry["cached"] for entry in executed)


def test_the_difference_of_two_builds_is_told_with_its_lines():
    before = {"a.html": b"<p>1\n<p>same\n", "b.js": b"1", "gone.css": b""}
    after = {"a.html": b"<p>2\n<p>same\n", "b.js": b"2"}

    assert differences(before, before) == ""
    assert differences(before, after) == "a.html, b.js, gone.css\n  -<p>1\n  +<p>2"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_build_leaves_no_process_and_no_file(copy_of_site, tmp_path, signum):
    mark, temp = f"8{signum:03d}", tmp_path / "temp"
    temp.mkdir()
    before = files(copy_of_site.build("-q").public)
    copy_of_site.write(SLOW.replace("{mark}", mark))
    build = copy_of_site.start("-q", TMPDIR=str(temp))
    assert eventually(lambda: len(processes_with(f"sleep\0{mark}")) >= 2, HANG)
    assert drafts(copy_of_site)
    build.send_signal(signum)
    said, _ = build.communicate(timeout=HANG)

    assert eventually(lambda: not processes_with(str(temp)))
    assert eventually(lambda: not processes_with(f"sleep\0{mark}"))
    assert eventually(lambda: not list(temp.iterdir()))
    assert files(copy_of_site.folder / "public") == before != {}
    if signum != signal.SIGKILL:  # such a build can tidy up no more; the next one does
        assert "public/ is still the site as it was before this build" in said
        assert drafts(copy_of_site) == []
    copy_of_site.write("# Another page\n")
    assert copy_of_site.build("-q").status == 0
    assert drafts(copy_of_site) == []


def test_a_build_leaves_the_draft_of_a_live_one_alone(copy_of_site):
    other = Draft(copy_of_site.folder / "public")
    copy_of_site.build("-q")

    assert drafts(copy_of_site) == [other.folder]
    other.discard()
    assert drafts(copy_of_site) == []


def test_a_build_ends_with_the_nox_that_started_it(copy_of_site, tmp_path):
    """SIGKILL of nox leaves its child running unless the child has asked to be told."""
    mark, temp = "8100", tmp_path / "temp"
    temp.mkdir()
    copy_of_site.write(SLOW.replace("{mark}", mark))
    nox = (
        "import os, subprocess, sys\n"
        "env = os.environ | {'DISTLAB_PARENT': str(os.getpid())}\n"
        "subprocess.run([sys.executable, '-m', 'mkdocs', 'build', '-q'], env=env)"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", nox], cwd=copy_of_site.folder, env=os.environ | {"TMPDIR": str(temp)}
    )
    assert eventually(lambda: len(processes_with(f"sleep\0{mark}")) >= 2, HANG)
    started.kill()
    started.wait(HANG)

    assert eventually(lambda: not processes_with(str(temp)))
    assert eventually(lambda: not processes_with(f"sleep\0{mark}"))
    assert eventually(lambda: not list(temp.iterdir()))


@pytest.mark.slow
def test_two_builds_side_by_side_do_not_disturb_each_other(tmp_path):
    program = (
        "import torch, torch.distributed as dist\n"
        'dist.init_process_group("gloo")\n'
        "x = torch.tensor({value})\ndist.all_reduce(x)\nprint(x.item())\n"
        "dist.destroy_process_group()\n"
    )
    sites, builds = [], []
    for value in (1, 2):
        (tmp_path / str(value)).mkdir()
        sites.append(Site(tmp_path / str(value)))
        fence = '```python exec="on" source="above" result="text" ranks="4"\n{}```\n'
        page = fence.format(program.replace("{value}", str(value)))
        sites[-1].write(f"# A page\n\n{page}")
        builds.append(sites[-1].start("-q"))
    for build in builds:
        said, _ = build.communicate(timeout=HANG)
        assert build.returncode == 0, said
    pages = [(site.folder / "public/index.html").read_text() for site in sites]

    assert ["ranks 0-3</span> 4" in pages[0], "ranks 0-3</span> 8" in pages[1]] == [True, True]


LATE = "# A page\n\n[dead](#nowhere)\n"
"""A dead link is found after the pages are written."""

STRICT = "# A page\n\n[dead](absent.md)\n"
"""MkDocs warns of it, and fails after all its events."""


@pytest.mark.parametrize("fault", [LATE, STRICT, *FAULTS])
@pytest.mark.parametrize("loud", [(), ("-q",)], ids=["loud", "quiet"])
def test_a_failed_build_leaves_the_last_whole_site(copy_of_site, loud, fault):
    copy_of_site.write(fault)
    failed = copy_of_site.build(*loud)
    assert (failed.status, failed.public.exists(), drafts(copy_of_site)) == (1, False, [])
    copy_of_site.write("# A whole page\n")
    before = files(copy_of_site.build("-q").public)
    copy_of_site.write(fault)
    failed = copy_of_site.build(*loud)

    assert failed.status == 1
    assert "public/ is still the site as it was before this build" in failed.said
    assert files(failed.public) == before != {}
    assert drafts(copy_of_site) == []


def test_a_new_site_takes_the_place_of_the_old_one_whole(copy_of_site):
    copy_of_site.write("# Gone\n", "gone.md")
    public = copy_of_site.build("-q").public
    (public / ".git").write_text("of a worktree\n")
    (copy_of_site.folder / "content/gone.md").unlink()
    copy_of_site.build("-q")

    assert not (public / "gone.html").exists()
    assert (public / ".git").read_text() == "of a worktree\n"


def test_where_two_names_cannot_be_exchanged_the_new_site_still_appears(tmp_path, monkeypatch):
    monkeypatch.setattr(draft.sys, "platform", "another")
    site = tmp_path / "public"
    for text in ("old", "new"):
        one = Draft(site)
        (one.folder / "index.html").write_text(text)
        one.publish()

    assert files(site) == {"index.html": b"new"}
    assert list(tmp_path.iterdir()) == [site]


def test_a_build_into_another_folder_leaves_public_alone(copy_of_site, tmp_path):
    before = files(copy_of_site.build("-q").public)
    other = tmp_path / "a folder" / "other"
    copy_of_site.write("# Another page\n")
    good = copy_of_site.build("-q", "--site-dir", str(other))
    there = files(other)
    copy_of_site.write(LATE)
    failed = copy_of_site.build("--site-dir", str(other))

    assert (good.status, failed.status) == (0, 1)
    assert files(failed.public) == before != there
    assert files(other) == there != {}
    assert list(other.parent.iterdir()) == [other]


def test_a_warm_build_imports_no_torch_and_starts_no_server(copy_of_site, tmp_path):
    copy_of_site.write('# A page\n\n```python exec="on"\nprint(1)\n```\n')
    copy_of_site.build("-q")
    trap = tmp_path / "trap/torch"
    trap.mkdir(parents=True)
    (trap / "__init__.py").write_text("raise SystemExit('torch was imported')\n")
    path = os.pathsep.join([str(trap.parent), copy_of_site.path["PYTHONPATH"]])
    warm = copy_of_site.build("-q", PYTHONPATH=path, TMPDIR="/nonexistent")

    assert warm.status == 0, warm.said
