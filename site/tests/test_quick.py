"""`nox -s tests -- --quick` leaves out what builds the site or runs a lab, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from press.project import ROOT

BUILDS = "site/tests/press/test_builds.py::test_a_warm_build_imports_no_torch_and_starts_no_server"
LAB = "site/test_pytorch_26_ddp_gloo.py::test_every_world_size_gives_the_full_batch_result"
FENCE = "site/tests/press/test_builds.py::test_the_difference_of_two_builds_is_told_with_its_lines"


def collected(*options: str) -> str:
    """Return the names of the tests that would run, out of three."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, BUILDS, LAB, FENCE]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize(("options", "left"), [((), [BUILDS, LAB, FENCE]), (("--quick",), [FENCE])])
def test_a_quick_run_builds_no_site_and_runs_no_lab(options, left):
    said = collected(*options)

    assert [name for name in (BUILDS, LAB, FENCE) if name in said] == left
