"""A module is added by adding files and one line of navigation; every session picks it up.

The copy of the project in which this is shown has one module more, whose files lie in toy/. Each
of them is missed by something that says its name. "Adding a module" in CONTRIBUTING.md is this test
in words.
"""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from press import scan
from press.executor import Executor
from press.project import CONTENT, ROOT

pytestmark = pytest.mark.slow  # builds, one after the other

TOY = Path(__file__).with_name("toy")
FILES = sorted(
    path.relative_to(TOY).as_posix()
    for path in TOY.rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
)
NAV = "      - Process groups, collectives, DDP: courses/pytorch/26_ddp_gloo.md\n"
LINE = "      - A toy: courses/pytorch/99_toy.md\n"
COPIED = ("code", "content", "site", "requirements", "mkdocs.yml", "constraints.txt",
          "pyproject.toml")  # fmt: skip
LIMIT = 1200
"""Seconds that a command may take: far more than it does, also beside other work."""


@dataclass(frozen=True)
class Copy:
    """A copy of the project with the toy module in it."""

    root: Path

    def run(self, *command: str, folder: Path | None = None, status: int = 0, **env: str) -> str:
        """Run a Python command in the copy; return all it said. Fails at another exit status."""
        done = subprocess.run(
            [sys.executable, *command], cwd=folder or self.root, env=self.environment | env,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stdout
        return done.stdout

    def asks(self, program: str) -> list[str]:
        """Return the lines that a program prints in the copy."""
        return self.run("-c", program).splitlines()

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which Python finds the copy's code, and what fences have come to."""
        path = os.pathsep.join(str(self.root / name) for name in ("code", "site"))
        own = {"PYTHONPATH": path, "FENCE_CACHE": str(self.root / ".cache/fences")}
        return os.environ | own | {"NO_MKDOCS_2_WARNING": "1"}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Copy the project, with what its fences have come to; add the toy's files and its line."""
    root = tmp_path_factory.mktemp("project")
    left_out = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, symlinks=True, ignore=left_out)
        else:
            shutil.copy2(ROOT / name, root / name)
    cache = Path(os.environ.get("FENCE_CACHE", ROOT / ".cache/fences"))
    if cache.is_dir():
        shutil.copytree(cache, root / ".cache/fences")
    shutil.copytree(TOY, root, dirs_exist_ok=True, ignore=left_out)
    config = (root / "mkdocs.yml").read_text()
    assert config.count(NAV) == 1
    (root / "mkdocs.yml").write_text(config.replace(NAV, NAV + LINE))
    return Copy(root)


@pytest.fixture(scope="module")
def site(copy):
    """Build the copy."""
    said = copy.run("-m", "mkdocs", "build", "--quiet")
    assert (copy.root / "public/index.html").is_file(), said
    return copy.root / "public"


def read(site: Path, name: str) -> str:
    """Return a page of the course."""
    return (site / "courses/pytorch" / name).read_text()


# ---- Every session picks it up -------------------------------------------------------------------


def test_the_build_shows_it_and_runs_its_fences(site):
    executed = {entry["id"]: entry for entry in json.loads((site / "executions.json").read_text())}
    toys = {"toy-sum", "toy-max", "toy-lonely-broken", "toy-lonely-fixed"}

    assert toys <= executed.keys()
    assert "the sum is 1" in read(site, "99_toy.html")
    assert "A toy" in read(site, "index.html")
    assert "Toys" in read(site, "museum/index.html").partition("<article")[0], "the navigation"
    assert 'href="99_toy.html#toy-lonely"' in read(site, "museum/index.html")
    assert 'id="toys"' in read(site, "symptoms.html")
    assert not (site / "courses/pytorch/symptoms").exists()


def test_no_other_fence_runs_again(site):
    """A module costs its own fences: what was known before the toy came is not run again.

    But for a program that lists the folder site/, in which the lab's test is a new name.
    """
    executor = Executor(ROOT)
    fences = [fence for fence in scan.folder(CONTENT).fences if fence.code is not None]
    outcomes = {fence.id: executor.known(fence, fence.code) for fence in fences}
    known = {name for name, outcome in outcomes.items() if outcome and "site/" not in outcome.read}
    if not known:
        pytest.skip("no outcome of a fence is kept here: nox -s docs")
    entries = json.loads((site / "executions.json").read_text())

    assert {entry["id"] for entry in entries if not entry["cached"]} & known == set()


def test_its_zips_are_written(site):
    assert (site / "courses/pytorch/99_toy/99_toy.zip").is_file()
    assert (site / "courses/pytorch/99_toy/toy-sum.py").is_file()
    assert (site / "courses/pytorch/practice-99.zip").is_file()


def test_another_modules_practice_page_is_as_it_was(site):
    page = read(site, "26_practice.html")

    assert "18 files are in work/" in page
    assert "01_total" not in page


