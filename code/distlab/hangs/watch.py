"""Inside each rank: a thread that writes down, in time, where the rank stands.

Python's signal handlers do not run while the main thread is blocked in C, as it is in a stuck
collective, so a thread does it: at the appointed second it writes the Flight Recorder's dump and
the main thread's stack into the folder. A process that ends by itself writes them as it leaves.

Its orders are in one environment variable, so that the ranks that a script spawns by itself are
watched as well; `preload/sitecustomize.py` arms it there.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import sys
import threading
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

ORDERS = "DISTLAB_HANGS"
"""The environment variable that holds the orders, as JSON."""

ARMED = ".armed_"
"""A process that is watched and has not written yet has a file of this name and its number."""

BEGUN = ".begun"
"""The time of this file is when the first process was armed; all share this clock."""


@dataclass(frozen=True)
class Orders:
    """What a rank is to do.

    folder: where it writes
    after:  seconds from the first process' start at which it writes
    quiet:  seconds before that at which it looks first, to tell stuck from slow
    script, args, cwd: the program, its arguments and the folder it is started in
    alone:  the script is started once and starts its ranks itself
    """

    folder: str
    after: float
    quiet: float
    script: str
    args: tuple[str, ...]
    cwd: str
    alone: bool

    def to_environment(self) -> str:
        """Return the value of the environment variable."""
        return json.dumps(asdict(self))


def orders() -> Orders | None:
    """Return this process' orders, None when it is not watched."""
    text = os.environ.get(ORDERS)
    return Orders(**json.loads(text)) if text else None


def arm(given: Orders) -> None:
    """Start watching this process; a second call does nothing."""
    folder = Path(given.folder)
    if not _mark(folder / f"{ARMED}{os.getpid()}"):
        return
    _mark(folder / BEGUN)
    begun = (folder / BEGUN).stat().st_mtime
    threading.Thread(target=_wait, args=(given, begun), daemon=True, name="distlab.hangs").start()
    atexit.register(_write, given, ended=True)


def arm_child() -> None:
    """Start watching this interpreter if a script that starts its ranks itself has started it.

    The children of a launched rank are no ranks, and would write under its name.
    """
    given = orders()
    if given and given.alone:
        arm(given)
        os.register_at_fork(after_in_child=lambda: _arm_fork(given))


def _arm_fork(given: Orders) -> None:
    # A DataLoader's worker inherits its rank's group.
    dist = sys.modules.get("torch.distributed")
    if not (dist and dist.is_initialized()):
        arm(given)


def _mark(path: Path) -> bool:
    """Create an empty file; False if it is there already."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _wait(given: Orders, begun: float) -> None:
    _sleep_until(begun + given.after - given.quiet)
    calls, stack = _progress(), _stack()
    _sleep_until(begun + given.after)
    busy = _stack() != stack
    # Before the first collective, a rank that is at work moves the job on.
    moved = busy if calls is None else _progress() != calls
    _write(given, moved=moved, busy=busy)


def _sleep_until(when: float) -> None:
    time.sleep(max(0.0, when - time.time()))


def _progress() -> object:
    """Return what differs as soon as a collective is issued or ends; None before the first."""
    trace = _trace(includeCollectives=False, includeStackTraces=False)
    if trace is None:
        return None
    from distlab.hangs.dumps import load_plain

    return load_plain(trace).get("pg_status") or None


def _trace(**parts: bool) -> bytes | None:
    c10d = sys.modules.get("torch._C._distributed_c10d")
    if c10d is None:
        return None
    # To name the recorded lines, torch asks itself for torch._inductor, and so imports it, which
    # takes many seconds. Unless it is loaded it has compiled nothing, and need not be asked.
    torch = sys.modules["torch"]
    hidden = {"_inductor"} if "torch._inductor" not in sys.modules else set()
    torch._lazy_modules.difference_update(hidden)
    try:
        return c10d._dump_fr_trace(**parts)
    finally:
        torch._lazy_modules.update(hidden)


def _write(given: Orders, *, ended: bool = False, moved: bool = False, busy: bool = False) -> None:
    standing = _standing() | {"ended": ended, "moved": moved, "busy": busy}
    rank, folder = standing["rank"], Path(given.folder)
    stem = f"process_{os.getpid()}" if rank is None else f"rank_{rank}"
    if ended and (folder / f"{stem}.json").exists():
        return  # it was stuck at the appointed second and got away since
    _put(folder / f"{stem}.json", json.dumps(standing).encode())
    trace = _trace()
    if trace and rank is not None:
        _put(folder / f"{stem}.pickle", trace)
    (folder / f"{ARMED}{os.getpid()}").unlink(missing_ok=True)


def _put(path: Path, data: bytes) -> None:
    # Under another name first: the reader never finds half a file.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        draft.rename(path)
    except OSError:
        pass  # the run is over and its folder gone


def _standing() -> dict:
    rank, world_size, groups = _groups()
    return {
        "rank": rank,
        "world_size": world_size,
        "command": " ".join(sys.argv),
        "groups": groups,
        "stack": _stack(),
    }


def _stack() -> list[tuple]:
    frame = sys._current_frames().get(threading.main_thread().ident)
    stack = traceback.extract_stack(frame) if frame else []
    return [(f.filename, f.lineno, f.name, f.line or "") for f in reversed(stack)]


def _groups() -> tuple[int | None, int | None, dict]:
    """Return rank, world size and groups; without a group, what the launcher said."""
    dist = sys.modules.get("torch.distributed")
    if not (dist and dist.is_available() and dist.is_initialized()):
        rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
        known = rank.isdecimal() and size.isdecimal()
        return (int(rank), int(size), {}) if known else (None, None, {})
    world = dist.distributed_c10d._world
    groups = {
        world.pg_names[group]: (group.group_desc, sorted(ranks))
        for group, ranks in list(world.pg_group_ranks.items())
        if isinstance(group, dist.ProcessGroup)  # and not the mark of a group we are not in
    }
    return dist.get_rank(), dist.get_world_size(), groups


def run_script() -> None:
    """Run the ordered script as `python SCRIPT ARGS` would, watched."""
    given = orders()
    if given.alone:
        # Not at the top: every interpreter that the script starts imports this module.
        from distlab.spmd import torchrun

        for name in torchrun.NAMES:
            os.environ.pop(name, None)
        arm_child()
    else:
        arm(given)
    os.chdir(given.cwd)
    sys.argv[:] = [given.script, *given.args]
    sys.path[0] = str(Path(given.script).parent)
    if dist := sys.modules.get("torch.distributed"):
        # A forked rank has imported torch before it had this environment.
        dist.set_debug_level_from_env()
    runpy.run_path(given.script, run_name="__main__")
