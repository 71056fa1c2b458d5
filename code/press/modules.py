"""The modules of the course, discovered: a folder `site/modules/NN_stem` is one, nothing lists it.

A module is a set of files with one stem. What readers get lies in content/, what checks it in
site/modules/NN_stem/:

    mutations.py     one mutant for each executed claim (MUTATIONS)
    sources.toml     what its pages cite
    limits.toml      how long its fences may be, how many must run on real ranks
    museum.py        what its exhibits show (BROKEN, FIXED) and what is tallied (RACES)
    symptoms.json    what people type into the search, and where it must lead
    solutions/       its exercises' solutions
    wrong_answers.py mistakes in them, and what each must be told (WRONG_ANSWERS)
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

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
    def exercises(self) -> Path:
        """The untouched files of its exercises."""
        return self.course / "exercises" / self.number

    @property
    def solutions(self) -> Path:
        """What the exercises ask for."""
        return self.folder / "solutions"

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


def _order(stem: str) -> tuple[int, str]:
    number = re.match(r"\d+", stem)[0]
    return int(number), stem
