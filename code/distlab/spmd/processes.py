"""Find and end processes: the few things Linux offers that Python's standard library does not.

On a system without prctl and /proc the calls do nothing; process groups still end what a rank
started in its own session.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
MADV_COLLAPSE = 25
HUGE = 2 << 20
LINUX = sys.platform == "linux"
LIBC = ctypes.CDLL(None)  # once: a rank that looked for it again would copy pages to do so


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent` ends; end at once if it already has."""
    if LINUX:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends."""
    if LINUX:
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def use_huge_pages() -> None:
    """Have this process' memory mapped in pages of 2 MiB, so that a fork copies a shorter table.

    A fork of a process that holds torch takes half the time then. Nothing happens where the kernel
    (before 6.1) or the memory does not allow it.
    """
    if not LINUX:
        return
    for line in Path("/proc/self/maps").read_text().splitlines():
        ends, rights, _, _, inode, *_ = line.split()
        begin, end = (int(each, 16) for each in ends.split("-"))
        if inode == "0" and rights.startswith("rw"):
            for page in range(-(-begin // HUGE) * HUGE, end - HUGE + 1, HUGE):
                LIBC.madvise(ctypes.c_void_p(page), ctypes.c_size_t(HUGE), MADV_COLLAPSE)


def idle_seconds() -> float:
    """Return the seconds that this machine's cores have had nothing to do, all together."""
    try:
        ticks = int(Path("/proc/stat").read_text().split(maxsplit=5)[4])
    except OSError:
        return 0.0
    return ticks / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """Return the direct children of a process, started by any of its threads."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, path.read_text().split())
        except OSError:
            continue  # the thread or the process ended meanwhile
    return found


def descendants(pid: int) -> Iterator[int]:
    """Yield the children of a process and theirs, parents first."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def everyone() -> list[int]:
    """Return the ids of all processes that can be seen."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def command(pid: int) -> str:
    """Return the command line of a process, "" if it is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").strip()
    except OSError:
        return ""


def carries(pid: int, folder: Path, mark: str) -> bool:
    """Tell whether a process works in `folder`, writes there, or has `mark` in its environment."""
    for name in ("cwd", "fd/1", "fd/2"):
        try:
            if Path(f"/proc/{pid}/{name}").readlink().is_relative_to(folder):
                return True
        except OSError:
            continue
    try:
        return mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def send(pid: int, signum: int, *, group: bool = False) -> None:
    """Signal a process or its group; one that is gone is no error."""
    try:
        (os.killpg if group else os.kill)(pid, signum)
    except (ProcessLookupError, PermissionError):
        pass


def kill_tree(pid: int) -> None:
    """Kill a process and all its descendants, in whatever sessions they are."""
    # Stopped first, so that the tree cannot grow while it is walked.
    send(pid, signal.SIGSTOP)
    family = [pid, *descendants(pid)]
    for member in family:
        send(member, signal.SIGKILL)


def die_with_caller() -> None:
    """End with the process whose id is in DISTLAB_PARENT, if it is our parent (see noxfile.py)."""
    parent = os.environ.pop("DISTLAB_PARENT", "")
    if parent.isdigit() and int(parent) == os.getppid():
        die_with_parent(int(parent))
