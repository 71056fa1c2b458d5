"""The lab of module 26 must fail when it should: broken copies, broken ranks, bad input."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from distlab import spmd
from distlab.spmd import processes
from test_pytorch_26_ddp_gloo import HANG, LAB, run

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds ranks in /proc")

MUTANTS = {  # what was broken: (in the lab, in the copy, the check that must notice)
    "set_epoch forgotten": (
        "loader.sampler.set_epoch(epoch)",
        "pass",
        "epochs differ",
    ),
    "reduce_scatter AVG": (
        "dist.reduce_scatter_tensor(out, x, op=dist.ReduceOp.SUM)",
        "dist.reduce_scatter_tensor(out, x, op=dist.ReduceOp.AVG)",
        "reduce_scatter asks SUM",
    ),
    "reduce_scatter MAX": (
        "dist.reduce_scatter_tensor(out, x, op=dist.ReduceOp.SUM)",
        "dist.reduce_scatter_tensor(out, x, dist.ReduceOp.MAX)",
        "reduce_scatter asks SUM",
    ),
    "one seed on all ranks": (
        "make_net(args.seed + 1 + rank)",
        "make_net(args.seed + 1)",
        "ranks start apart",
    ),
    "float32": (
        "torch.set_default_dtype(torch.float64)",
        "torch.set_default_dtype(torch.float32)",
        "naive = full batch",
    ),
    "forward outside no_sync": (
        "    with net.no_sync():",
        "    first = F.mse_loss(net(x1), y1) / 2\n"
        "    with net.no_sync():\n        first.backward()\n    if False:",
        "no_sync syncs once a step",
    ),
    "no no_sync": (
        "with net.no_sync():",
        "if True:",
        "no_sync syncs once a step",
    ),
    "no broadcast": (
        "dist.broadcast(parameter.data, src=0)",
        "pass",
        "naive replicas",
    ),
    "a sum instead of a mean": (
        "parameter.grad.div_(dist.get_world_size())",
        "pass",
        "naive = full batch",
    ),
    "one gradient not reduced": (
        "for parameter in net.parameters():\n        dist.all_reduce(parameter.grad)",
        "for parameter in [*net.parameters()][1:]:\n        dist.all_reduce(parameter.grad)",
        "naive replicas",
    ),
    "micro-batches not weighted": (
        "(F.mse_loss(net(x2), y2) / 2).backward()",
        "F.mse_loss(net(x2), y2).backward()",
        "no_sync = full batch",
    ),
    "a control that cheats": (
        "plain_step(control, sgd[3], x, y)",
        "control.load_state_dict(nets[0].state_dict())",
        "control differs",
    ),
    "an OR for the AND": (
        "dist.all_reduce(flags, op=dist.ReduceOp.MIN)",
        "dist.all_reduce(flags, op=dist.ReduceOp.MAX)",
        "MIN of flags is AND",
    ),
    "SUM for AVG": ("op=getattr(dist.ReduceOp, op)", "op=dist.ReduceOp.SUM", "all_reduce AVG"),
    "broadcast from another rank": ("src=p - 1", "src=0", "broadcast"),
    "ring into another tensor": ("dist.irecv(x,", "dist.irecv(x.clone(),", "isend/irecv ring"),
    "one rank's flag false": (
        'good["broadcast"] = torch',
        'good["broadcast"] = rank != 1 and torch',
        "broadcast",
    ),
}


def mutate(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write a copy of the lab in which each old text, found exactly once, is the new text."""
    source = LAB.read_text()
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    copy = folder / "lab.py"
    copy.write_text(source)
    return copy


def forkserver(lab: Path, *options: str) -> list:
    return [sys.executable, lab, "--start-method", "forkserver", *options]


def verdict(launcher: spmd.Launcher, lab: Path) -> str:
    """Run a copy on two ranks, as torchrun's (a fork is 20 times faster); return its last line."""
    source = f"""
import runpy, sys
sys.argv = [{str(lab)!r}, "--torchrun"]
runpy.run_path({str(lab)!r}, run_name="__main__")
"""
    first, *_ = launcher.run(spmd.Program(source, ranks=2, timeout=HANG)).ranks
    assert first.stdout, first.stderr
    return first.stdout.splitlines()[-1]


