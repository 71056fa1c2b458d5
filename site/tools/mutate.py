"""Break each claim of a page on purpose and see the build refuse it: `nox -s mutate`.

A mutation changes one place of one fence (`mutations.py` of its module). The mutant runs as the
build would run it and is judged as the build would judge it; one that still ends as declared has
survived, which fails the session: its fence does not prove what the page says.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import Future
from pathlib import Path

from distlab.spmd import Launcher, Outcome
from press import modules, scan
from press.fences import Fence, judge
from press.project import CONTENT, links


def fences_of(page: Path) -> dict[str, Fence]:
    """Return the fences of a page by their ids."""
    return {fence.id: fence for fence in scan.file(page, CONTENT).fences}


def mutant(mutation, fence: Fence | None) -> str:
    """Return the changed text. Raises ValueError if the mutation does not fit the page."""
    if fence is None:
        raise ValueError(
            f"{mutation.fence}: no such fence on the page; rename the mutation's fence"
        )
    count = fence.code.count(mutation.old)
    if count != 1:
        raise ValueError(
            f"{mutation.fence} ({mutation.claim}): {mutation.old!r} stands {count} times in the "
            "fence; quote a text that stands there once"
        )
    return fence.code.replace(mutation.old, mutation.new)


def survives(fence: Fence, code: str, running: Future[Outcome]) -> bool:
    """Tell whether a mutant ended as its fence declares."""
    return judge(fence, running.result(), code) is None


def main() -> int:
    """Run the mutants of the named modules; print the survivors; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fence", default="", help="only the mutations of this fence")
    chosen = parser.parse_args().fence
    killed, survivors = 0, []
    with Launcher() as launcher:
        submitted = []
        for module in modules.everything():
            fences = fences_of(module.page)
            for mutation in module.load("mutations").MUTATIONS:
                if chosen in ("", mutation.fence):
                    fence = fences.get(mutation.fence)
                    code = mutant(mutation, fence)
                    future = launcher.submit(fence.program(code, links()))
                    submitted.append((mutation, fence, code, future))
        if not submitted:
            parser.error(f"--fence {chosen!r}: no mutation names it")
        for mutation, fence, code, future in submitted:
            if survives(fence, code, future):
                survivors.append(f"{fence.at} ({fence.id}): {mutation.claim}")
            else:
                killed += 1
    for survivor in survivors:
        print(f"survived: {survivor}")
    print(f"{killed} mutants killed, {len(survivors)} survived")
    return int(bool(survivors))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:
        sys.exit(f"mutate: {error}")
