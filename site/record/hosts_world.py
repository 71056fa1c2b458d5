"""Two hosts on one machine: namespaces joined by a cable, and a scenario played on them.

A world is a user, PID, mount and network namespace. In it two hosts have a network namespace and a
host name of their own, and a pair of virtual Ethernet devices between them. Nothing has a name
outside, so nothing can be left behind: when PID 1 ends the kernel kills all processes of the world,
and with the last one its interfaces, rules and files (a private /dev/shm) are gone. PID 1 ends when
its stdin does, which the caller holds: so a caller that is killed takes the world with it.

No right of root is used: the kernel must let users make namespaces.
"""

from __future__ import annotations

import functools
import json
import os
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from distlab.spmd import processes
from press.project import COURSE
from record.scenario import (
    Admin,
    Done,
    Finish,
    Pause,
    Ran,
    Scenario,
    Start,
    Step,
    Until,
    pack,
    unpack,
)
from tools import needs
from tools.watch import eventually

DISK = Path("/dev/shm")  # noqa: S108, in a world it is a file system of its own
PROGRAMS = ("code/26_ddp_gloo.py", "launching/train.py", "launching/environment.py")
NAMESPACES = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]
INSIDE = "import sys, {0}; {0}.inside(sys.argv[1])"
DEADLINE = 240  # seconds that a scenario may take; the longest needs about 100


@dataclass(frozen=True)
class Host:
    """A host: its name, its address, and what it calls its end of the cable."""

    name: str
    address: str
    interface: str


HOSTS = (Host("nodeA", "10.66.0.1", "eth0"), Host("nodeB", "10.66.0.2", "enp1s0"))
NAMES = "127.0.0.1 localhost\n" + "".join(f"{host.address} {host.name}\n" for host in HOSTS)


# ---- Outside -------------------------------------------------------------------------------------


def play(
    scenario: Scenario,
    deadline: float = DEADLINE,
    module: str = __name__,
    namespaces: Sequence[str] = NAMESPACES,
) -> list[Ran | Done]:
    """Play a scenario in a world of its own; return what was done and what came of it, in order.

    module:     whose `inside` is PID 1 of the world
    namespaces: options of unshare, beside those for mounts, network and host name

    Raises RuntimeError if the world could not be made or did not end by the deadline.
    """
    with _open_world(scenario, module, namespaces) as world:
        try:
            log, errors = _talk(world, deadline)
        except subprocess.TimeoutExpired:
            world.kill()
            raise RuntimeError(f"{scenario.name}: not over after {deadline} s; ended") from None
    if world.returncode:
        raise RuntimeError(f"{scenario.name}: the world failed: {errors.strip()[-2000:]}")
    return [_read(entry) for entry in json.loads(log)]


def _open_world(scenario: Scenario, module: str, namespaces: Sequence[str]) -> subprocess.Popen:
    code = INSIDE.format(module)
    inside = [sys.executable, "-c", code, pack(scenario)]
    return subprocess.Popen(
        ["unshare", *namespaces, "--mount", "--net", "--uts", *inside],
        stdin=subprocess.PIPE,  # never written to: its end is the end of the world
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"DISTLAB_HOSTS": os.environ.get("DISTLAB_HOSTS", str(os.getpid()))},
    )


def _talk(world: subprocess.Popen, deadline: float) -> tuple[str, str]:
    """Read both pipes to their ends, while stdin stays open (communicate() would close it)."""
    held, world.stdin = world.stdin, None
    try:
        return world.communicate(timeout=deadline)
    finally:
        held.close()


def _read(entry: dict) -> Ran | Done:
    step = entry.pop("step")
    if "output" not in entry:
        return Done(Admin(**step), **entry)
    return Ran(Start(**step | {"says": tuple(step["says"])}), **entry)


def lacking() -> str:
    """Return what this machine lacks for two hosts, and how to get it; "" if nothing."""
    return needs.lacking("hosts") or no_world()


@functools.cache
def no_world() -> str:
    """Return why no empty world can be made here; "" if one can."""
    try:
        play(Scenario("empty", ()), deadline=30)
    except RuntimeError as error:
        return " ".join(str(error).split())
    return ""


# ---- Inside: this process is PID 1 of the world --------------------------------------------------


def end_with_caller(deadline: float) -> None:
    """End the world when stdin ends, or after the deadline."""

    def watch() -> None:
        select.select([0], [], [], deadline)
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()