@pytest.mark.parametrize(("old", "new", "check"), MUTANTS.values(), ids=MUTANTS)
def test_a_broken_copy_fails_by_the_name_of_the_check(launcher, tmp_path, old, new, check):
    last = verdict(launcher, mutate(tmp_path, (old, new)))

    assert last.startswith("FAILED: ")
    assert check in last.removeprefix("FAILED: ").partition(" (world size")[0].split(", ")


def test_an_unbroken_copy_passes_in_the_same_way(launcher, tmp_path):
    assert verdict(launcher, mutate(tmp_path)).startswith("ok: ")


def test_a_diverging_training_fails_by_name():
    done = run(forkserver(LAB, "--lr", "1.0"))

    assert (done.returncode, done.stderr) == (1, "")
    assert "FAILED: training is stable (" in done.stdout.splitlines()[-1]


def test_nan_is_a_failure_and_valid_json(tmp_path):
    done = run(forkserver(LAB, "--lr", "1000", "--steps", "60", "--json", tmp_path / "lab.json"))

    result = json.loads((tmp_path / "lab.json").read_text(), parse_constant=pytest.fail)
    assert (done.returncode, result["ok"]) == (1, False)
    assert result["ranks"][0]["apart"]["naive"] is None


BAD_INPUT = {
    "no rank": ["--world-size", "0"],
    "a negative number of ranks": ["--world-size", "-1"],
    "a word": ["--world-size", "two"],
    "too many ranks": ["--world-size", "100000"],
    "no step": ["--steps", "0"],
    "half a step": ["--steps", "0.5"],
    "lr nan": ["--lr", "nan"],
    "lr negative": ["--lr", "-0.1"],
    "lr infinite": ["--lr", "inf"],
    "negative seed": ["--seed", "-1"],
    "json in no folder": ["--json", "/no-such-folder/lab.json"],
    "json is a folder": ["--json", "/"],
    "json is a device": ["--json", "/dev/null"],
    "json in a folder that takes no file": ["--json", "/proc/lab.json"],
    "json is a file that cannot be replaced": ["--json", "/proc/version"],
    "torchrun without torchrun": ["--torchrun"],
    "no such start method": ["--start-method", "fork"],
    "no such option": ["--worldsize", "2"],
}


def assert_one_sentence(done: subprocess.CompletedProcess, value: str):
    assert (done.returncode, done.stdout) == (2, "")
    [sentence] = done.stderr.splitlines()
    assert value in sentence


@pytest.mark.parametrize("options", BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_refused_in_one_sentence(options):
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}

    done = run([sys.executable, LAB, *options], env=environment)

    assert_one_sentence(done, options[-1])


AS_A_USER = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] * (os.geteuid() == 0)
"""Root may write everywhere; so started, it may not. Another user may not reach its Python."""


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_read_only_json_path_is_refused(tmp_path, what):
    path = tmp_path / "lab.json"
    path.write_text("old")
    (path if what == "file" else tmp_path).chmod(0o555)

    done = run([*AS_A_USER, sys.executable, LAB, "--json", path])

    tmp_path.chmod(0o755)
    assert_one_sentence(done, str(path))
    assert path.read_text() == "old"


KEPT = """
import os, sys, torch, torch.distributed as dist
if {early}:
    import torch.distributed.nn.functional
alone = len(os.listdir("/proc/self/task"))
dist.init_process_group("gloo")
torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1)  # imports it, if nobody has
dist.barrier()
dist.destroy_process_group()
print(len(os.listdir("/proc/self/task")) - alone)
"""


@pytest.mark.parametrize("early", [True, False])
def test_a_group_outlives_its_end_in_default_values_that_are_evaluated_after_its_beginning(
    launcher, early
):
    """Source: torch/distributed/nn/functional.py, `group=group.WORLD` in every signature."""
    program = spmd.Program(KEPT.format(early=early), ranks=2, start="fresh", timeout=HANG)
    left = [int(rank.stdout.splitlines()[-1]) for rank in launcher.run(program).ranks]

    assert left == [0, 0] if early else min(left) > 0


