"""The lab of module 26, run as a reader runs it: in both ways, with every start method.

python site/test_pytorch_26_ddp_gloo.py     # needs torch, not pytest
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

LAB = Path(__file__).parents[1] / "content/courses/pytorch/code/26_ddp_gloo.py"
WAYS = ("naive", "DDP", "no_sync")


HANG = 300  # seconds: a lab of eight ranks takes about 20 alone, and many times that beside others


def run(command: list, timeout: float = HANG, **options) -> subprocess.CompletedProcess:
    """Run a command in a session of its own; at the deadline nothing of that session survives."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, **options
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"no end after {timeout} s: {command}\n{out}\n{err}") from None
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def prove(command: list, world_size: int = 2) -> None:
    """Run the lab and check what it claims against the numbers that it reports."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lab.json"
        done = run([*command, "--json", path])

        assert done.returncode == 0, done.stdout + done.stderr
        result = json.loads(path.read_text())
        assert list(Path(folder).iterdir()) == [path]
    first = result["ranks"][0]
    assert [name for name, passed, _ in result["checks"] if not passed] == []
    assert len(first["collectives"]) >= 8
    assert all(first["collectives"].values())
    assert len(result["ranks"]) == world_size
    for way in WAYS:
        assert first["apart"][way] <= 1e-12
        assert first["identical"][way] is True
    if world_size > 1:
        assert first["apart"]["control"] > 1e-3
        assert len(set(first["start"])) == world_size
    assert all(hook["buckets"] >= 1 for hook in first["hooks"].values())
    assert done.stdout.splitlines()[-1].startswith("ok: ")
    assert "[Gloo]" not in done.stdout
    assert "Traceback" not in done.stderr


def lab(*options: str) -> list:
    return [sys.executable, LAB, *options]


def test_ranks_that_the_lab_spawns():
    prove(lab())


def test_ranks_that_a_fork_server_starts():
    prove(lab("--start-method", "forkserver"))


def test_ranks_that_torchrun_starts():
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    address = ["--local-addr=127.0.0.1", "--nproc_per_node=2"]  # no look-up of this host's name

    prove([*torchrun, *address, LAB, "--torchrun"])


def test_every_world_size_gives_the_full_batch_result():
    for world_size in (1, 3, 4, 8):
        options = ("--start-method", "forkserver", "--world-size", str(world_size))

        prove(lab(*options), world_size)


if __name__ == "__main__":
    tests = [test for name, test in list(globals().items()) if name.startswith("test_")]
    for test in tests:
        test()
        print(f"passed: {test.__name__}", flush=True)
    print(f"ok: {len(tests)} tests of {LAB.name} passed")
