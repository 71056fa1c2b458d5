"""Every fence of every page ends as it declares; what is cached from a build is not run again."""

from __future__ import annotations

import pytest

from press import executor, scan
from tools.site_copy import ROOT

SCAN = scan.folder(ROOT / "content")


@pytest.fixture(scope="module")
def fences_executor():
    """Submit every fence at once, so that waiting overlaps waiting."""
    executing = executor.Executor(ROOT)
    executing.prefetch(SCAN.fences)
    yield executing
    executor.close_shared_launcher()


def test_every_header_can_be_read():
    assert [str(problem) for problem in SCAN.problems] == []
    assert SCAN.fences


@pytest.mark.parametrize("fence", SCAN.fences, ids=lambda fence: f"{fence.at}[{fence.id}]")
def test_a_fence_ends_as_it_declares(fences_executor, fence):
    if fence.code is None:
        pytest.skip("includes a snippet, which only a build expands")

    assert str(fences_executor.execute(fence, fence.code).problem or "") == ""


def test_what_was_executed_is_known_afterwards(fences_executor):
    """A warm build after this one runs nothing: no fence changes what another has read."""
    known = executor.Executor(ROOT).known
    fences = [fence for fence in SCAN.fences if fence.code is not None]
    for fence in fences:
        fences_executor.execute(fence, fence.code)

    assert len(fences) > 100
    assert [fence.name for fence in fences if known(fence, fence.code) is None] == []