def test_the_lab_ends_the_threads_of_its_group(launcher):
    """A thread of gloo that meets the end of the interpreter aborts the rank, now and then."""
    source = f"""
import atexit, os, runpy, sys
sys.argv = [{str(LAB)!r}, "--torchrun"]
atexit.register(lambda: print(len(os.listdir("/proc/self/task")), file=sys.stderr))
runpy.run_path({str(LAB)!r}, run_name="__main__")
"""
    program = spmd.Program(source, ranks=2, start="fresh", timeout=HANG)
    left = [rank.stderr.splitlines()[-1] for rank in launcher.run(program).ranks]

    assert left == ["2", "2"]  # its own, and the one that watches the parent


# ---- Ranks that are killed, stopped, or raise ----------------------------------------------------

IMPATIENT = ("GROUP_TIMEOUT = 60 ", "GROUP_TIMEOUT = 15 ")  # ranks of a busy machine start apart
LEAVE = 60  # seconds: it takes about one alone, and what is left here would train for years
STEP = "        naive_step(nets[0]"
MARK = (STEP, f"        Path(__file__ + '.on').touch()\n{STEP}")
ENDLESS = ("--steps", "1000000000")


def living() -> dict[int, int]:
    """Return all living processes: the parent's id by their own."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has just ended
            continue
        if state != "Z":
            parents[int(stat.parent.name)] = int(parent)
    return parents


def descendants(pid: int) -> list[int]:
    """Return the living processes below pid, in the order of their ids."""
    parents = living()
    found, new = set(), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return sorted(found)


def ranks_of(pid: int) -> list[int]:
    """Return the ranks of a lab, by rank: spawned ones, or the children of its fork server."""
    commands = {p: Path(f"/proc/{p}/cmdline").read_bytes() for p in descendants(pid)}
    servers = [p for p, command in commands.items() if b"forkserver" in command]
    spawned = [p for p, command in commands.items() if b"spawn_main" in command]
    return servers[1:] or spawned


def fork_server_of(pid: int) -> int | None:
    """Return the fork server of a lab, once there is one."""
    found = (
        p for p in descendants(pid) if b"forkserver" in Path(f"/proc/{p}/cmdline").read_bytes()
    )
    return next(found, None)


def wait_until(condition, seconds: float = HANG):
    """Return the first true value of condition(), which may meet a process that has just ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if value := condition():
                return value
        except FileNotFoundError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"not true within {seconds} s")


class RunningLab:
    """A copy of the lab that would train for years, with a temp folder of its own."""

    def __init__(self, tmp_path: Path, world_size: int, method: str, *changes: tuple[str, str]):
        self.copy, self.world_size = mutate(tmp_path, *changes), world_size
        # Not below tmp_path: the fork server's socket lies in it, and its path has 108 bytes.
        self.temp = Path(tempfile.mkdtemp(prefix="lab-"))
        if method == "torchrun":
            address = ("--standalone", "--local-addr=127.0.0.1", f"--nproc_per_node={world_size}")
            command = ["-m", "torch.distributed.run", *address, self.copy, "--torchrun"]
        else:
            command = [self.copy, "--world-size", str(world_size), "--start-method", method]
        pipe, tests = subprocess.PIPE, os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, *command, *ENDLESS],
            stdout=pipe, stderr=pipe, text=True, start_new_session=True,
            env=os.environ | {"TMPDIR": str(self.temp)},
            # In a session of its own it would train on if pytest itself were killed.
            preexec_fn=lambda: processes.die_with_parent(tests),  # noqa: PLW1509
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        for pid in processes.everyone():  # torchrun's ranks, if they outlive it as they should not
            if str(self.copy) in processes.command(pid):
                processes.send(pid, signal.SIGKILL)
        self.process.communicate()
        shutil.rmtree(self.temp, ignore_errors=True)

    def wait_for_training(self):
        """Return when some rank is at its first step (the copy has to be MARKed)."""
        on = Path(f"{self.copy}.on")
        wait_until(lambda: on.exists() or self.process.poll() is not None)
        assert on.exists(), self.process.communicate()

    def ranks(self) -> list[int]:
        """Return the process ids of all ranks, by rank."""
        return wait_until(lambda: len(r := ranks_of(self.process.pid)) == self.world_size and r)

    def last_line(self) -> str:
        """Wait for the end; check that the peers say nothing and that nothing is left."""
        family = descendants(self.process.pid)
        out, err = self.process.communicate(timeout=HANG)
        assert self.process.returncode == 1
        assert err.count("Traceback") <= 1
        self.assert_nothing_left(family)
        return out.splitlines()[-1]

    def assert_nothing_left(self, family: list[int], seconds: float = LEAVE):
        """Nothing that lived before the end lives so long after it; the temp folder is empty."""
        wait_until(lambda: not set(family) & set(living()), seconds)
        wait_until(lambda: not list(self.temp.iterdir()), seconds)


