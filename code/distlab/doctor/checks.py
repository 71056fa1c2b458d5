"""The checks: each a small function whose dealings with the machine are parameters.

A test makes each of them fail by handing it another machine. None waits longer than a few seconds,
however long a name server would.
"""

from __future__ import annotations

import importlib.metadata
import multiprocessing
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

LIMIT = 5.0
"""Seconds that a name look-up, a port or a store may take before it counts as stalled."""

CHILD_LIMIT = 30.0
"""Seconds that a new interpreter may take to start and leave."""

PYTHONS = ((3, 11), (3, 13))
TORCH = "2.8"
TORCHRUN_PORT = 29500
FREE_BYTES = 256 << 20
SHARED_BYTES = 64 << 20
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
T = TypeVar("T")


@dataclass(frozen=True)
class Check:
    """One line of the table.

    state:  "ok", "note" (works, with a drawback) or "FAIL"
    value:  what was found; rule: what must hold; todo: the next step
    env:    the assignment that works around it in the command, as "GLOO_SOCKET_IFNAME=lo"
    option: the option of torchrun that works around it
    """

    name: str
    state: str
    value: str
    rule: str = ""
    todo: str = ""
    env: str = ""
    option: str = ""

    @property
    def blocks(self) -> bool:
        """Whether no command line can work around it."""
        return self.state == "FAIL" and not (self.env or self.option)


def within(limit: float, work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises; TimeoutError after `limit` seconds."""
    results: list[tuple[T | None, Exception | None]] = []

    def run() -> None:
        try:
            results.append((work(), None))
        except Exception as error:
            results.append((None, error))

    thread = threading.Thread(target=run, daemon=True)  # a look-up in C cannot be stopped
    thread.start()
    thread.join(limit)
    if not results:
        raise TimeoutError(f"no answer within {limit:g} s")
    value, error = results[0]
    if error:
        raise error
    return value


def check_python(version: tuple[int, ...] = sys.version_info) -> Check:
    """Check the interpreter's version."""
    low, high = PYTHONS
    running = ".".join(map(str, version[:3]))
    if low <= tuple(version[:2]) <= high:
        return Check("Python", "ok", running)
    rule = f"the course runs on Python {low[0]}.{low[1]} to {high[0]}.{high[1]}"
    todo = f"make an environment with it: uv venv --python {low[0]}.{low[1]}"
    return Check("Python", "FAIL", running, rule, todo)


def check_torch(version: Callable[[str], str] = importlib.metadata.version) -> Check:
    """Check that torch is installed, of the release that every page was run with."""
    try:
        installed = version("torch")
    except importlib.metadata.PackageNotFoundError:
        installed = "not installed"
    if installed == TORCH or installed.startswith(f"{TORCH}."):
        return Check("torch", "ok", installed)
    rule = f"every output of the course was printed by torch {TORCH}"
    return Check("torch", "FAIL", installed, rule, f'pip install "torch=={TORCH}.*"')


def check_gloo(available: Callable[[], bool] | None = None) -> Check:
    """Check that this torch was built with the CPU backend."""
    try:
        if available is None:
            from torch.distributed import is_gloo_available as available
        if available():
            return Check("gloo", "ok", "available")
        value = "not in this build of torch"
    except ImportError as error:
        value = f"torch cannot be imported: {error}"
    todo = "install torch from its wheel, which has gloo on Linux, macOS and Windows"
    return Check("gloo", "FAIL", value, "the ranks of a CPU talk through gloo", todo)


def check_host_name(
    name: str | None = None,
    resolve: Callable = socket.getaddrinfo,
    fully: Callable[[str], str] = socket.getfqdn,
    limit: float = LIMIT,
) -> Check:
    """Check that this machine's name, and what a reverse look-up makes of it, lead to addresses.

    torchrun --standalone meets under the latter; a name without an address,
    as the ip6.arpa name of a PTR record, makes the rendezvous try again for ever.
    """
    name = socket.gethostname() if name is None else name
    value, begun = name, time.monotonic()
    try:
        within(limit, lambda: resolve(name, None))
        full = within(limit, lambda: fully(name))
        value = name if full == name else f"{name}, in full {full}"
        within(limit, lambda: resolve(full, None))
    except (OSError, UnicodeError) as error:
        value += f": {error}"
    else:
        took = time.monotonic() - begun
        return Check("host name", "ok", value + (f", after {took:.1f} s" if took > 1 else ""))
    rule = "torchrun --standalone meets under this name, so it must lead to an address"
    todo = f"add '127.0.0.1 {name}' to /etc/hosts, or pass --local-addr=127.0.0.1"
    return Check("host name", "FAIL", value, rule, todo, option="--local-addr=127.0.0.1")


def check_interface(
    wanted: str | None = None, interfaces: Callable[[], list] = socket.if_nameindex
) -> Check:
    """Check the loopback interface, and the one that GLOO_SOCKET_IFNAME names."""
    wanted = os.environ.get("GLOO_SOCKET_IFNAME", "") if wanted is None else wanted
    names = [name for _, name in interfaces()]
    here = f"this machine has {', '.join(names) or 'none'}"
    if LOOPBACK not in names:
        todo = f"bring it up: ip link set {LOOPBACK} up"
        return Check("interface", "FAIL", here, f"ranks on one machine meet on {LOOPBACK}", todo)
    unknown = [name for name in wanted.split(",") if name and name not in names]
    if unknown:
        value = f"GLOO_SOCKET_IFNAME={wanted}"
        todo = f"unset GLOO_SOCKET_IFNAME, or set it to {LOOPBACK}"
        rule = f"gloo binds the interface it names; {here}"
        return Check("interface", "FAIL", value, rule, todo, env=f"GLOO_SOCKET_IFNAME={LOOPBACK}")
    chosen = f"GLOO_SOCKET_IFNAME={wanted}" if wanted else ", ".join(names)
    return Check("interface", "ok", chosen)


def check_port(listen: Callable = socket.create_server, limit: float = LIMIT) -> Check:
    """Check that a free port on 127.0.0.1 can be bound, connected to, and heard on."""

    def exchange() -> int:
        with listen(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port), limit) as client:
                peer, _ = server.accept()
                with peer:
                    client.sendall(b"?")
                    if peer.recv(1) != b"?":
                        raise OSError("what was sent did not arrive")
        return port

    try:
        within(limit, exchange)
    except OSError as error:
        rule = "the ranks and their store talk through ports of 127.0.0.1"
        todo = "allow connections to 127.0.0.1 in the firewall or the container's settings"
        return Check("port", "FAIL", str(error), rule, todo)
    return Check("port", "ok", "a free port of 127.0.0.1 was bound, connected to and heard on")


