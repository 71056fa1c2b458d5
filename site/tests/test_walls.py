"""The walls of the house: who may import whom, and what each room must not know."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from press.project import ROOT

FLOORS = ("distlab", "press", "site")
"""From the ground up: a file imports from its own floor and from those below."""

ROOMS = {"distlab": ROOT / "code/distlab", "press": ROOT / "code/press", "site": ROOT / "site"}
ALONE = re.compile(r"site/(?:modules/[^/]+/solutions|tests/modules/toy)/")
"""Files that stand for a reader's: they belong to no floor."""

FOREIGN = re.compile(r"\bcontent/|(?<!\w)site/|\.md\b|\.cache\b|^content$|mkdocs|\bpress\b")
"""What distlab must not name."""

MAY_EDIT_PATH = {
    "code/distlab/hangs/watch.py": "runs a script as `python SCRIPT` would",
    "code/distlab/hangs/preload/sitecustomize.py": "hands over to the environment's own",
    "code/distlab/spmd/preload/sitecustomize.py": "hands over to the environment's own",
    "code/distlab/spmd/rank.py": "runs a program as `python PROGRAM` would",
}


def name_of(path: Path, root: Path = ROOT) -> str:
    """Return a file's path in the project."""
    return path.relative_to(root).as_posix()


def files(rooms: dict[str, Path] = ROOMS) -> dict[Path, str]:
    """Return every Python file that belongs to a floor, and its floor."""
    return {
        path: floor
        for floor, folder in rooms.items()
        for path in sorted(folder.rglob("*.py"))
        if not ALONE.search(path.as_posix())
    }


@cache
def tree(path: Path) -> ast.Module:
    """Parse a file."""
    return ast.parse(path.read_text("utf-8"))


def modules(rooms: dict[str, Path] = ROOMS) -> dict[str, Path]:
    """Return every file by the name under which Python imports it."""
    named = {}
    for path, floor in files(rooms).items():
        base = rooms[floor] if floor == "site" else rooms[floor].parent
        parts = path.relative_to(base).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def imports(path: Path, known: dict[str, Path]) -> Iterator[Path]:
    """Yield the project's files that a file imports, at whatever moment and for whatever reason."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else node.module for name in inner]
        else:
            continue
        yield from (known[name] for name in names if name in known)


def upward(rooms: dict[str, Path] = ROOMS) -> list[str]:
    """Return each import that runs from a lower floor to a higher one."""
    known, floor_of = modules(rooms), files(rooms)
    return [
        f"{path.name} ({floor}) imports {other.name} ({floor_of[other]})"
        for path, floor in floor_of.items()
        for other in imports(path, known)
        if FLOORS.index(floor_of[other]) > FLOORS.index(floor)
    ]


def circles(rooms: dict[str, Path] = ROOMS) -> list[str]:
    """Return the files that import each other in a loop; a type checker's imports count, too."""
    known = modules(rooms)
    arrows = {path: set(imports(path, known)) - {path} for path in files(rooms)}
    while leaves := {path for path, others in arrows.items() if not others & arrows.keys()}:
        arrows = {path: others for path, others in arrows.items() if path not in leaves}
    entered = {other for others in arrows.values() for other in others}
    return sorted(path.name for path in arrows if path in entered)


@cache
def defined(path: Path) -> frozenset[str]:
    """Return the names of a file's functions and classes, and the attributes that it sets."""
    return frozenset(
        node.attr if isinstance(node, ast.Attribute) else node.name
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        or (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    )


OURS = frozenset().union(
    *(defined(p) for p in files() if not p.is_relative_to(ROOT / "site/tests"))
)
"""What files of the project define: the private names of libraries are another matter."""


def private(path: Path, ours: frozenset[str] = OURS) -> list[str]:
    """Return what a file takes from another one though its name begins with one underscore."""
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr)
        if node.attr in ours - defined(path)
    ]


def test_no_import_runs_up_a_floor():
    assert upward() == []


def test_no_files_import_each_other_in_a_loop():
    assert circles() == []


def test_distlab_knows_neither_content_nor_markdown_nor_the_press():
    """It is downloaded whole: what it names must be there wherever it lies."""
    texts = {
        f"{name_of(path)}:{node.lineno}: {node.value[:60]!r}"
        for path, floor in files().items()
        if floor == "distlab"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if FOREIGN.search(node.value)
        if node not in docstrings(path)
    }

    assert texts == set()


@cache
def docstrings(path: Path) -> list[ast.Constant]:
    """Return the nodes that only describe: docstrings, and strings that stand alone."""
    return [
        node.value
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]


def test_no_file_edits_the_path_that_python_looks_along():
    """Nox sets PYTHONPATH; a file that helps itself finds another project's modules one day."""
    edits = {
        name_of(path)
        for path in files()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Call)
        and re.match(r"sys\.path(?:\[[^]]*\])? \+?= |sys\.path\.(?:insert|append|extend)\(",
                     ast.unparse(node))
    }  # fmt: skip

    assert edits == MAY_EDIT_PATH.keys()


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_no_file_reaches_for_what_another_keeps_to_itself(path):
    assert private(path) == []


# ---- These tests can fail ------------------------------------------------------------------------


@pytest.fixture
def rooms(tmp_path):
    """Lay out a house of three rooms and return a function that writes a file into one."""
    made = {"distlab": "code/distlab", "press": "code/press", "site": "site"}
    for folder in made.values():
        (tmp_path / folder).mkdir(parents=True)

    def write(floor: str, name: str, text: str) -> dict[str, Path]:
        (tmp_path / made[floor] / name).write_text(text)
        return {floor: tmp_path / folder for floor, folder in made.items()}

    return write


@pytest.mark.parametrize("text", ["import hooks", "from press import gate", "import press.gate"])
def test_an_arrow_up_is_seen(rooms, text):
    rooms("press", "gate.py", "")
    rooms("site", "hooks.py", "from press import gate")
    house = rooms("distlab", "ring.py", f"def late():\n    {text}\n")

    assert len(upward(house)) == 1
    assert upward(house)[0].startswith("ring.py (distlab) imports")


def test_a_circle_is_seen_and_who_only_enters_it_is_not_named(rooms):
    rooms("press", "a.py", "from press import b")
    rooms("press", "b.py", "from press.c import x")
    rooms("press", "c.py", "if TYPE_CHECKING:\n    import press.a")
    house = rooms("site", "hooks.py", "from press import a")

    assert circles(house) == ["a.py", "b.py", "c.py"]


def test_a_private_reach_is_seen(tmp_path):
    path = tmp_path / "x.py"
    path.write_text("class A:\n    def _own(self):\n        self._own()\n\nother._theirs()\n")

    assert private(path, frozenset({"_own", "_theirs"})) == ["line 5: other._theirs"]
