"""The doctor: each check is made to fail on a machine that we make up, and the cure is run."""

import errno
import importlib.metadata
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from distlab.doctor import __main__ as doctor
from distlab.doctor import checks
from distlab.doctor.checks import Check
from press.project import ROOT

CODE = ROOT / "code"


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def not_installed(name: str) -> str:
    raise importlib.metadata.PackageNotFoundError(name)


def unresolvable(name: str, _: object) -> list:
    raise socket.gaierror(-2, "Name or service not known")


def ptr_only(name: str, _: object) -> list:
    """Know every name but the one that a reverse look-up returns."""
    return unresolvable(name, None) if name.endswith(".arpa") else []


def stall(*_: object, **__: object) -> None:
    time.sleep(30)


def disk(free: int = 1 << 40, total: int = 1 << 40):
    return lambda _: SimpleNamespace(free=free, total=total)


class LostKeys:
    """A store that forgets."""

    libuvBackend = True  # noqa: N815 -- torch's own spelling

    def __init__(self, **_: object) -> None:
        pass

    def set(self, *_: object) -> None:
        """Keep nothing."""

    def get(self, _: object) -> bytes:
        """Return nothing."""
        return b""


SICK = {
    "old Python": (lambda: checks.check_python((3, 10, 2)), "3.10.2", "3.11"),
    "new Python": (lambda: checks.check_python((3, 14, 0)), "3.14.0", "3.11"),
    "no torch": (lambda: checks.check_torch(not_installed), "not installed", "pip install"),
    "other torch": (lambda: checks.check_torch(lambda _: "2.80.1"), "2.80.1", "torch==2.8"),
    "no gloo": (lambda: checks.check_gloo(lambda: False), "not in this build", "wheel"),
    "host name without address": (
        lambda: checks.check_host_name("nosuch", unresolvable), "nosuch: ", "--local-addr"),
    "host name whose full name has none": (
        lambda: checks.check_host_name("pc", ptr_only, lambda _: "1.0.ip6.arpa"),
        "pc, in full 1.0.ip6.arpa: ", "--local-addr"),
    "name server that does not answer": (
        lambda: checks.check_host_name("pc", stall, limit=0.2), "no answer within 0.2 s", "hosts"),
    "no loopback": (
        lambda: checks.check_interface("", lambda: [(1, "eth0")]), "has eth0", "ip link"),
    "wrong interface": (
        lambda: checks.check_interface("eth7", lambda: [(1, checks.LOOPBACK)]),
        "GLOO_SOCKET_IFNAME=eth7", "unset GLOO_SOCKET_IFNAME"),
    "no port": (lambda: checks.check_port(refuse), "Permission denied", "firewall"),
    "port that swallows": (
        lambda: checks.check_port(stall, limit=0.2), "no answer within", "firewall"),
    "no such start method": (
        lambda: checks.check_start_method("nosuch"), "nosuch: cannot find", "ulimit"),
    "child that does not come": (
        lambda: checks.check_start_method("spawn", limit=0), "the child is stuck", "ulimit"),
    "store that cannot be made": (
        lambda: checks.check_store(refuse, "1"), "Permission denied", "USE_LIBUV=0"),
    "store that forgets": (lambda: checks.check_store(LostKeys, "1"), "lost a key", "USE_LIBUV=0"),
    "store that stalls": (
        lambda: checks.check_store(stall, "1", limit=0.2), "no answer within", "USE_LIBUV=0"),
    "too many threads": (
        lambda: checks.check_cores(4, cores=8, omp="4"), "OMP_NUM_THREADS=4", "=2"),
    "threads that are no number": (
        lambda: checks.check_cores(4, cores=2, omp="many"), "OMP_NUM_THREADS=many", "=1"),
    "temp directory that is not there": (
        lambda: checks.check_temp("/proc/nowhere"), "/proc/nowhere: No such file", "TMPDIR"),
    "temp directory that is full": (
        lambda: checks.check_temp(usage=disk(free=1 << 20)), "1 MiB free", "TMPDIR"),
}  # fmt: skip


@pytest.mark.parametrize("sickness", SICK)
def test_each_check_fails_on_a_machine_that_has_what_it_looks_for(sickness):
    """A failing line gives the value, the rule and the next step."""
    examine, value, todo = SICK[sickness]
    check = examine()

    assert check.state == "FAIL", check
    assert value in check.value
    assert todo in check.todo
    assert check.rule


HEALTHY = {
    "Python": lambda: checks.check_python((3, 12, 1)),
    "torch": lambda: checks.check_torch(lambda _: "2.8.0+cpu"),
    "gloo": lambda: checks.check_gloo(lambda: True),
    "host name": lambda: checks.check_host_name("pc", lambda *_: [], lambda _: "pc.home"),
    "interface": lambda: checks.check_interface("", lambda: [(1, checks.LOOPBACK)]),
    "chosen interface": lambda: checks.check_interface(
        f"{checks.LOOPBACK},eth0", lambda: [(1, checks.LOOPBACK), (2, "eth0")]
    ),
    "port": checks.check_port,
    "start method": lambda: checks.check_start_method("fork"),
    "cores": lambda: checks.check_cores(4, cores=8, omp="2"),
    "threads not set": lambda: checks.check_cores(4, cores=4, omp=""),
    "temp directory": lambda: checks.check_temp(usage=disk()),
    "shared memory": lambda: checks.check_shared_memory(usage=disk()),
}


