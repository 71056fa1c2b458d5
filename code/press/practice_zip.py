"""What a learner downloads: the exercises and all that grades them, in one zip.

    practice-26/exercises/*.py     the files to edit
    practice-26/distlab/           the grader and the runner; originals and solutions inside
    practice-26/pyproject.toml     so that pip can install it, if somebody wants that
    practice-26/README.txt

Nothing has to be installed next to torch: `python -m distlab.practice` works in the folder. Two
builds write the same bytes.
"""

from __future__ import annotations

from pathlib import Path

from press.downloads import write_zip
from press.modules import Module

NEEDED = ("__init__.py", "spmd/*.py", "practice/*.py", "practice/tasks/**/*.py")
"""What of distlab the exercises need: no page, figure or build."""

README = """Exercises of module 26, graded with real ranks on this machine

Needs Python 3.11 to 3.13 and torch 2.8 (pip install torch==2.8.0). In this folder:

    python -m distlab.practice list
    python -m distlab.practice check 1

Edit exercises/01_broadcast.py, check again; `watch` does it whenever you save. `hint 1` helps in
three steps, `reset 1` brings the untouched file back, `solution 1` asks before it shows one.

To have the command in every folder: pip install .  (or the zip itself), then, in a folder of your
own, `python -m distlab.practice reset all` writes the exercises there.
"""

PYPROJECT = """[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"

[project]
name = "practice"
version = "26"
description = "Exercises in distributed PyTorch, graded with real ranks"
requires-python = ">=3.11"
dependencies = ["torch>=2.8,<2.9"]

[project.scripts]
practice-26 = "distlab.practice.cli:main"

[tool.setuptools]
packages = [
    "distlab", "distlab.spmd", "distlab.practice", "distlab.practice.tasks",
    "distlab.practice.tasks.m26",
]

[tool.setuptools.package-data]
"distlab.practice" = ["originals/*.py", "solutions/*.py"]
"""


def write(module: Module, public: Path) -> Path | None:
    """Write practice-NN.zip beside a module's page; return its path, None without exercises.

    public: MkDocs' site_dir
    """
    if not module.exercises.is_dir():
        return None
    name = f"practice-{module.number}"
    path = public / module.course.relative_to(module.root / "content") / f"{name}.zip"
    write_zip(path, name, _content(module))
    return path


def _content(module: Module) -> dict[str, bytes]:
    content = {"README.txt": README.encode(), "pyproject.toml": PYPROJECT.encode()}
    package = module.root / "code" / "distlab"
    for pattern in NEEDED:
        for path in package.glob(pattern):
            content[f"distlab/{path.relative_to(package).as_posix()}"] = path.read_bytes()
    for original in module.exercises.glob("[0-9]*.py"):
        content[f"exercises/{original.name}"] = original.read_bytes()
        content[f"distlab/practice/originals/{original.name}"] = original.read_bytes()
    for solution in module.solutions.glob("[0-9]*.py"):
        content[f"distlab/practice/solutions/{solution.name}"] = solution.read_bytes()
    return content
