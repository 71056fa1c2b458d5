"""What a reader takes along runs elsewhere: every fence as a file, the lab, all in one zip."""

from __future__ import annotations

import shlex
import sys
import zipfile
from dataclasses import replace

import pytest

from distlab.spmd import Program
from press import downloads, executor, scan
from press.fences import judge
from tools.site_copy import ROOT
from tools.watch import HANG

LAB = ROOT / "content/courses/pytorch/code/26_ddp_gloo.py"
PAGE = ROOT / "content/courses/pytorch/26_ddp_gloo.md"
FENCES = {
    fence.id: fence
    for fence in scan.file(PAGE, ROOT / "content").fences
    if downloads.address(fence)
}
USES_DISTLAB = [name for name, fence in FENCES.items() if "distlab" in fence.code]
"""These run in new interpreters without our path, so that Python finds the zip's own distlab."""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1")
"""A port that the system chooses, and no look-up of this host's name."""


@pytest.fixture(scope="module")
def unzipped(tmp_path_factory):
    """Write the zip as a build does, and unpack it in an empty folder."""
    place = tmp_path_factory.mktemp("reader")
    executions = [executor.Execution(f, f.code, None, None, False, 0) for f in FENCES.values()]
    downloads.write(executions, ROOT, place / "public")
    with zipfile.ZipFile(next(place.rglob("*.zip"))) as archive:
        archive.extractall(place)
    return place / PAGE.stem


def started(launcher, folder, *command):
    """Run a Python command where a reader unpacked it, without our PYTHONPATH."""
    script = f"cd {folder}; unset PYTHONPATH; exec {shlex.join([sys.executable, *command])}"
    program = Program(script, shell="bash", timeout=HANG)  # noqa: S604
    return launcher.run(program).ranks[0]


def test_the_zip_holds_every_fence_the_lab_and_the_pins(unzipped):
    names = {path.name for path in unzipped.iterdir()}

    assert names == {LAB.name, "fences", "requirements.txt", "constraints.txt", "README.txt"}
    assert {path.stem for path in (unzipped / "fences").glob("*.py")} == set(FENCES)
    assert "torch==2.8.0" in (unzipped / "requirements.txt").read_text()


@pytest.mark.parametrize("name", [name for name in FENCES if name not in USES_DISTLAB])
def test_a_file_ends_as_its_fence_declares(unzipped, launcher, name):
    fence, text = FENCES[name], (unzipped / f"fences/{name}.py").read_text()
    program = fence.program(text)
    outcome = launcher.run(replace(program, name=f"{name}.py"))

    assert judge(fence, outcome, text) is None, outcome


@pytest.mark.parametrize("name", [*USES_DISTLAB, "first-run"])
def test_a_file_runs_as_its_first_line_says(unzipped, launcher, name):
    first, _, _ = (unzipped / f"fences/{name}.py").read_text().partition("\n")
    _, program, *options = first.split()
    torchrun = TORCHRUN if program == "torchrun" else ()
    done = started(launcher, unzipped / "fences", *torchrun, *options)

    assert options[-1] == f"{name}.py"
    assert done.exit == 0, done


def test_the_lab_runs_from_the_zip(unzipped, launcher):
    done = started(launcher, unzipped, LAB.name, "--start-method", "forkserver")

    assert done.stdout.splitlines()[-1].startswith("ok: ")
