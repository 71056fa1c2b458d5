"""The lab of module 26 must fail when it should: broken copies, broken ranks, bad input."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from test_pytorch_26_ddp_gloo import LAB, run

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


@pytest.mark.parametrize(("old", "new", "check"), MUTANTS.values(), ids=MUTANTS)
def test_a_broken_copy_fails_by_the_name_of_the_check(tmp_path, old, new, check):
    done = run(forkserver(mutate(tmp_path, (old, new))))

    last = done.stdout.splitlines()[-1]
    assert done.returncode == 1, done.stdout + done.stderr
    assert last.startswith("FAILED: ")
    assert check in last.removeprefix("FAILED: ").partition(" (world size")[0].split(", ")


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

    done = run([sys.executable, LAB, *options], timeout=30, env=environment)

    assert_one_sentence(done, options[-1])


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_read_only_json_path_is_refused(tmp_path, what):
    path = tmp_path / "lab.json"
    path.write_text("old")
    (path if what == "file" else tmp_path).chmod(0o555)

    done = run([sys.executable, LAB, "--json", path], timeout=30)

    tmp_path.chmod(0o755)
    assert_one_sentence(done, "read-only")
    assert path.read_text() == "old"


# ---- Ranks that are killed, stopped, or raise ----------------------------------------------------

PATIENT = ("GROUP_TIMEOUT = 60 ", "GROUP_TIMEOUT = 5 ")
MARK = (
    "        naive_step(nets[0]",
    "        Path(__file__ + '.on').touch()\n        naive_step(nets[0]",
)
ENDLESS = ("--steps", "1000000000")


def descendants(pid: int) -> list[int]:
    """Return the living processes below pid, in the order of their ids."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has just ended
            continue
        if state != "Z":
            parents[int(stat.parent.name)] = int(parent)
    found, new = set(), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return sorted(found)


def ranks_of(pid: int) -> list[int]:
    """Return the spawned ranks of a lab, by rank."""
    is_rank = {
        p: b"spawn_main" in Path(f"/proc/{p}/cmdline").read_bytes() for p in descendants(pid)
    }
    return [p for p, yes in is_rank.items() if yes]


def wait_until(condition, seconds: float = 60):
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
    """A lab that would train for years, with a temp folder of its own."""

    def __init__(self, tmp_path: Path, *options: str, changes=(PATIENT, MARK)):
        self.copy, self.temp = mutate(tmp_path, *changes), tmp_path / "temp"
        self.temp.mkdir()
        environment = os.environ | {"TMPDIR": str(self.temp)}
        command = [sys.executable, self.copy, *ENDLESS, *options]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def wait_for_training(self):
        """Return when some rank is at its first step."""
        wait_until(Path(f"{self.copy}.on").exists)

    def ranks(self) -> list[int]:
        """Return the process ids of three ranks, by rank."""
        return wait_until(lambda: len(r := ranks_of(self.process.pid)) == 3 and r)

    def last_line(self, seconds: float) -> str:
        """Wait for the end; check that one sentence is all, and that nothing is left."""
        family = descendants(self.process.pid)
        out, err = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 1
        assert err.count("Traceback") <= 1
        self.assert_nothing_left(family)
        return out.splitlines()[-1]

    def assert_nothing_left(self, family: list[int]):
        """Nothing that lived before the end lives 5 s after it, and the temp folder is empty."""
        alive = lambda: Counter(family) & Counter(descendants(1))  # noqa: E731
        wait_until(lambda: not alive(), 5)
        wait_until(lambda: not list(self.temp.iterdir()), 5)


@pytest.mark.parametrize("when", ["starting", "training"])
@pytest.mark.parametrize(("how", "says"), [("KILL", "was killed by signal 9"), ("STOP", "stopped")])
def test_a_killed_or_stopped_rank_is_named(tmp_path, how, says, when):
    with RunningLab(tmp_path, "--world-size", "3") as lab:
        if when == "training":
            lab.wait_for_training()
        os.kill(lab.ranks()[1], signal.Signals[f"SIG{how}"])

        last = lab.last_line(60)

    assert last.startswith("FAILED: rank 1 ")
    assert says in last


def test_a_lab_whose_only_rank_is_stopped_ends(tmp_path):
    with RunningLab(tmp_path, "--world-size", "1") as lab:
        lab.wait_for_training()
        [rank] = ranks_of(lab.process.pid)
        os.kill(rank, signal.SIGSTOP)

        assert lab.last_line(30).startswith("FAILED: rank 0 does not answer")


def test_a_rank_that_raises_is_named_and_its_peers_are_not(tmp_path):
    boom = "        if (rank, step) == (1, 2):\n            raise ValueError('boom')\n"
    change = (MARK[0], boom + MARK[0])
    with RunningLab(tmp_path, "--world-size", "3", changes=[change]) as lab:
        last = lab.last_line(60)

    assert last.startswith("FAILED: rank 1 raised ValueError: boom (")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_survives_the_parent(tmp_path, method, end):
    with RunningLab(tmp_path, "--start-method", method) as lab:
        lab.wait_for_training()
        family = descendants(lab.process.pid)
        assert len(family) >= 3

        lab.process.send_signal(end)

        assert lab.process.wait(10) == (-signal.SIGKILL if end == signal.SIGKILL else 130)
        lab.assert_nothing_left(family)


def test_nothing_survives_a_parent_killed_while_its_ranks_import_torch(tmp_path):
    with RunningLab(tmp_path, "--start-method", "forkserver") as lab:
        family = wait_until(lambda: len(f := descendants(lab.process.pid)) >= 3 and f)
        lab.process.kill()

        lab.assert_nothing_left(family)


def test_two_labs_at_once_do_not_disturb_each_other():
    with subprocess.Popen(forkserver(LAB), stdout=subprocess.PIPE, text=True) as other:
        done = run(forkserver(LAB))
        out, _ = other.communicate(timeout=120)

    for text in (done.stdout, out):
        assert text.splitlines()[-1].startswith("ok: ")