def run(command: list[str]) -> None:
    """Run a command of the machinery; raise RuntimeError with what it said if it fails."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)}: {ended.stderr.strip()}")


class Machine:
    """A running host."""

    def __init__(self, host: Host, programs: Sequence[str] = PROGRAMS) -> None:
        self.host = host
        self.disk = DISK / host.name
        self.disk.mkdir()
        for program in programs:
            shutil.copy(COURSE / program, self.disk)
        setup = f"echo {host.name} >/proc/sys/kernel/hostname; ip link set lo up; echo up; exec cat"
        self.init = subprocess.Popen(
            ["unshare", "--net", "--uts", "sh", "-ec", setup],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        if self.init.stdout.readline() != b"up\n":
            raise RuntimeError(f"{host.name} did not come up")

    def enter(self, *command: str) -> list[str]:
        """Return the command line that runs a command on this host."""
        return ["nsenter", f"--target={self.init.pid}", "--net", "--uts", "--", *command]

    def environment(self) -> dict[str, str]:
        """Return what a command finds in its environment: little, so that the page shows all."""
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self.disk),
            "TMPDIR": str(self.disk),
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "DISTLAB_HOSTS": os.environ.get("DISTLAB_HOSTS", ""),
        }


def connect(machines: list[Machine]) -> None:
    """Lay the cable and give both ends an address."""
    (a, b), kind = machines, "veth"
    run(["ip", "link", "add", a.host.interface, "netns", str(a.init.pid), "type", kind,
         "peer", "name", b.host.interface, "netns", str(b.init.pid)])  # fmt: skip
    for machine in machines:
        host = machine.host
        run(machine.enter("ip", "addr", "add", f"{host.address}/24", "dev", host.interface))
        run(machine.enter("ip", "link", "set", host.interface, "up"))


class Command:
    """A command that runs on a host; its output is collected while it runs."""

    def __init__(self, step: Start, machine: Machine, began: float) -> None:
        self.step, self.began, self.start, self.lines = step, began, time.monotonic(), []
        self.exit, self.seconds = None, 0.0
        self.process = subprocess.Popen(
            machine.enter("sh", "-c", step.command),
            cwd=machine.disk,
            env=machine.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line)

    def has_ended(self) -> bool:
        """Tell whether it has, and note how."""
        if self.exit is None and self.process.poll() is not None:
            self.exit, self.seconds = self.process.returncode, time.monotonic() - self.start
        return self.exit is not None

    def end(self) -> None:
        """Kill it and what it started, unless it has ended."""
        if not self.has_ended():
            self.seconds = time.monotonic() - self.start
            processes.kill_tree(self.process.pid)
            self.process.wait()
        self.reader.join(timeout=5)

    def result(self) -> Ran:
        """Return what came of it."""
        output = "".join(self.lines)
        return Ran(self.step, output, self.exit, round(self.began, 1), round(self.seconds, 1))


class Play:
    """Takes the steps of a scenario one by one and keeps the log."""

    def __init__(self, machines: list[Machine]) -> None:
        self.machines = {machine.host.name: machine for machine in machines}
        self.start = time.monotonic()
        self.log: list[Command | Done] = []

    def commands(self) -> list[Command]:
        """Return the commands so far."""
        return [entry for entry in self.log if isinstance(entry, Command)]

    def all_have_ended(self) -> bool:
        """Tell whether no command runs; ask each, so that the end of each is noted in time."""
        return not [c for c in self.commands() if not c.has_ended()]

    def take(self, step: Step) -> None:
        """Take one step."""
        now = time.monotonic() - self.start
        match step:
            case Start():
                self.log.append(Command(step, self.machines[step.host], now))
            case Admin():
                run(self.machines[step.host].enter("sh", "-c", step.command))
                self.log.append(Done(step, round(now, 1)))
            case Until():
                last = [c for c in self.commands() if c.step.host == step.host][-1]
                said = lambda: any(step.text in line for line in [*last.lines])  # noqa: E731
                eventually(lambda: said() or last.has_ended(), step.seconds)
            case Pause():
                time.sleep(step.seconds)
            case Finish():
                eventually(self.all_have_ended, step.seconds)
                for command in self.commands():
                    command.end()


def mount_disks(names: str) -> None:
    """Give the world a file system of its own for its hosts' disks, and a hosts file."""
    run(["mount", "-t", "tmpfs", "tmpfs", str(DISK)])
    hosts_file = DISK / "hosts"
    hosts_file.write_text(names)
    run(["mount", "--bind", str(hosts_file), "/etc/hosts"])


def perform(scenario: Scenario, machines: list[Machine]) -> None:
    """Take all steps of a scenario, print the log as JSON, end the world."""
    play = Play(machines)
    for step in scenario.steps:
        play.take(step)
    log = [entry.result() if isinstance(entry, Command) else entry for entry in play.log]
    print(json.dumps([asdict(entry) for entry in log]), flush=True)
    os._exit(0)  # without clean-up: the kernel's is complete


def inside(packed: str) -> None:
    """Be PID 1 of a world: make the hosts, play the scenario, print the log as JSON, end."""
    end_with_caller(DEADLINE + 10)  # the caller's own deadline comes first
    scenario = unpack(packed)
    mount_disks(NAMES if scenario.names else "127.0.0.1 localhost\n")
    machines = [Machine(host) for host in HOSTS]
    connect(machines)
    perform(scenario, machines)
