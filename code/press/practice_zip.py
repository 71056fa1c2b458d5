"""What a learner downloads: a module's exercises and all that grades them, in one zip.

    practice-NN/exercises/*.py     the files to edit
    practice-NN/distlab/           the grader and the runner; originals and solutions inside
    practice-NN/pyproject.toml     so that pip can install it, if somebody wants that
    practice-NN/README.txt

Nothing has to be installed next to torch: `python -m distlab.practice` works in the folder. Two
builds write the same bytes.
"""

from __future__ import annotations

from pathlib import Path

from press.downloads import write_zip
from press.modules import Module
from press.project import pinned_torch

NEEDED = ("__init__.py", "spmd/**/*.py", "practice/*.py", "practice/tasks/*.py",
          "practice/tasks/m{number}/*.py")  # fmt: skip
"""What of distlab the exercises of a module need: no page, figure or build."""

README = """Exercises of module {number}, graded with real ranks on this machine

Needs Python 3.11 to 3.13 and torch {minor} (pip install torch=={torch}). In this folder:

    python -m distlab.practice list
    python -m distlab.practice check {task}

Edit exercises/{first}, check again; `watch` does it whenever you save. `hint {task}` helps in
three steps, `reset {task}` brings the untouched file back, `solution {task}` asks before it shows
one.

To have the command in every folder: pip install .  (or the zip itself), then, in a folder of your
own, `python -m distlab.practice reset all` writes the exercises there.
"""

PYPROJECT = """[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"

[project]
name = "practice"
version = "{version}"
description = "Exercises in distributed PyTorch, graded with real ranks"
requires-python = ">=3.11"
dependencies = ["torch>={minor},<{next}"]

[project.scripts]
practice-{number} = "distlab.practice.cli:main"

[tool.setuptools]
packages = [
{packages}
]

[tool.setuptools.package-data]
"distlab.spmd" = ["preload/*.py"]
"distlab.practice" = ["originals/*/*.py", "solutions/*/solutions/*.py"]
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
    package = module.root / "code" / "distlab"
    content = {
        f"distlab/{path.relative_to(package).as_posix()}": path.read_bytes()
        for pattern in NEEDED
        for path in package.glob(pattern.format(number=module.number))
    }
    for original in module.exercises.glob("[0-9]*.py"):
        content[f"exercises/{original.name}"] = original.read_bytes()
        inside = f"distlab/practice/originals/{module.number}/{original.name}"
        content[inside] = original.read_bytes()
    for path in module.solutions.glob("[0-9]*.py"):
        inside = f"distlab/practice/solutions/{module.stem}/solutions/{path.name}"
        content[inside] = path.read_bytes()
    return content | _texts(module, content)


def _texts(module: Module, content: dict[str, bytes]) -> dict[str, bytes]:
    """Return what says how the zip is used, to people and to pip."""
    torch = pinned_torch(module.root)
    major, minor, _ = torch.split(".")
    first = min(module.exercises.glob("[0-9]*.py")).name
    folders = {Path(name).parent for name in content if name.endswith("/__init__.py")}
    told = {
        "number": module.number,
        "version": int("".join(filter(str.isdigit, module.number))),  # pip reads 27a as an alpha
        "torch": torch,
        "minor": f"{major}.{minor}",
        "next": f"{major}.{int(minor) + 1}",
        "first": first,
        "task": int(first.partition("_")[0]),
        "packages": "\n".join(
            f'    "{folder.as_posix().replace("/", ".")}",' for folder in sorted(folders)
        ),
    }
    return {
        "README.txt": README.format(**told).encode(),
        "pyproject.toml": PYPROJECT.format(**told).encode(),
    }
