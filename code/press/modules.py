"""The modules of the course, discovered: a folder `site/modules/NN_stem` is one, nothing lists it.

A module is a set of files with one stem. What readers get lies in content/, what checks it in
site/modules/NN_stem/:

    mutations.py     one mutant for each executed claim (MUTATIONS)
    sources.toml     what its pages cite
    limits.toml      how long its fences may be, how many must run on real ranks
    museum.py        what its exhibits show (BROKEN, FIXED)
    races.py         its programs whose outcome varies, which are tallied (RACES)
    symptoms.json    what people type into the search, and where it must lead
    solutions/       its exercises' solutions
    wrong_answers.py mistakes in them, and what each must be told (WRONG_ANSWERS)
"""

from __future__ import annotations

import functools
import importlib.util
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from distlab.practice import tasks
from press.project import ROOT

FOLDER = "site/modules"
STEM = re.compile(r"(?P<number>\d+[a-z]?)_\w+")


@dataclass(frozen=True)
class Module:
    """One module of the course.

    stem: the name of all its files, as "26_ddp_gloo"
    root: the project
    """

    stem: str
    root: Path = ROOT

    def __str__(self) -> str:
        return f"module {self.number}"

    @property
    def number(self) -> str:
        """Its number, with which its exercises are named: "26", or "27a"."""
        return STEM.fullmatch(self.stem)["number"]

    @property
    def folder(self) -> Path:
        """What the site is built and checked with."""
        return self.root / FOLDER / self.stem

    @property
    def course(self) -> Path:
        """What readers get, of this module and of all others."""
        return self.root / "content/courses/pytorch"

    @property
    def page(self) -> Path:
        """Its page."""
        return self.course / f"{self.stem}.md"

    @property
    def lab(self) -> Path:
        """Its lab."""
        return self.course / "code" / f"{self.stem}.py"

    @property
    def lab_test(self) -> Path:
        """The test that runs its lab as a reader does."""
        return self.root / "site" / f"test_pytorch_{self.stem}.py"

    @property
    def script(self) -> Path:
        """Its training script, for readers to take away."""
        return self.course / "code" / f"{self.number}_train.py"

    @property
    def script_test(self) -> Path:
        """The test that trains with its script, kills it, resumes it."""
        return self.root / "site" / f"test_pytorch_{self.number}_train.py"

    @property
    def exercises(self) -> Path:
        """The untouched files of its exercises."""
        return self.course / "exercises" / self.number

    @property
    def solutions(self) -> Path:
        """What the exercises ask for."""
        return self.folder / "solutions"

    @property
    def tasks(self) -> Path:
        """What the exercises ask for and how they are graded: a package of distlab."""
        return self.root / "code/distlab/practice/tasks" / f"m{self.number}"

    @functools.cached_property
    def limits(self) -> dict:
        """What its page promises: limits.toml."""
        return tomllib.loads((self.folder / "limits.toml").read_text())

    def load(self, name: str) -> ModuleType:
        """Import one of its Python files, as "mutations". Raises FileNotFoundError."""
        path = self.folder / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"module_{self.stem}_{name}", path)
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded


def everything(root: Path = ROOT) -> tuple[Module, ...]:
    """Return every module, in the order of their numbers."""
    stems = [path.name for path in (root / FOLDER).glob("*/") if STEM.fullmatch(path.name)]
    return tuple(Module(stem, root) for stem in sorted(stems, key=_order))


def number_of(name: str) -> str:
    """Return the number of the module that a page belongs to, by its file's name; "" if none."""
    stem = STEM.match(name)
    return stem["number"] if stem else ""


def with_exercises(root: Path = ROOT) -> tuple[Module, ...]:
    """Return the modules that have exercises."""
    return tuple(module for module in everything(root) if module.exercises.is_dir())


# ---- What a module lacks -------------------------------------------------------------------------


def unbuildable(module: Module) -> list[str]:
    """Return a sentence for each file without which the module has no page."""
    return _absent(
        module,
        {
            module.page: "its page",
            module.lab: "its lab, which the page lets readers download",
            module.script: "its training script, which readers take away",
            module.folder / "sources.toml": "what its page cites",
        },
    )


def missing(module: Module) -> list[str]:
    """Return a sentence for each file that the module lacks, which says what it is for."""
    checks = {
        module.lab_test: "the test that runs its lab as a reader does",
        module.script_test: "the test that trains with its script, kills it, resumes it",
        module.folder / "mutations.py": "a mutant for each executed claim (MUTATIONS)",
        module.folder / "limits.toml": "how long its fences may be, how many must run",
    }
    if [*module.course.glob(f"museum/{module.number}_*.md")]:
        checks[module.folder / "museum.py"] = "what its exhibits show (BROKEN, FIXED)"
    if [*module.course.glob(f"symptoms/{module.number}_*.md")]:
        checks[module.folder / "symptoms.json"] = "what people type, and where it must lead"
    sentences = unbuildable(module) + _absent(module, checks) + _exercise_files(module)
    page = module.page.relative_to(module.root / "content").as_posix()
    if not re.search(rf"(?m)^ +- .*: {page}$", (module.root / "mkdocs.yml").read_text()):
        sentences.append(f"{module} has no line in mkdocs.yml: nav must lead to {page}")
    return sentences


def _absent(module: Module, purposes: dict[Path, str]) -> list[str]:
    return [
        f"{module} has no {path.relative_to(module.root).as_posix()}: {purpose}"
        for path, purpose in purposes.items()
        if not path.is_file()
    ]


def _exercise_files(module: Module) -> list[str]:
    """Return what is missing of exercises; a module need have none, but each must be whole."""
    known = tasks.has_tasks(module.number)
    asked = {task.file for task in tasks.of(module.number)} if known else set()
    stubs = {path.name for path in module.exercises.glob("[0-9]*.py")}
    solved = {path.name for path in module.solutions.glob("[0-9]*.py")}
    if not asked | stubs | solved:
        return []
    checks = {
        module.tasks / "__init__.py": "the package of its exercises' tasks",
        module.folder / "wrong_answers.py": "mistakes, and what each must be told (WRONG_ANSWERS)",
    }
    for name in sorted(asked | stubs | solved):
        checks[module.exercises / name] = "the untouched file of an exercise"
        checks[module.solutions / name] = "the solution of an exercise"
    folder = module.tasks.relative_to(module.root).as_posix()
    untold = [
        f"{module} has no {folder}/*.py with a task for {name}: what it asks, and its cases"
        for name in sorted((stubs | solved) - asked)
    ]
    return _absent(module, checks) + untold


def _order(stem: str) -> tuple[int, str]:
    number = re.match(r"\d+", stem)[0]
    return int(number), stem