def check_default_port(listen: Callable = socket.create_server) -> Check:
    """Look whether the port that torchrun takes without --standalone is free."""
    name = f"port {TORCHRUN_PORT}"
    try:
        listen(("127.0.0.1", TORCHRUN_PORT)).close()
    except OSError as error:
        todo = "keep --standalone, which takes a free port, or pass --master-port"
        rule = "torchrun without --standalone listens there"
        return Check(name, "note", f"taken ({error.strerror or error})", rule, todo)
    return Check(name, "ok", "free")


def check_start_method(method: str = "spawn", limit: float = CHILD_LIMIT) -> Check:
    """Check that a child process can be started the way mp.spawn starts ranks."""
    rule = "mp.spawn starts each rank in a new interpreter"
    todo = "look at ulimit -u, at a container's limit of processes, and at free memory"
    try:
        child = multiprocessing.get_context(method).Process(target=os.getpid, daemon=True)
        child.start()
        child.join(limit)
    except (OSError, ValueError, RuntimeError) as error:
        return Check("start method", "FAIL", f"{method}: {error}", rule, todo)
    if child.exitcode != 0:
        child.kill()
        said = "is stuck" if child.exitcode is None else f"ended with status {child.exitcode}"
        return Check("start method", "FAIL", f"{method}: the child {said}", rule, todo)
    default = multiprocessing.get_all_start_methods()[0]
    return Check("start method", "ok", f"{default} by default; a child by {method} came and left")


