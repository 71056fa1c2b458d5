"""What a reader takes along runs elsewhere: every fence as a file, the lab, all in one zip."""

from __future__ import annotations

import operator
import re
import shlex
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from distlab.spmd import Program
from press import downloads, executor, modules, scan
from press.fences import Fence
from press.judge import judge
from press.modules import Module
from press.project import pinned_torch
from tools.site_copy import ROOT
from tools.watch import HANG

MODULES = modules.everything()
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1")
"""A port that the system chooses, and no look-up of this host's name."""


def fences_of(module: Module) -> dict[str, Fence]:
    """Return the fences of a module's page that can be taken along, by their ids."""
    scanned = scan.file(module.page, ROOT / "content").fences
    return {fence.id: fence for fence in scanned if downloads.address(fence)}


def a_plain_fence(module: Module) -> Fence:
    """Return the first fence that declares to end well."""
    every = fences_of(module).values()
    return next(f for f in every if not (f.raises or f.hang or f.returncode))


FENCES = [(module, fence) for module in MODULES for fence in fences_of(module).values()]
USES_DISTLAB = [(module, fence) for module, fence in FENCES if "distlab" in fence.code]
"""These run in new interpreters without our path, so that Python finds the zip's own distlab."""
OF_EACH_KIND = {
    (module.stem, f.ranks, f.start, bool(f.hang), bool(f.raises), f.returncode): (module, f)
    for module, f in FENCES
    if (module, f) not in USES_DISTLAB
}.values()
"""One fence for each way to be started and to end."""

OF_EACH_COMMAND = {
    (module.stem, f.ranks, "init_process_group" in f.code): (module, f)
    for module, f in [*USES_DISTLAB, *((module, a_plain_fence(module)) for module in MODULES)]
}.values()
"""One fence for each command line that a first line gives; most need the distlab of the zip."""

stem = operator.attrgetter("stem")
of_each_module = pytest.mark.parametrize("module", MODULES, ids=stem)


def named(value: object) -> str:
    """Return how a test's name shows a module or a fence."""
    return getattr(value, "number", "") or value.id


@pytest.fixture(scope="module")
def unzipped(tmp_path_factory):
    """Write the zips as a build does, unpack each in an empty folder; return them by module."""
    place = tmp_path_factory.mktemp("reader")
    executions = [executor.Execution(f, f.code, None, None, False, 0) for _, f in FENCES]
    downloads.write(executions, ROOT, place / "public")
    folders: dict[Module, Path] = {}
    for module in MODULES:
        (path,) = place.rglob(f"{module.stem}.zip")
        with zipfile.ZipFile(path) as archive:
            archive.extractall(place)
        folders[module] = place / module.stem
    return folders


def started(launcher, folder, *command):
    """Run a Python command where a reader unpacked it, without our PYTHONPATH."""
    script = f"cd {folder}; unset PYTHONPATH; exec {shlex.join([sys.executable, *command])}"
    program = Program(script, shell="bash", timeout=HANG)  # noqa: S604
    return launcher.run(program).ranks[0]


@of_each_module
def test_the_zip_holds_every_program_and_the_pins(unzipped, module):
    folder = unzipped[module]
    names = {path.name for path in folder.iterdir()}
    pins = (folder / "requirements.txt").read_text().splitlines()

    programs = {module.lab.name, module.script.name}
    assert names == {*programs, "fences", "requirements.txt", "constraints.txt", "README.txt"}
    assert {path.stem for path in (folder / "fences").glob("*.py")} == set(fences_of(module))
    assert f"torch=={pinned_torch()}" in pins
    assert set(pins) <= set((folder / "constraints.txt").read_text().splitlines()) | {"numpy"}


@pytest.mark.parametrize(("module", "fence"), FENCES, ids=named)
def test_a_file_is_its_fence_below_a_line_that_says_how_to_start_it(unzipped, module, fence):
    """So what the build has run is what the reader has; a few of each kind run below."""
    text = (unzipped[module] / f"fences/{fence.id}.py").read_text()
    first, _, rest = text.partition("\n")

    assert rest == f"{fence.code.rstrip()}\n"
    assert re.match(rf"# (python|torchrun --nproc_per_node={fence.ranks}) {fence.id}\.py", first)
    assert ("it hangs" in first) == bool(fence.hang)
    assert ("it fails" in first) == bool((fence.raises or fence.returncode) and not fence.hang)


@pytest.mark.slow
@pytest.mark.parametrize(("module", "fence"), OF_EACH_KIND, ids=named)
def test_a_file_ends_as_its_fence_declares(unzipped, launcher, module, fence):
    text = (unzipped[module] / f"fences/{fence.id}.py").read_text()
    program = fence.program(text)
    outcome = launcher.run(replace(program, name=f"{fence.id}.py"))

    assert judge(fence, outcome, text) is None, outcome


@pytest.mark.slow
@pytest.mark.parametrize("module", {owner for owner, _ in USES_DISTLAB}, ids=stem)
def test_the_zip_has_all_of_distlab_that_its_fences_import(unzipped, launcher, module):
    """Every import line of every fence, run beside them by a Python that knows no other distlab."""
    lines = {
        line
        for owner, fence in USES_DISTLAB
        for line in re.findall(r"(?m)^(?:from|import) distlab.*", fence.code)
        if owner == module
    }
    done = started(launcher, unzipped[module] / "fences", "-c", "\n".join(sorted(lines)))

    assert done.exit == 0, done


@pytest.mark.slow
@pytest.mark.parametrize(("module", "fence"), OF_EACH_COMMAND, ids=named)
def test_a_file_runs_as_its_first_line_says(unzipped, launcher, module, fence):
    folder = unzipped[module] / "fences"
    first, _, _ = (folder / f"{fence.id}.py").read_text().partition("\n")
    _, program, *options = first.split()
    torchrun = TORCHRUN if program == "torchrun" else ()
    done = started(launcher, folder, *torchrun, *options)

    assert options[-1] == f"{fence.id}.py"
    assert done.exit == 0, done


@pytest.mark.slow
@of_each_module
def test_the_lab_runs_from_the_zip(unzipped, launcher, module):
    done = started(launcher, unzipped[module], module.lab.name, "--start-method", "forkserver")

    assert done.stdout.splitlines()[-1].startswith("ok: ")
