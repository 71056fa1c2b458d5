"""What the tests share: one fork server, and copies of the site to build."""

from __future__ import annotations

import signal

import pytest

from distlab import spmd
from distlab.spmd import processes
from tools.site_copy import Site

processes.die_with_caller()
# A shell's & has Ctrl-C ignored, in whatever the tests start and interrupt as well.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def launcher():
    """Start the fork server that most tests run their programs on."""
    with spmd.Launcher() as shared:
        yield shared


@pytest.fixture
def copy_of_site(tmp_path):
    """Copy the site into an empty folder."""
    return Site(tmp_path)
