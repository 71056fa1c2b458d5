"""Run a script that knows nothing of this on watched ranks, and bring back what they wrote."""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass
from pathlib import Path

from distlab import spmd
from distlab.hangs import watch
from distlab.hangs.dumps import Folder, Frame, RankDump, Standing, read_folder
from distlab.spmd import texts, torchrun

PRELOAD = Path(__file__).parent / "preload"
CODE = Path(__file__).parents[2]
BUFFER = "2000"
"""Calls that the recorder keeps of each rank, unless the caller's environment says otherwise."""

QUIET = 2.0
"""Seconds without a new or an ended collective after which a job counts as stuck, at most."""

MARGIN = 5.0
"""Seconds that ranks have to write what they know before they are ended."""

# The run's own, or another run's.
NOT_PASSED_ON = frozenset((*torchrun.NAMES, "TMPDIR", "PYTHONPATH", "PYTHONHASHSEED",
                           "DISTLAB_RUN", watch.ORDERS, "PWD", "OLDPWD"))  # fmt: skip


@dataclass(frozen=True)
class Watched:
    """A watched run, over: what its ranks wrote, and how it ended.

    outcome: None when it was stopped as soon as every rank had written where it stood
    stuck:   ranks were still running at the appointed second
    moving:  ... and their collectives went on in the seconds before
    """

    folder: Folder
    outcome: spmd.Outcome | None
    stuck: bool
    moving: bool


def watched(
    script: Path,
    args: tuple[str, ...],
    *,
    nproc: int | None,
    after: float,
    start: str,
    keep: Path | None = None,
) -> Watched:
    """Run `script` on `nproc` ranks (None: once, as it starts its ranks itself) for `after` s.

    Returns by `after` + 10 s. Raises ValueError for a number of ranks that cannot be, OSError
    when `keep` cannot be written, LauncherError.
    """
    with spmd.Launcher() as launcher:
        folder = launcher.folder / "hangs"
        folder.mkdir()
        orders = _orders(folder, script, args, alone=nproc is None, after=after)
        running = launcher.submit(_program(orders, 1 if nproc is None else nproc, start))
        while not (running.done() or _all_have_written(folder, after)):
            time.sleep(0.05)
        written = read_folder(folder)
        if running.done() or not _still_there(written):
            outcome = running.result()
            written = read_folder(folder)
        else:
            outcome = None
        if keep:
            _keep(folder, keep)
    there = _still_there(written)
    if outcome and nproc:
        written = with_stacks(written, outcome)
    stuck = bool(there) or (outcome is not None and outcome.cause == "deadline")
    return Watched(written, outcome, stuck, any(standing.moved for standing in there))


def _orders(
    folder: Path, script: Path, args: tuple[str, ...], *, alone: bool, after: float
) -> watch.Orders:
    return watch.Orders(
        folder=str(folder),
        after=after,
        quiet=min(QUIET, after / 3),
        script=str(script.resolve()),
        args=args,
        cwd=str(Path.cwd()),
        alone=alone,
    )


def _program(orders: watch.Orders, ranks: int, start: str) -> spmd.Program:
    env = environment() | {watch.ORDERS: orders.to_environment()}
    return spmd.Program(
        "from distlab.hangs import watch\n\nwatch.run_script()\n",
        ranks=ranks,
        timeout=orders.after + MARGIN,
        start=start,
        name="watched.py",
        env=tuple(env.items()),
    )


def _all_have_written(folder: Path, after: float) -> bool:
    begun = folder / watch.BEGUN
    if not begun.exists() or time.time() < begun.stat().st_mtime + after:
        return False
    return not any(folder.glob(f"{watch.ARMED}*"))


def environment() -> dict[str, str]:
    """Return what a watched rank finds: the caller's own environment, and the recorder on."""
    passed = {key: value for key, value in os.environ.items() if key not in NOT_PASSED_ON}
    path = [str(PRELOAD), str(CODE), os.environ.get("PYTHONPATH", "")]
    return (
        {"TORCH_FR_BUFFER_SIZE": BUFFER}
        | passed
        | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
    )


def _keep(folder: Path, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("rank_*"):
        (keep / path.name).write_bytes(path.read_bytes())


def with_stacks(folder: Folder, outcome: spmd.Outcome) -> Folder:
    """Return the folder with the stacks of ranks that could not write any themselves.

    Such a rank holds the interpreter in C; the runner has its stack from a signal.
    """
    dumps = {dump.rank: dump for dump in folder.ranks}
    for rank in outcome.ranks:
        dump = dumps.get(rank.rank, RankDump(rank.rank))
        frames = tuple(
            Frame(match["path"], int(match["line"]), match["name"])
            for match in texts.FRAME.finditer(rank.stack)
        )
        if dump.standing is None and frames:
            standing = Standing(rank.rank, len(outcome.ranks), stack=frames)
            dumps[rank.rank] = dataclasses.replace(dump, standing=standing)
    return dataclasses.replace(folder, ranks=tuple(dumps[rank] for rank in sorted(dumps)))


def _still_there(folder: Folder) -> list[Standing]:
    """Return the processes that had not ended at the appointed second."""
    told = [dump.standing for dump in folder.ranks if dump.standing]
    return [standing for standing in (*told, *folder.others) if not standing.ended]
