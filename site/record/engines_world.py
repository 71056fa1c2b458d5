"""Where the page "Engines" plays: two hosts with Slurm, a laptop with Ray, two hosts with neither.

All are worlds as in hosts: everything is inside namespaces that end with their PID 1, which
ends with whoever called. The daemons of Slurm, of munge and of Ray die with it, and so do their
files, because every folder that they write to is a private file system.

Slurm changes users and groups as it starts a job, which a user namespace forbids: its world needs
the right of root. Ray's does not.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import shutil
from pathlib import Path

from press.project import COURSE
from record import hosts_world
from record.hosts_world import HOSTS, NAMES, NAMESPACES, Host, Machine, run
from record.scenario import Admin, Done, Ran, Scenario, unpack
from tools import needs

SCRIPTS = {".conf", ".py", ".sbatch", ".sh"}
SHOWN = sorted(path for path in (COURSE / "engines").iterdir() if path.suffix in SCRIPTS)
PROGRAMS = ("code/26_ddp_gloo.py", *(f"engines/{path.name}" for path in SHOWN))
AS_ROOT = [word for word in NAMESPACES if word not in {"--user", "--map-root-user"}] + ["--ipc"]
PRIVATE = ("/run", "/var/log", "/var/spool", "/var/lib/munge", "/etc/slurm", "/etc/munge")
IDLE = "until [ $(sinfo -h -N -t idle -o %N | wc -l) = 2 ]; do sleep 0.1; done"
LAPTOP = Host("laptop", "127.0.0.1", "lo")
UP = (  # how the cluster is started: host, command
    ("nodeA", "munged --force"),
    ("nodeA", "slurmctld"),
    ("nodeA", "slurmd"),
    ("nodeB", "slurmd"),
)
DEADLINE = 400  # seconds that a scenario may take


def is_slurm(scenario: Scenario) -> bool:
    """Tell whether a scenario is played on two hosts with Slurm."""
    return scenario.name.startswith("slurm-")


def is_ray(scenario: Scenario) -> bool:
    """Tell whether a scenario is played on the laptop; the others have two hosts without Slurm."""
    return scenario.name.startswith("ray-")


def play(scenario: Scenario, deadline: float = DEADLINE) -> list[Ran | Done]:
    """Play a scenario; see hosts_world.play."""
    namespaces = AS_ROOT if is_slurm(scenario) else NAMESPACES
    return hosts_world.play(scenario, deadline, __name__, namespaces)


def lacking(scenario: Scenario) -> str:
    """Return what this machine lacks to play a scenario, and how to get it; "" if nothing."""
    engine = scenario.name.partition("-")[0]
    return needs.lacking(engine) or no_package(engine) or no_world(engine)


def no_package(engine: str) -> str:
    """Return which Python package is not installed; "" if all are."""
    packages = {"slurm": "py-spy", "ray": "ray"}
    if engine in packages and not any(importlib.metadata.distributions(name=packages[engine])):
        return f"{packages[engine]} is not installed: `nox -s engines` installs it"
    return ""


@functools.cache
def no_world(engine: str) -> str:
    """Return why no world without commands can be made for an engine; "" if one can."""
    if engine != "slurm":
        return hosts_world.no_world()
    try:
        play(Scenario("slurm-empty", ()), deadline=60)
    except RuntimeError as error:
        return " ".join(str(error).split())
    return ""


# ---- Inside: this process is PID 1 of the world --------------------------------------------------


def be_init() -> None:
    """Fork: the child goes on; PID 1 buries what ends, as an init does, and ends with the child.

    Ray takes a process that nobody buried for one that lives.
    """
    if child := os.fork():
        ended, status = os.wait()
        while ended != child:
            ended, status = os.wait()
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def inside(packed: str) -> None:
    """Be PID 1 of a world: start what the scenario needs, play it, print the log as JSON, end."""
    scenario = unpack(packed)
    if not scenario.name.endswith("no-init"):
        be_init()
    hosts_world.end_with_caller(DEADLINE + 10)
    if is_ray(scenario):
        hosts_world.mount_disks(f"127.0.0.1 localhost {LAPTOP.name}\n")
        machines = [Machine(LAPTOP, PROGRAMS)]
    else:
        hosts_world.mount_disks(NAMES)
        machines = [Machine(host, PROGRAMS) for host in HOSTS]
        hosts_world.connect(machines)
    if is_slurm(scenario):
        prepare_cluster()
        starts_it_itself = any(isinstance(step, Admin) for step in scenario.steps)
        if not starts_it_itself:
            start_cluster(machines)
    hosts_world.perform(scenario, machines)


def prepare_cluster() -> None:
    """Give Slurm and munge private folders, a key and the configuration of the page."""
    for folder in filter(os.path.isdir, PRIVATE):
        run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder])
    for folder in ("/run/munge", "/var/log/munge", "/var/spool/slurmctld"):
        Path(folder).mkdir()
    key = Path("/etc/munge/munge.key")
    key.touch(0o400)
    key.write_bytes(os.urandom(128))
    shutil.copy(COURSE / "engines/slurm.conf", "/etc/slurm")


def start_cluster(machines: list[Machine]) -> None:
    """Start Slurm and wait until both nodes are idle."""
    for name, command in (*UP, ("nodeA", IDLE)):
        machine = next(one for one in machines if one.host.name == name)
        run(machine.enter("sh", "-c", command))