def check_store(
    make: Callable | None = None, use: str | None = None, limit: float = LIMIT
) -> Check:
    """Check that a TCPStore of the backend that env:// takes (libuv) keeps and returns a key."""
    use = os.environ.get("USE_LIBUV", "1") if use is None else use

    def exchange() -> bool:
        store = (make or _tcp_store)(use_libuv=use != "0")
        store.set("doctor", "here")
        if store.get("doctor") != b"here":
            raise RuntimeError("the store lost a key")
        return store.libuvBackend

    try:
        libuv = within(limit, exchange)
    except (ImportError, OSError, RuntimeError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        rule = "the ranks find each other through a TCPStore, by default of the libuv backend"
        todo = "run with USE_LIBUV=0; if that fails too, mend the lines above"
        return Check("TCPStore", "FAIL", first, rule, todo, env="USE_LIBUV=0" * (use != "0"))
    if libuv:
        return Check("TCPStore", "ok", "libuv")
    todo = "unset USE_LIBUV, unless you have a reason"
    return Check("TCPStore", "note", "without libuv", "libuv is the default", todo)


def _tcp_store(*, use_libuv: bool) -> object:
    from torch.distributed import TCPStore

    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=use_libuv)


def usable_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return the cores that this process may use: its affinity, or a container's quota."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        allowed, period = quota.read_text().split()
        cores = min(cores, max(1, int(allowed) // int(period)))
    except (OSError, ValueError):
        pass  # no such file, or "max"
    return cores


def check_cores(nproc: int, cores: int | None = None, omp: str | None = None) -> Check:
    """Check that the ranks' threads fit on the cores."""
    cores = usable_cores() if cores is None else cores
    omp = os.environ.get("OMP_NUM_THREADS", "") if omp is None else omp
    value = f"{cores} cores, {nproc} ranks, OMP_NUM_THREADS={omp or 'not set'}"
    rule = "ranks x OMP_NUM_THREADS should not exceed the cores"
    fits = max(1, cores // nproc)
    if omp and not (omp.isdecimal() and int(omp) > 0):
        todo = f"export OMP_NUM_THREADS={fits}"
        return Check("cores", "FAIL", value, "OMP_NUM_THREADS is a whole number from 1", todo,
                     env=f"OMP_NUM_THREADS={fits}")  # fmt: skip
    threads = int(omp or 1)  # torchrun sets 1 where nothing is set
    if threads > 1 and nproc * threads > cores:
        todo = f"export OMP_NUM_THREADS={fits}"
        return Check("cores", "FAIL", value, rule, todo, env=f"OMP_NUM_THREADS={fits}")
    if nproc > cores:
        return Check("cores", "note", value, rule, "right results, but the ranks take turns")
    return Check("cores", "ok", value)


def check_temp(folder: str | None = None, usage: Callable = shutil.disk_usage) -> Check:
    """Check that the temp directory takes files. TMPDIR is checked as set: Python falls back."""
    folder = os.environ.get("TMPDIR") or tempfile.gettempdir() if folder is None else folder
    rule = f"ranks, stores and DataLoader workers need {FREE_BYTES >> 20} MiB of writable space"
    spare = f"TMPDIR={tempfile.gettempdir()}" if folder != tempfile.gettempdir() else ""
    todo = f"export {spare}" if spare else "free some space, or export TMPDIR=/another/folder"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"?" * 4096)
            file.flush()
        free = usage(folder).free
    except OSError as error:
        value = f"{folder}: {error.strerror or error}"
        return Check("temp directory", "FAIL", value, rule, todo, env=spare)
    if free < FREE_BYTES:
        return Check("temp directory", "FAIL", f"{folder}, {free >> 20} MiB free", rule, todo)
    return Check("temp directory", "ok", f"{folder}, more than {FREE_BYTES >> 20} MiB free")


def check_shared_memory(folder: str = "/dev/shm", usage: Callable = shutil.disk_usage) -> Check:  # noqa: S108
    """Look for the space through which DataLoader workers hand over batches."""
    try:
        size = usage(folder).total
    except OSError:
        return Check("shared memory", "ok", f"no {folder} on this system")
    if size > SHARED_BYTES:
        return Check("shared memory", "ok", f"{folder}, {size >> 20} MiB")
    rule = "a DataLoader worker that finds it full dies of a bus error"
    todo = "start the container with --shm-size=1g, or use num_workers=0"
    return Check("shared memory", "note", f"{folder}, {size >> 20} MiB", rule, todo)


def examine(nproc: int) -> list[Check]:
    """Run every check on this machine, those that others build on first."""
    return [
        check_python(),
        check_torch(),
        check_gloo(),
        check_host_name(),
        check_interface(),
        check_port(),
        check_default_port(),
        check_start_method(),
        check_store(),
        check_cores(nproc),
        check_temp(),
        check_shared_memory(),
    ]