@pytest.mark.parametrize("part", HEALTHY)
def test_each_check_passes_on_a_machine_without_it(part):
    check = HEALTHY[part]()

    assert check.state == "ok", check


NOTED = {
    "more ranks than cores": lambda: checks.check_cores(4, cores=2, omp=""),
    "torchrun's port is taken": lambda: checks.check_default_port(refuse),
    "little shared memory": lambda: checks.check_shared_memory(usage=disk(total=64 << 20)),
}


@pytest.mark.parametrize("drawback", NOTED)
def test_what_works_with_a_drawback_is_noted_and_fails_nothing(drawback):
    check = NOTED[drawback]()

    assert check.state == "note"
    assert check.todo
    assert doctor.command([check], 2)


def test_a_stalled_name_server_does_not_stall_the_doctor():
    told = threading.Event()
    check = checks.check_host_name("pc", lambda *_: told.wait(60), limit=0.1)

    assert check.state == "FAIL"  # and not what the name server said in the end
    told.set()


def test_a_container_s_quota_counts_as_its_cores(tmp_path):
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert checks.usable_cores(tmp_path / "cpu.max") == 1

    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert checks.usable_cores(tmp_path / "cpu.max") == checks.usable_cores(tmp_path / "none")


def test_the_command_works_around_what_can_be_worked_around():
    sick = [
        SICK["host name without address"][0](),
        SICK["wrong interface"][0](),
        SICK["too many threads"][0](),
    ]
    line = doctor.command(sick, 4)

    assert line.startswith(f"GLOO_SOCKET_IFNAME={checks.LOOPBACK} OMP_NUM_THREADS=2 ")
    assert line.endswith(" --standalone --local-addr=127.0.0.1 --nproc-per-node=4 train.py")


def test_no_command_is_promised_where_none_can_work(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "examine", lambda _: [checks.check_torch(not_installed)])

    assert doctor.diagnose(2, attempt=False) == 1
    assert "No command works" in capsys.readouterr().out


def test_the_torchrun_of_another_environment_is_not_named(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: "/elsewhere/bin/torchrun")

    assert doctor.command([], 2).startswith(f"{sys.executable} -m torch.distributed.run ")


def test_the_table_shows_the_rule_and_the_next_step_of_what_fails_alone():
    good, bad = Check("a", "ok", "fine", "R1", "N1"), Check("b", "FAIL", "broken", "R2", "N2")
    text = doctor.table([good, bad])

    assert [word in text for word in ("R1", "N1", "R2", "N2")] == [False, False, True, True]


def run(*args: str, before: tuple[str, ...] = (), **env: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*before, sys.executable, "-m", "distlab.doctor", *args],
        env=os.environ | {"PYTHONPATH": str(CODE)} | env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_on_this_machine_the_printed_command_runs():
    done = run("--nproc", "2", "--try")
    failing = re.search(r"\bFAIL\b", done.stdout)

    assert "Tried: all_reduce over 2 ranks counted 2" in done.stdout, done.stdout + done.stderr
    assert done.returncode == (1 if failing else 0)


@pytest.mark.slow
def test_on_a_sick_machine_the_printed_command_runs_and_the_plain_one_does_not(tmp_path):
    """The host name leads nowhere, GLOO_SOCKET_IFNAME names no interface, TMPDIR no folder."""
    unshare = shutil.which("unshare") or "unshare"
    sick = (unshare, "--uts", "sh", "-c", 'hostname nosuch.invalid && exec "$0" "$@"')
    try:
        subprocess.run([*sick, "true"], check=True, capture_output=True, timeout=200)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("only root can give a process another host name")
    env = {"GLOO_SOCKET_IFNAME": "eth7", "TMPDIR": str(tmp_path / "nowhere")}
    done = run("--nproc", "2", "--try", before=sick, **env)

    assert done.returncode == 1
    assert "Tried: all_reduce over 2 ranks counted 2" in done.stdout, done.stdout + done.stderr
    plain = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    (tmp_path / "train.py").write_text(doctor.PROBE)
    command = [*sick, "timeout", "-k", "5", "600", *plain, str(tmp_path / "train.py")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        stalled = any("addresses of (nosuch.invalid" in line for line in process.stderr)
        process.terminate()
    assert stalled


@pytest.mark.parametrize("nproc", ["0", "-3", "1000", "two"])
def test_a_number_of_ranks_that_cannot_be_gets_a_sentence_and_status_2(nproc):
    done = run("--nproc", nproc)

    assert done.returncode == 2
    assert "--nproc" in done.stderr
    assert "Traceback" not in done.stderr