@pytest.mark.parametrize(
    ("ranks", "method", "sent", "says"),
    [
        (3, "spawn", "SIGKILL while starting", "rank 1 ended early: exit status -9"),
        (3, "forkserver", "SIGKILL while training", "rank 1 ended early: exit status -9"),
        (3, "spawn", "SIGSTOP while starting", "rank 1 does not answer"),
        (3, "forkserver", "SIGSTOP while training", "rank 1 does not answer"),
        (1, "forkserver", "SIGSTOP while training", "rank 0 does not answer"),
    ],
)
def test_a_killed_or_stopped_rank_is_named(tmp_path, ranks, method, sent, says):
    name, _, when = sent.split()
    with RunningLab(tmp_path, ranks, method, MARK, IMPATIENT) as lab:
        if when == "training":
            lab.wait_for_training()
        os.kill(lab.ranks()[ranks // 2], signal.Signals[name])

        assert lab.last_line().startswith(f"FAILED: {says}")


def test_a_fork_server_that_is_killed_before_the_first_rank_is_told_in_a_sentence(tmp_path):
    """It imports torch for seconds, while the lab waits for it to fork rank 0."""
    with RunningLab(tmp_path, 2, "forkserver") as lab:
        server = wait_until(lambda: fork_server_of(lab.process.pid))
        os.kill(server, signal.SIGKILL)
        out, err = lab.process.communicate(timeout=HANG)

    assert lab.process.returncode == 1
    assert out.startswith("FAILED: rank 0 could not be started (")
    assert err == ""


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("raise ValueError('boom')", "raised ValueError: boom ("),
        ("os._exit(0)", "ended early: exit status 0 ("),
    ],
)
def test_a_rank_that_raises_or_exits_is_named_and_its_peers_are_not(tmp_path, does, says):
    fault = f"        if (rank, step) == (1, 2):\n            {does}\n"
    with RunningLab(tmp_path, 3, "forkserver", (STEP, fault + STEP)) as lab:
        assert lab.last_line().startswith(f"FAILED: rank 1 {says}")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_survives_the_parent(tmp_path, method, end):
    with RunningLab(tmp_path, 2, method, MARK) as lab:
        lab.wait_for_training()
        family = descendants(lab.process.pid)
        assert set(lab.ranks()) < set(family)

        to = os.killpg if end == signal.SIGINT else os.kill  # Ctrl-C reaches the ranks, too
        to(lab.process.pid, end)

        _, err = lab.process.communicate(timeout=HANG)
        assert lab.process.returncode == (-signal.SIGKILL if end == signal.SIGKILL else 1)
        assert "Traceback" not in err
        lab.assert_nothing_left(family)


def test_no_rank_survives_a_killed_torchrun(tmp_path):
    """It cannot tell them, and they are in sessions of their own. Files are left: torch's."""
    with RunningLab(tmp_path, 2, "torchrun", MARK) as lab:
        lab.wait_for_training()
        family = descendants(lab.process.pid)
        lab.process.kill()

        wait_until(lambda: not set(family) & set(living()), LEAVE)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_nothing_survives_a_parent_killed_while_torch_is_imported(tmp_path, method):
    with RunningLab(tmp_path, 2, method, MARK) as lab:
        started = 3 if method == "spawn" else 2  # the resource tracker, and ranks or their server
        family = wait_until(lambda: len(f := descendants(lab.process.pid)) >= started and f)
        time.sleep(0.5)  # before, it starts Python; a server's import cannot be cut short
        lab.process.kill()

        lab.assert_nothing_left(family, HANG)  # an import cannot be cut short
        assert not Path(f"{lab.copy}.on").exists()


def test_two_labs_at_once_do_not_disturb_each_other():
    with subprocess.Popen(forkserver(LAB), stdout=subprocess.PIPE, text=True) as other:
        done = run(forkserver(LAB))
        out, _ = other.communicate(timeout=HANG)

    for text in (done.stdout, out):
        assert text.splitlines()[-1].startswith("ok: ")
