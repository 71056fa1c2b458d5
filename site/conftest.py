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


SLOW_FIXTURES = {"copy_of_site", "outcomes", "tour", "search", "fences_executor"}
"""What builds a site, or runs a course's programs by the hundred."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer `--quick`, a run between two edits."""
    text = "leave out what builds a site, runs labs or takes long (marker slow)"
    parser.addoption("--quick", action="store_true", help=text)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow, if asked for."""
    if config.getoption("--quick"):
        slow = [item for item in items if is_slow(item)]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in set(slow)]


def is_slow(item: pytest.Item) -> bool:
    """Tell whether a test is slow; the tests of labs are, and cannot say so without pytest."""
    marked = item.get_closest_marker("slow") is not None
    of_a_lab = item.path.name.startswith("test_pytorch_")
    return marked or of_a_lab or bool(SLOW_FIXTURES & set(item.fixturenames))


@pytest.fixture(scope="session")
def launcher():
    """Start the fork server that most tests run their programs on."""
    with spmd.Launcher() as shared:
        yield shared


@pytest.fixture
def copy_of_site(tmp_path):
    """Copy the site into an empty folder."""
    return Site(tmp_path)
