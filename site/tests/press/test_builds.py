"""Builds are repeatable, leave nothing behind however they end, and do not disturb each other."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.site_copy import ROOT, Site, differences, files
from tools.watch import HANG, eventually, processes_with

PAGES = ("index.md", "glossary.md", "courses/pytorch/index.md", "courses/pytorch/26_ddp_gloo.md")
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


def with_course(folder: Path) -> Site:
    """Return a copy of the site that holds the course's first pages and the labs."""
    site = Site(folder)
    for name in PAGES:
        site.write((ROOT / "content" / name).read_text(), name)
    for name in ("code", "exercises"):
        source = ROOT / "content/courses/pytorch" / name
        if source.exists():
            shutil.copytree(source, folder / "content/courses/pytorch" / name)
    return site


def test_two_cold_builds_are_byte_identical(tmp_path):
    site = with_course(tmp_path)
    first = site.build("--no-strict", FENCE_FRESH="1")  # links to pages that this copy lacks
    assert first.status == 0, first.said
    before = files(first.public)
    second = files(site.build("--no-strict", FENCE_FRESH="1").public)

    assert differences(before, second) == ""
    assert any(name.endswith(".zip") for name in before)


def test_the_difference_of_two_builds_is_told_with_its_lines():
    before = {"a.html": b"<p>1\n<p>same\n", "b.js": b"1", "gone.css": b""}
    after = {"a.html": b"<p>2\n<p>same\n", "b.js": b"2"}

    assert differences(before, before) == ""
    assert differences(before, after) == "a.html, b.js, gone.css\n  -<p>1\n  +<p>2"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_build_leaves_no_process_and_no_file(copy_of_site, tmp_path, signum):
    mark, temp = f"8{signum:03d}", tmp_path / "temp"
    temp.mkdir()
    copy_of_site.write(SLOW.replace("{mark}", mark))
    build = copy_of_site.start("-q", TMPDIR=str(temp))
    assert eventually(lambda: len(processes_with(f"sleep\0{mark}")) >= 2, HANG)
    build.send_signal(signum)
    build.communicate(timeout=HANG)

    assert eventually(lambda: not processes_with(str(temp)))
    assert eventually(lambda: not processes_with(f"sleep\0{mark}"))
    assert eventually(lambda: not list(temp.iterdir()))


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


@pytest.mark.parametrize("loud", [(), ("-q",)], ids=["loud", "quiet"])
def test_a_failed_build_takes_back_its_pages(copy_of_site, loud):
    """A dead link is found after the pages are written."""
    copy_of_site.write("# A page\n\n[dead](#nowhere)\n")
    built = copy_of_site.build(*loud)

    assert (built.status, "no such anchor" in built.said) == (1, True)
    assert not built.public.exists()


def test_a_failed_build_into_another_folder_leaves_public_alone(copy_of_site, tmp_path):
    before = files(copy_of_site.build("-q").public)
    copy_of_site.write("# A page\n\n[dead](#nowhere)\n")
    other = tmp_path / "other"
    built = copy_of_site.build("--site-dir", str(other))

    assert (built.status, other.exists()) == (1, False)
    assert before
    assert files(built.public) == before


def test_a_warm_build_imports_no_torch_and_starts_no_server(copy_of_site, tmp_path):
    copy_of_site.write('# A page\n\n```python exec="on"\nprint(1)\n```\n')
    copy_of_site.build("-q")
    trap = tmp_path / "trap/torch"
    trap.mkdir(parents=True)
    (trap / "__init__.py").write_text("raise SystemExit('torch was imported')\n")
    path = os.pathsep.join([str(trap.parent), copy_of_site.path["PYTHONPATH"]])
    warm = copy_of_site.build("-q", PYTHONPATH=path, TMPDIR="/nonexistent")

    assert warm.status == 0, warm.said