def test_its_promises_its_lab_and_its_exercise_are_tested(copy, site):
    tests = ("test_pytorch_99_toy.py", "test_pytorch_99_train.py", "tests/modules/test_page.py",
             "tests/modules/test_whole.py", "tests/modules/test_symptoms.py",
             "tests/distlab/test_practice.py", "tests/distlab/test_practice_cli.py",
             "tests/press/test_downloads.py")  # fmt: skip
    said = copy.run("-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", "toy or 99",
                    *(f"site/{name}" for name in tests), SITE_DIR=str(site))  # fmt: skip
    told = [line.split(" ")[0] for line in said.splitlines() if " PASSED" in line]

    for part in (
        "test_the_lab_proves_what_it_says",
        "test_the_script_goes_on_where_it_was",
        "test_every_executed_claim_has_a_mutation[99_toy]",
        "test_a_module_has_all_its_files[99_toy]",
        "test_a_symptom_leads_to_its_exhibit_or_kind[toy]",
        "test_a_solution_passes_on_one_to_four_ranks[99/1]",
        "test_an_untouched_stub_fails_and_says_how_to_begin[99/1]",
        "test_a_wrong_answer_is_told_what_it_needs_to_hear[99/1",
        "test_a_new_user_lists_checks_and_passes[99_toy]",
        "test_the_zip_holds_one_modules_tasks[99_toy]",
        "test_the_zip_holds_every_program_and_the_pins[99_toy]",
        "test_a_file_ends_as_its_fence_declares[99-toy-max]",
    ):
        assert any(part in name for name in told), f"{part} in\n{said}"


def test_its_exhibit_is_shown_and_held_to_what_is_expected(copy, site):
    program = """
import re
from press.executor import Executor, close_shared_launcher
from press import scan
from press.executor import Executor
from press.project import CONTENT, ROOT
from tools import museum
(toy,) = [each for each in museum.exhibits() if each.slug == "toy-lonely"]
executor = Executor(ROOT)
for fence, patterns in zip(toy.fences, museum.expected()):
    done = executor.execute(fence, fence.code)
    said = museum.said(done.outcome, fence.code)
    for pattern in patterns[toy.slug]:
        print(fence.id, bool(re.search(pattern, said, re.MULTILINE)))
close_shared_launcher()
"""

    assert copy.asks(program) == ["toy-lonely-broken True"] * 2 + ["toy-lonely-fixed True"] * 2


def test_its_mutant_is_killed(copy):
    said = copy.run("-m", "tools.mutate", "--fence", "99/toy-sum")

    assert {"module 99: 1 mutants killed", "1 mutants killed, 0 survived"} <= set(said.splitlines())


def test_its_exercise_is_offered_and_graded(copy, tmp_path):
    def practice(*arguments: str, status: int = 0) -> str:
        return copy.run("-m", "distlab.practice", *arguments, folder=tmp_path, status=status)

    assert "files are in" in practice("reset", "all")
    assert "99/1  a total over ranks  (99/01_total.py)" in practice("list")
    assert "1 a total over ranks: not begun" in practice("check", "99/1", status=1)
    solved = TOY / "site/modules/99_toy/solutions/01_total.py"
    shutil.copy(solved, tmp_path / "99")
    assert "passed on 2, 3 and 4 ranks" in practice("check", "99/1")
    assert "[x] 99/1" in practice("list")


def test_drift_soak_bench_and_browser_know_it(copy, site):
    drift = copy.asks("""
from record import drift
print(*(item.name for item in drift.items(drift.Servers(None, None))), sep="\\n")
""")
    soak = copy.asks("""
from soak import plan
rounds = [plan.plan(1, number) for number in range(1, 2 * plan.DECK + 1)]
print(*{each.module for each in rounds} | {each.task for each in rounds}, sep="\\n")
""")
    bench = copy.run("-m", "tools.bench", "--list")
    browser = copy.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only",
                       "site/tests/browser/test_browser.py", SITE_DIR=str(site))  # fmt: skip

    assert {
        "courses/pytorch/99_toy.md#fence-toy-sum",
        "courses/pytorch/99_toy.md#fence-toy-max",
        "courses/pytorch/museum/99_toy.md#fence-toy-lonely-broken",
        "courses/pytorch/code/99_toy.py torchrun",
        "courses/pytorch/code/99_train.py torchrun",
        "courses/pytorch/exercises/99/01_total.py",
    } <= set(drift)
    assert {"99_toy", "99/1", "26_ddp_gloo"} <= set(soak)
    assert "lab 99 on 2 ranks, spawn / import torch" in bench
    assert "courses/pytorch/99_toy.html" in browser


# ---- Nothing may be missing ----------------------------------------------------------------------

LACKS = """
from press import modules
from tools import museum
for module in modules.everything():
    print(*modules.missing(module), sep="\\n")
print(*museum.faults(), sep="\\n")
"""


def test_the_whole_module_lacks_nothing(copy):
    assert [line for line in copy.asks(LACKS) if line] == []


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_removed_is_named(copy, name):
    path = copy.root / name
    text = path.read_text()
    path.unlink()
    try:
        sentences = copy.asks(LACKS)
    finally:
        path.write_text(text)

    assert [s for s in sentences if names(s, name)], sentences


def test_a_line_of_navigation_that_is_removed_is_named(copy):
    config = copy.root / "mkdocs.yml"
    text = config.read_text()
    config.write_text(text.replace(LINE, ""))
    try:
        sentences = copy.asks(LACKS)
    finally:
        config.write_text(text)

    assert "module 99 has no line in mkdocs.yml: nav must lead to courses/pytorch/99_toy.md" in (
        sentences
    )


def names(sentence: str, name: str) -> bool:
    """Tell whether a sentence names a file, or the pattern of its name."""
    words = (word.rstrip(":,.") for word in sentence.split())
    return any(fnmatch.fnmatch(name, word) for word in words if len(word) > 2)
