"""Break each claim of a page on purpose and see the build refuse it: `nox -s mutate`.

A mutation changes one place of one fence (`mutations.py` of its module). The mutant runs as the
build would run it and is judged as the build would judge it; one that still ends as declared has
survived, which fails the session: its fence does not prove what the page says.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import Future
from pathlib import Path

from distlab.spmd import Launcher, Outcome
from modules.parts import Mutation
from press import modules, scan
from press.fences import Fence
from press.judge import judge
from press.modules import Module
from press.progress import Progress
from press.project import CONTENT, links


def fences_of(page: Path) -> dict[str, Fence]:
    """Return the fences of a page by their ids."""
    return {fence.id: fence for fence in scan.file(page, CONTENT).fences}


def mutant(mutation: Mutation, fence: Fence | None) -> str:
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


def chosen(fence: str) -> list[tuple[Module, Mutation]]:
    """Return the mutations of a fence, "ring" or "MODULE/ring"; all of all modules for "".

    Raises ValueError if none names it.
    """
    number, given, name = fence.rpartition("/")
    found = [
        (module, mutation)
        for module in modules.everything()
        for mutation in module.load("mutations").MUTATIONS
        if name in ("", mutation.fence) and (not given or number == module.number)
    ]
    if not found:
        raise ValueError(f"--fence {fence!r}: no mutation names it; write ID, or MODULE/ID")
    return found


def main() -> int:
    """Run the chosen mutants; print the survivors; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fence", default="", help="only those of this fence: ID, or MODULE/ID")
    wanted = chosen(parser.parse_args().fence)
    fences = {module: fences_of(module.page) for module, _ in wanted}
    killed, survivors = Counter(), []
    with Launcher() as launcher, Progress("mutants", len(wanted)) as progress:
        submitted = []
        for module, mutation in wanted:
            fence = fences[module].get(mutation.fence)
            code = mutant(mutation, fence)
            future = launcher.submit(fence.program(code, links()))
            submitted.append((module, mutation, fence, code, future))
            progress.follow(f"{fence.id} ({mutation.claim})", future)
        for module, mutation, fence, code, future in submitted:
            alive = survives(fence, code, future)
            killed[module] += not alive
            if alive:
                survivors.append(f"{fence.at} ({module.number}/{fence.id}): {mutation.claim}")
    for survivor in survivors:
        print(f"survived: {survivor}")
    for module, number in killed.items():
        print(f"module {module.number}: {number} mutants killed")
    print(progress.summary())
    print(f"{killed.total()} mutants killed, {len(survivors)} survived")
    return int(bool(survivors))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:
        sys.exit(f"mutate: {error}")
