"""What a session needs of this machine, looked for before its first second of work.

    python -I site/tools/needs.py NAME ...     # what is lacking, in a sentence; exit status 1

Installs Debian's packages where it may. Knows only the standard library, because nox's own Python
runs it, before there is an environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--uts", "true")
SYSTEMD = Path("/run/systemd/system")
TORCH = 8  # gigabytes of torch's default wheel on Linux with the libraries that it asks for
SMALL = 1  # of the wheel without a GPU's libraries


@dataclass(frozen=True)
class Need:
    """What something needs.

    linux:      its /proc, or its namespaces
    programs:   programs by name, and the Debian package of each
    namespaces: the right to make them
    root:       why the right of root is needed, or ""
    daemons:    whether a package brings daemons, which Debian starts at once where systemd runs
    torch:      free disk for an installation of torch: "first" if there is none yet, or "another"
    """

    linux: bool = False
    programs: dict[str, str] = field(default_factory=dict)
    namespaces: bool = False
    root: str = ""
    daemons: bool = False
    torch: str = ""


TWO_HOSTS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2"}
SLURM = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client", "munged": "munge"}
NEEDS = {
    "build": Need(torch="first"),
    "browser": Need(programs={"chromium": "chromium"}),
    "hosts": Need(True, TWO_HOSTS | {"nft": "nftables"}, namespaces=True),
    "slurm": Need(True, TWO_HOSTS | SLURM, root="slurmd starts jobs of other users", daemons=True),
    "ray": Need(True, TWO_HOSTS, namespaces=True),
    "kubernetes": Need(True, TWO_HOSTS, namespaces=True),
    "soak": Need(True),
    "drift": Need(torch="another"),
}


def lacking(name: str) -> str:
    """Return what a session lacks on this machine, and how to get it, a sentence; "" if nothing."""
    need = NEEDS[name]
    if need.linux and sys.platform != "linux":
        return "this needs Linux: run it in a container, or in a virtual machine"
    if need.root and os.geteuid() != 0:
        return f"{need.root}, which needs the right of root: run it as root, in a container say"
    if packages := absent(need):
        programs = [program for program in need.programs if not which(program)]
        known = "apt-get install " + " ".join(packages)
        return f"{', '.join(programs)} not installed: {known} (as root; names of Debian's packages)"
    if need.namespaces and (said := refused()):
        return f"this machine lets no user make namespaces ({said}): ask its administrator"
    return no_room(need.torch) if need.torch else ""


def which(program: str) -> str | None:
    """Return where a program is; the browser may be another than Debian's."""
    return shutil.which((program == "chromium" and os.environ.get("CHROMIUM")) or program)


def absent(need: Need) -> list[str]:
    """Return the Debian packages of the programs that are not there."""
    return sorted({package for name, package in need.programs.items() if not which(name)})


def refused() -> str:
    """Return what the kernel said when asked for namespaces; "" if it gave them."""
    try:
        asked = subprocess.run(UNSHARE, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return " ".join(asked.stderr.split()) if asked.returncode else ""


def no_room(torch: str) -> str:
    """Return that the disk is too full for the first torch, or another one; "" if it is not."""
    if torch == "first" and any(ROOT.glob(".nox/*/lib/python*/site-packages/torch")):
        return ""
    needed = SMALL if os.environ.get("UV_TORCH_BACKEND") == "cpu" else TORCH
    free = shutil.disk_usage(ROOT).free / 1e9
    if free >= needed:
        return ""
    instead = "" if needed == SMALL else ", or set UV_TORCH_BACKEND=cpu for a tenth of it"
    return f"installing torch takes {needed} GB and {free:.1f} GB are free: make room{instead}"


def install(name: str) -> None:
    """Install the packages of what is not there, where apt-get is and may; else do nothing."""
    packages = absent(NEEDS[name])
    held = NEEDS[name].daemons and SYSTEMD.exists()
    if not packages or held or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    print(f"installing {', '.join(packages)}", file=sys.stderr, flush=True)
    words = ("install", "--yes", "--no-install-recommends", *packages)
    for command in (("update",), words):
        subprocess.run(["apt-get", "-qq", *command], stdout=subprocess.DEVNULL, check=False)


def main(names: Iterable[str]) -> int:
    """Install what can be, say what is still lacking; return the exit status."""
    names = list(names)
    if unknown := [name for name in names if name not in NEEDS]:
        print(f"{unknown[0]!r} is no session's need; known are {', '.join(NEEDS)}")
        return 2
    for name in names:
        install(name)
        if lack := lacking(name):
            print(f"{name}: {lack}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
