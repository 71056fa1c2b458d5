"""An outcome tells which files of the project its program read, whichever process read them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from textwrap import dedent

import pytest

from distlab import spmd
from distlab.spmd import Outcome, Program
from distlab.spmd.server import MOST
from tools.watch import eventually

FILES = {
    "code/lesson/__init__.py": "",
    "code/lesson/first.py": "from lesson import second",
    "code/lesson/second.py": "",
    "code/lesson/worker.py": "def work(index):\n    print(index, open('content/data.json').read())",
    "code/never.py": "",
    "content/page.md": "prose",
    "content/data.json": "{}",
}


@pytest.fixture
def project(tmp_path):
    """Lay out a small project, reached through a symbolic link."""
    for name, text in FILES.items():
        path = tmp_path / "real" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "link").symlink_to("real")
    return tmp_path / "link"


def outcome_of(launcher, project, source, **options):
    links = tuple((name, str(project / name)) for name in ("content", "code"))
    path = f"{project / 'code'}{os.pathsep}{spmd.launcher.CODE}"
    options = {"watch": str(project), "links": links, "env": (("PYTHONPATH", path),)} | options
    outcome = launcher.run(Program(dedent(source), **options))
    assert outcome.cause == "finished", outcome
    return outcome


def read(launcher, project, source, **options):
    """Return what a program read, without the places where torch looks for CUDA's libraries."""
    outcome = outcome_of(launcher, project, source, **options)
    return [name for name in outcome.read if not name.endswith("/lib/")]


PROGRAMS = {
    "an import": ("import sys; sys.path.insert(0, 'code'); import lesson.first",
                  ["code/lesson/__init__.py", "code/lesson/first.py", "code/lesson/second.py"]),
    "an open through a link": ("open('content/page.md').read()", ["content/page.md"]),
    "pathlib and bytes": ("import pathlib; pathlib.Path('content/page.md').read_text()\n"
                          "open(b'content/data.json').read()",
                          ["content/data.json", "content/page.md"]),
    "what is not there": ("try:\n    open('content/none.json')\nexcept OSError:\n    pass",
                          ["content/none.json"]),
    "a listing": ("import os; os.listdir('content')", ["content/"]),
    "a scan": ("import os; list(os.scandir('content'))", ["content/"]),
    "a pattern": ("import glob; glob.glob('content/*.md')", ["content/"]),
    "reading and writing": ("open('content/page.md', 'r+').read()", ["content/page.md"]),
    "writing only": ("open('content/new', 'w').write('x')\n"
                     "open('content/new', 'a').write('x')\nopen('content/new', 'w+').read()", []),
    "nothing of the project": ("open('own', 'w').write('x'); open('own').read()\n"
                               "import json; open(json.__file__).read()", []),
    "before a crash": ("open('content/page.md'); import os; os.fork() or os.abort(); os.wait()",
                       ["content/page.md"]),
    "with every descriptor closed": (
        "import os; os.closerange(3, 64); open('content/page.md').read()", ["content/page.md"]),
    "a child": ("import subprocess, sys\n"
                "subprocess.run([sys.executable, '-c', 'import lesson.second'], check=True)",
                ["code/lesson/__init__.py", "code/lesson/second.py"]),
    "a spawned rank": ("import torch.multiprocessing as mp, sys\nsys.path.insert(0, 'code')\n"
                       "from lesson import worker\n"
                       "if __name__ == '__main__':\n    mp.spawn(worker.work, nprocs=1)",
                       ["code/lesson/__init__.py", "code/lesson/worker.py", "content/data.json"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_read_is_told(launcher, project, name):
    source, expected = PROGRAMS[name]

    assert read(launcher, project, source) == expected


def test_every_rank_tells_and_a_new_interpreter_does_as_well(launcher, project):
    source = "import os; open(f'content/{os.environ[\"RANK\"]}.txt', 'a+')"
    both = ["content/0.txt", "content/1.txt"]

    assert read(launcher, project, source, ranks=2) == both
    assert read(launcher, project, source, ranks=2, start="fresh") == both


def test_a_program_without_a_folder_to_watch_tells_nothing(launcher, project):
    source = "import os; open('content/page.md'); print('DISTLAB_READ' in os.environ)"
    outcome = outcome_of(launcher, project, source, watch="")

    assert (outcome.read, outcome.ranks[0].stdout) == ((), "False\n")


SHELL = {"shell": "bash", "name": "fence.sh", "timeout": 120}
SCRIPTS = {
    "python": ("python -c 'import lesson.second'",
               ["code/lesson/__init__.py", "code/lesson/second.py"]),
    "torchrun": ("torchrun --standalone --nproc-per-node=1 code/lesson/first.py",
                 ["code/lesson/__init__.py", "code/lesson/first.py", "code/lesson/second.py"]),
    "cat": ("cat <content/page.md", ["content/page.md"]),
    "an option's value": ("diff --from-file=content/page.md content/page.md", ["content/page.md"]),
    "after a change of folder": ("(cd content && cat page.md)", ["content/", "content/page.md"]),
    "a pattern": ("cat content/*.md", ["content/", "content/page.md"]),
    "a pattern that nothing fits": ("ls code/*.txt || true", ["code/"]),
    "words that name nothing": ("echo never page.md 'a\\0b' /etc/passwd .. .", []),
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_of_a_shell_script_the_words_stand_for_what_is_no_python(launcher, project, name):
    source, expected = SCRIPTS[name]

    assert read(launcher, project, source, **SHELL) == expected


def test_a_watched_script_inside_a_shell_fence_tells_as_well(launcher, project):
    """Two sitecustomize modules hand over to each other, and a second server is in between."""
    (project / "code/stuck.py").write_text("from lesson import second")
    for ranks in ("", "--nproc 2", "--nproc 1 --start fresh"):
        command = f"python -m distlab.hangs --run code/stuck.py --after 60 {ranks}"
        outcome = outcome_of(launcher, project, command, **SHELL)

        assert "code/lesson/second.py" in outcome.read, (ranks, outcome)
        assert "ended by itself" in outcome.ranks[0].stdout


def test_the_modules_of_a_server_in_between_are_told(launcher):
    """The exercises' fork server has imported the grader: its ranks never open that again."""
    root = spmd.launcher.CODE.parent
    source = """python -c '
from distlab import spmd
from distlab.practice import grader
with grader.launcher() as launcher:
    assert launcher.run(spmd.Program("pass")).cause == "finished"
'"""
    outcome = launcher.run(Program(source, **SHELL, watch=str(root)))

    assert outcome.cause == "finished"
    assert "code/distlab/practice/bench.py" in outcome.read
    # Imported before there was a hook.
    assert "code/distlab/spmd/preload/sitecustomize.py" in outcome.read
    assert not {str(path.relative_to(root)) for path in spmd.RUNNER} & set(outcome.read)


def test_a_change_of_the_runner_is_told_by_no_program_as_it_counts_for_all(launcher):
    """A fork opens no module again that the server has imported."""
    source = "import sys; print(*(m.__file__ for n, m in sys.modules.items() if 'distlab' in n))"
    imported = launcher.run(Program(source)).ranks[0].stdout.split()
    server = Path(spmd.launcher.__file__).with_name("server.py")

    assert {*map(Path, imported), server} == set(spmd.RUNNER)
    assert len(spmd.RUNNER) == len(set(spmd.RUNNER))


def test_an_outcome_that_an_earlier_runner_stored_still_loads(launcher, project):
    outcome = outcome_of(launcher, project, "open('content/page.md')")
    data = outcome.to_json()

    assert Outcome.from_json(data) == outcome
    del data["read"]
    assert Outcome.from_json(data).read == ()


def test_a_future_runs_when_its_ranks_do_and_may_be_cancelled_before(tmp_path):
    flag = tmp_path / "go"
    source = f"import os, time\nwhile not os.path.exists({str(flag)!r}):\n    time.sleep(0.01)"
    with spmd.Launcher(preload=("json",)) as launcher:
        busy = [launcher.submit(Program(source)) for _ in range(MOST)]
        waiting = launcher.submit(Program("pass"))

        assert eventually(busy[0].running, 60)
        assert not waiting.running()
        assert waiting.cancel()
        flag.touch()
        assert {future.result().cause for future in busy} == {"finished"}
        assert launcher.run(Program("pass")).cause == "finished"


def test_the_runs_own_folder_is_no_part_of_the_project_even_if_it_lies_there(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "data.txt").write_text("x")
    source = "open('own.txt', 'w').write('x')\nopen('own.txt').read()\nopen('project/data.txt')"
    links = (("project", str(tmp_path)),)
    with spmd.Launcher(preload=("json",)) as launcher:
        outcome = launcher.run(Program(source, watch=str(tmp_path), links=links))

    assert outcome.cause == "finished", outcome
    assert outcome.read == ("data.txt",)
