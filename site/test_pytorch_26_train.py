"""The script of module 26 to take away: it trains right, dies at any time, and goes on.

torchrun starts the file as it is downloaded, alone in a folder. Other runs fork their ranks, which
is twenty times faster, with a spy in each (tests/modules/train_spy.py). Copies that lack one thing
show that a check would notice.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from distlab.spmd import Launcher, Outcome, Program, RankOutcome

SITE = Path(__file__).parent
TRAIN = SITE.parent / "content/courses/pytorch/code/26_train.py"
PAGE = TRAIN.parents[1] / "26_ddp_gloo.md"
SPY = SITE / "tests/modules/train_spy.py"
TORCHRUN = "-m torch.distributed.run --standalone --local-addr=127.0.0.1 --nproc_per_node"
HANG = 200  # seconds: alone on a machine a forked run takes one, one of torchrun six

SAMPLES, HELD_OUT, BATCH, EPOCHS = 400, 101, 48, 2
STEPS = SAMPLES // BATCH  # in an epoch
OPTIONS = [f"--epochs={EPOCHS}", "--save-every=3"]
FATAL = STEPS + 5  # the step at which a rank is killed: in the second epoch, two after a save
DONE = 3 * BATCH  # samples of the second epoch that the checkpoint knows of by then
REST = STEPS * BATCH - DONE


@dataclass(frozen=True)
class Done:
    """One run: what came of it, and what the spy saw on each rank."""

    outcome: Outcome
    events: list[list[list]]

    @property
    def exits(self) -> list[int]:
        """Return the exit statuses, by rank."""
        return [rank.exit for rank in self.outcome.ranks]

    @property
    def said(self) -> list[str]:
        """Return the lines that rank 0 printed, without gloo's greeting."""
        lines = self.outcome.ranks[0].stdout.splitlines()
        return [line for line in lines if "[Gloo]" not in line]

    def last_words(self, rank: int) -> str:
        """Return the last line that a rank complained with."""
        return self.outcome.ranks[rank].stderr.splitlines()[-1]

    def seen(self, kind: str, rank: int) -> list:
        """Return what the spy noted of one kind."""
        return [event[1:] for event in self.events[rank] if event[0] == kind]

    def samples(self, length: int, rank: int) -> list[int]:
        """Return the samples that a rank took from the data set of this length, in order."""
        return [index for of, index in self.seen("sample", rank) if of == length]


SHARED = {
    "whole": {},
    "exact": {"exact": True},
    "killed": {"kill": [1, FATAL]},  # who resumes it takes a copy of its checkpoint
    "whole on 4": {"ranks": 4},
    "killed on 4": {"ranks": 4, "kill": [3, FATAL]},
}
"""Runs that several checks look at, or one with something else at the same time."""


class Runs:
    """The runs of one script, each made when a check asks for it."""

    def __init__(self, launcher: Launcher, folder: Path, script: Path = TRAIN):
        self.launcher, self.folder, self.script = launcher, folder, script
        self.begun: dict[str, Callable[[], Done]] = {}

    def checkpoint(self, name: str) -> Path:
        """Return where runs of this name keep their checkpoint."""
        return self.folder / f"{name}.pt"

    def program(self, ranks: int, told: dict) -> Program:
        """Return a run of the script with a spy who was told this."""
        env = (("SPY", json.dumps(told | {"script": str(self.script)})),)
        return Program(SPY.read_text(), ranks=ranks, timeout=HANG, env=env)

    def start(self, name: str, ranks: int = 2, options: tuple = (), **told) -> Callable[[], Done]:
        """Start a run on the checkpoint of this name; what is returned waits for it."""
        path, events = self.checkpoint(name), self.folder / f"{name}.{len(told)}.{ranks}"
        told["options"] = [*OPTIONS, f"--checkpoint={path}", *options]
        program = self.program(ranks, told | {"checkpoint": str(path), "events": str(events)})
        running: Future[Outcome] = self.launcher.submit(program)
        return lambda: Done(running.result(), [_read(f"{events}.{rank}") for rank in range(ranks)])

    def run(self, name: str, ranks: int = 2, options: tuple = (), **told) -> Done:
        """Start a run and wait for it."""
        return self.start(name, ranks, options, **told)()

    def copy(self, name: str, new: str) -> str:
        """Copy a checkpoint, so that it can be resumed from again; return the new name."""
        shutil.copy(self.checkpoint(name), self.checkpoint(new))
        return new

    def shared(self, *names: str) -> list[Done]:
        """Return runs of SHARED, side by side; each is made once, however many checks ask."""
        for name in names:
            if name not in self.begun:
                self.begun[name] = self.start(name, **SHARED[name])
        return [self.begun[name]() for name in names]


def _read(path: str) -> list[list]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


@pytest.fixture(scope="module")
def right(launcher, tmp_path_factory):
    """Return the runs of the script as it is."""
    return Runs(launcher, tmp_path_factory.mktemp("right"))


@pytest.fixture(scope="module")
def reference(launcher):
    """Return what one process computes that trains on the whole batch, in the plainest words."""
    program = Program(REFERENCE % {"script": str(TRAIN), "epochs": EPOCHS}, timeout=HANG)
    return json.loads(launcher.run(program).ranks[0].stdout)


REFERENCE = """
import json, math, runpy, torch
torch.set_default_dtype(torch.float64)
own = runpy.run_path(%(script)r)
data, held_out = own["make_data"](400, 1), own["make_data"](101, 2)
torch.manual_seed(own["SEED"])
model = own["make_model"]().eval()  # no dropout
mse = torch.nn.functional.mse_loss
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
found = {"steps": [], "training": [], "held out": [], "norms": []}
for epoch in range(%(epochs)d):
    order = torch.randperm(400, generator=torch.Generator().manual_seed(epoch))
    losses = []
    for step in range(8):
        part = (epoch * 8 + step) / (%(epochs)d * 8)
        rate = optimizer.param_groups[0]["lr"] = 0.005 * (1 + math.cos(math.pi * part))
        x, y = data[order[step * 48 : step * 48 + 48]]
        optimizer.zero_grad()
        loss = mse(model(x), y)
        loss.backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
        factor = min(1.0, 1.0 / (gradient.norm().item() + 1e-6))
        for p in model.parameters():
            p.grad *= factor
        found["norms"].append(gradient.norm().item())
        found["steps"].append([rate, (gradient * factor).tolist()])
        optimizer.step()
        losses.append(loss.item())
    found["training"].append(sum(losses) / 8)
    found["held out"].append(mse(model(held_out[:][0]), held_out[:][1]).item())
print(json.dumps(found))
"""


# ---- The checks: each says what is wrong with a script ------------------------------------------


def check_algebra(runs: Runs, reference: dict, done: Done | None = None) -> None:
    """Every rank steps, and rank 0 logs, as one process does that has the whole batch."""
    done = done or runs.shared("exact")[0]
    assert set(done.exits) == {0}, "does not end well"
    for rank in range(len(done.exits)):
        for number, (mine, its) in enumerate(
            zip(done.seen("step", rank), reference["steps"], strict=True)
        ):
            assert mine[0] == pytest.approx(its[0], abs=1e-12), f"rate of step {number}"
            assert mine[1] == pytest.approx(its[1], rel=1e-9, abs=1e-12), (
                f"gradient of step {number}"
            )
    for what, count in (("training", STEPS * BATCH), ("held out", HELD_OUT)):
        logged = [
            f"epoch {epoch}, {what}: loss {loss:.4f} over {count} samples"
            for epoch, loss in enumerate(reference[what])
        ]
        assert [line for line in done.said if what in line] == logged, f"log of {what}"


def check_communication(runs: Runs, _: dict) -> None:
    """Let the ranks talk once a step, and once before; nobody evaluates through DDP."""
    (whole,) = runs.shared("whole")
    for rank in range(2):
        last = [event for event in whole.seen("bucket", rank) if event == [True]]
        assert len(last) == 1 + EPOCHS * STEPS, "all-reduces"
        assert whole.seen("evaluates through DDP", rank) == [], "evaluates through DDP"
        assert whole.seen("drops out while it evaluates", rank) == [], "drops out"


def check_checkpoint(runs: Runs, _: dict) -> None:
    """Rank 0 writes it, for a model that knows nothing of DDP, with each rank's random numbers."""
    (whole,) = runs.shared("whole")
    assert [len(whole.seen("writes", rank)) for rank in range(2)] == [6, 0], "writers"
    saved = torch.load(runs.checkpoint("whole"))
    states = {state["cpu"].numpy().tobytes() for state in saved["rng"]}

    assert not [name for name in saved["model"] if name.startswith("module.")], "names"
    assert len(states) == 2, "random numbers"


def check_resume(runs: Runs, _: dict) -> None:
    """Killed and resumed, a run ends with the bits of the undisturbed one."""
    compare(runs, "whole", "killed")


def check_resume_on_four(runs: Runs, _: dict) -> None:
    """... also where the order of a sum over ranks matters."""
    compare(runs, "whole on 4", "killed on 4")


def compare(runs: Runs, undisturbed: str, disturbed: str) -> None:
    """Resume a run that was killed, and hold it against the undisturbed one."""
    whole, killed = runs.shared(undisturbed, disturbed)
    ranks = len(whole.exits)
    assert set(whole.exits) == {0}, "the undisturbed run does not end well"
    assert killed.exits == [1] * (ranks - 1) + [-9], "the killed run"
    name = runs.copy(disturbed, f"{disturbed}, resumed")
    resumed = runs.run(name, ranks)
    assert set(resumed.exits) == {0}, f"does not end well: {resumed.last_words(0)}"
    assert resumed.said[0] == f"{ranks} ranks begin at epoch 1, sample {DONE}", "where it begins"
    for rank in range(ranks):
        left = REST // ranks
        samples = [run.samples(SAMPLES, rank)[-left:] for run in (whole, resumed)]
        assert samples[0] == samples[1], "samples after the resume"
    ends = [torch.load(runs.checkpoint(each)) for each in (undisturbed, name)]
    for part in ends[0]:
        assert flat(ends[0][part]) == flat(ends[1][part]), f"{part} differs"
    assert whole.said[-1] == resumed.said[-1], "log"


def flat(state: object) -> object:
    """Return a state with the bits of its tensors, which == compares."""
    if isinstance(state, torch.Tensor):
        return state.cpu().numpy().tobytes()
    if isinstance(state, dict):
        return {key: flat(value) for key, value in state.items()}
    return [flat(value) for value in state] if isinstance(state, list | tuple) else state


def check_other_world_sizes(runs: Runs, _: dict) -> None:
    """Resumed on fewer or more ranks, each sample that is left of the epoch comes once."""
    runs.shared("killed")
    started = {p: runs.start(runs.copy("killed", f"on{p}"), p, timeout=10) for p in (1, 3, 4)}
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(1)).tolist()
    for ranks, wait in started.items():
        done = wait()
        taken = [i for rank in range(ranks) for i in done.samples(SAMPLES, rank)]
        asked = [i for rank in range(ranks) for i in done.samples(HELD_OUT, rank)]

        assert set(done.exits) == {0}, "does not end well"
        assert done.said[0] == f"{ranks} ranks begin at epoch 1, sample {DONE}"
        assert Counter(taken) == Counter(order[DONE : DONE + REST]), "samples of training"
        assert Counter(asked) == Counter(range(HELD_OUT)), "samples held out"


def check_killed_in_save(runs: Runs, _: dict) -> None:
    """Who dies while it writes leaves the checkpoint of before."""
    killed = runs.run("half", kill_in_save=3)
    assert killed.exits == [-9, 1]
    resumed = runs.run("half")
    assert set(resumed.exits) == {0}, f"does not end well: {resumed.last_words(0)}"
    assert resumed.said[0] == f"2 ranks begin at epoch 0, sample {6 * BATCH}"


def check_error(runs: Runs, _: dict) -> None:
    """Let a rank that raises say so at once, and leave its group."""
    done = runs.run("error", timeout=3, **{"raise": [1, 5]})
    assert done.exits == [1, 1], "does not end"
    assert done.last_words(1) == "[rank1]: ValueError: this rank is at fault", "the error is hidden"
    assert done.seen("end", 1)[0][1] is False, "the group is kept"


def check_end(runs: Runs, _: dict) -> None:
    """Let a rank that is done have left its group, and keep no thread of it."""
    (whole,) = runs.shared("whole")
    for rank in range(2):
        assert whole.seen("end", rank) == [[1, False]], "the group is kept"


def check_blind_rank(runs: Runs, _: dict) -> None:
    """Let a rank that does not find the file begin where the others do, or not at all."""
    runs.shared("killed")
    done = runs.run(runs.copy("killed", "blind"), blind=1, timeout=3)
    assert set(done.exits) == {0}, "the ranks begin apart"
    assert len(done.samples(SAMPLES, 1)) == REST // 2, "the ranks begin apart"


def check_other_epochs(runs: Runs, _: dict) -> None:
    """Do not go on with a schedule that was planned for another number of steps."""
    runs.shared("killed")
    name = runs.copy("killed", "longer")
    done = runs.run(name, options=("--epochs=3",), timeout=10)
    assert done.exits == [1, 1], "goes on with another schedule"
    sentence = f"{name}.pt is of a run of 16 steps, --epochs 3 makes 24: give the old --epochs, "
    assert sentence in done.last_words(0), "says something else"


def check_autocast(runs: Runs, _: dict) -> None:
    """With --autocast it computes something else, and nearly the same."""
    (whole,), done = runs.shared("whole"), runs.run("autocast", options=("--autocast",))
    full, half = (float(run.said[-1].split()[-4]) for run in (whole, done))
    assert full != half, "computes in float32"
    assert full == pytest.approx(half, rel=0.1)


# ---- The script passes them ----------------------------------------------------------------------

CHECKS = (
    check_communication,
    check_checkpoint,
    check_resume,
    check_resume_on_four,
    check_other_world_sizes,
    check_killed_in_save,
    check_error,
    check_end,
    check_blind_rank,
    check_other_epochs,
    check_autocast,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_script_passes(right, reference, check):
    check(right, reference)


def test_it_trains_as_one_process_does_on_any_number_of_ranks(right, reference):
    started = [right.start(f"exact{ranks}", ranks, exact=True) for ranks in (1, 3, 4)]

    check_algebra(right, reference)
    for wait in started:
        check_algebra(right, reference, wait())


def test_the_reference_clips_some_steps_and_not_all(reference):
    clipped = [norm > 1 for norm in reference["norms"]]

    assert {True, False} == set(clipped)
    assert reference["held out"][0] > reference["held out"][1]


BAD = {
    "nothing": b" ",
    "a text": b"weights\n",
    "half of it": None,
    "another program's": {"model": {}},
    "another model's": {"model": {"0.weight": torch.zeros(1)}},
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_a_bad_checkpoint_is_refused_in_a_sentence(right, content):
    path = right.checkpoint("bad")
    if isinstance(content, dict):
        torch.save(content, path)
    else:
        right.shared("killed")
        path.write_bytes(content or right.checkpoint("killed").read_bytes()[:-100])
    done = right.run("bad", timeout=10)

    assert done.exits == [1, 1]
    for rank in range(2):
        assert done.last_words(rank).startswith(f"{path} cannot be resumed, move it away: ")
        assert "Traceback" not in done.outcome.ranks[rank].stderr


def test_a_missing_folder_is_refused_before_anything_is_computed(right):
    told = {"options": ["--checkpoint=no/folder.pt"], "checkpoint": "no", "events": "events"}
    program = right.program(2, told)
    ranks = right.launcher.run(program).ranks

    assert [rank.exit for rank in ranks] == [2, 2]
    sentence = "error: no, where the checkpoint would be kept, is no folder"
    assert all(rank.stderr.splitlines()[-1].endswith(sentence) for rank in ranks)


def test_ranks_that_cannot_share_a_step_are_told(right):
    done = right.run("five", 5, timeout=10)

    assert set(done.exits) == {1}
    assert done.last_words(0) == "5 ranks cannot share 48 samples, 4 at a time"


def test_a_run_that_is_over_ends_at_once_when_started_again(right):
    right.shared("whole")
    done = right.run(right.copy("whole", "over"))

    assert done.exits == [0, 0]
    assert done.said == [f"2 ranks begin at epoch {EPOCHS}, sample 0"]


def test_the_page_shows_whole_pieces_of_the_script():
    """It includes lines by their numbers, so that no marks stand in what readers take away."""
    shown = re.findall(rf'/{TRAIN.name}:(\d+):(\d+)"', PAGE.read_text())
    pieces = {
        (str(piece.lineno), str(piece.end_lineno))
        for piece in ast.walk(ast.parse(TRAIN.read_text()))
        if isinstance(piece, ast.FunctionDef | ast.For)
    }

    assert shown
    assert [lines for lines in shown if lines not in pieces] == []


# ---- Copies that lack one thing do not ----------------------------------------------------------

STEP = (
    "            (loss / len(micro_batches)).backward()  # the last one averages over the ranks\n"
)
LOSS = "loss = mean_loss(ddp, batch, args)\n"
NO_SYNC = (
    "        with nullcontext() if last else ddp.no_sync():  # the forward inside: it decides\n"
)
CLIP = "    nn.utils.clip_grad_norm_(ddp.parameters(), MAX_NORM)"

MUTANTS = {  # what is forgotten: (in the script, in the copy, the check that notices, what it says)
    "set_epoch": ("sampler.set_epoch(epoch)", "pass", check_algebra, "gradient of step 8"),
    "the division": ("loss / len(micro_batches)", "loss", check_algebra, "gradient of step 0"),
    "to clip": ("MAX_NORM)", "1e9)", check_algebra, "gradient of step"),
    "that clipping comes after the average": (
        f"{STEP}",
        f"            if last:\n    {CLIP.replace('    nn', '            nn')}\n{STEP}",
        check_algebra,
        "gradient of step",
    ),
    "the schedule": ("scheduler.step()", "pass", check_algebra, "rate of step 1"),
    "to sum the log over ranks": (
        "    dist.all_reduce(sums)\n",
        "",
        check_algebra,
        "log of training",
    ),
    "to weigh the log by samples": (
        "mean_loss(model, batch, args) * len(batch[0])\n        sums[1] += len(batch[0])",
        "mean_loss(model, batch, args)\n        sums[1] += 1",
        check_algebra,
        "log of held out",
    ),
    "that padding repeats samples": (
        "range(dist.get_rank(), len(data), dist.get_world_size())",
        "list(DistributedSampler(data, shuffle=False))",
        check_algebra,
        "log of held out",
    ),
    "eval()": ("model.eval()", "pass", check_communication, "drops out"),
    "no_sync": (
        "nullcontext() if last else ddp.no_sync()",
        "nullcontext()",
        check_communication,
        "all-reduces",
    ),
    "the forward in no_sync": (
        f"{NO_SYNC}            {LOSS}",
        f"        {LOSS}{NO_SYNC}",
        check_communication,
        "all-reduces",
    ),
    "ddp.module in the evaluation": (
        "evaluate(ddp.module,",
        "evaluate(ddp,",
        check_communication,
        "evaluates through DDP",
    ),
    "ddp.module in the checkpoint": (
        '"model": ddp.module',
        '"model": ddp',
        check_checkpoint,
        "names",
    ),
    "a seed per rank": ("SEED + 1 + rank", "SEED + 1", check_checkpoint, "random numbers"),
    "that rank 0 writes": (
        "    if dist.get_rank() > 0:\n        return\n",
        "",
        check_checkpoint,
        "writers",
    ),
    "the model": ('"model": ddp.module, ', "", check_resume, "optimizer differs"),
    "the optimizer": (', "optimizer": optimizer', "", check_resume, "model differs"),
    "the scheduler": (', "scheduler": scheduler', "", check_resume, "model differs"),
    "the random numbers": ("of.set_rng_state(saved", "(saved", check_resume, "model differs"),
    "whose random numbers": (
        'saved["rng"][rank][name]',
        'saved["rng"][0][name]',
        check_resume,
        "model differs",
    ),
    "the epoch": ("else (epoch, done)", "else (0, done)", check_resume, "where it begins"),
    "the step": ("else (epoch, done)", "else (epoch, 0)", check_resume, "where it begins"),
    "one step": (
        "[done // world :]",
        "[done // world + (done > 0) :]",
        check_resume,
        "samples after the resume",
    ),
    "that others have steps, too": (
        "[done // world :]",
        "[done:]",
        check_resume,
        "does not end well",
    ),
    "a loader's own numbers": (
        "MICRO_BATCH, generator=torch.Generator()",
        "MICRO_BATCH",
        check_resume,
        "model differs",
    ),
    "that DDP reorders its sums": (
        "    mean_loss(ddp, data[:MICRO_BATCH], args).backward()\n",
        "",
        check_resume_on_four,
        "(model|optimizer) differs",
    ),
    "that the world changes": (
        "accumulation, rest = divmod(GLOBAL_BATCH, MICRO_BATCH * world)",
        "accumulation, rest = 6, 0",
        check_other_world_sizes,
        "samples of training",
    ),
    "that a rank is new": (
        'if rank < len(saved["rng"])',
        "if True",
        check_other_world_sizes,
        "does not end well",
    ),
    "to replace the file": (
        'path.with_suffix(".half")',
        "path",
        check_killed_in_save,
        "does not end well",
    ),
    "that an error has no barrier": (
        "    finally:\n",
        "    finally:\n        dist.barrier()\n",
        check_error,
        "the error is hidden",
    ),
    "that a traceback holds the DDP": (
        "traceback.clear_frames(",
        "print(",
        check_error,
        "does not end",
    ),
    "to leave the group": (
        "        dist.destroy_process_group()",
        "        pass",
        check_end,
        "the group is kept",
    ),
    "that rank 0 decides": (
        "    dist.broadcast_object_list(exists)",
        "    pass",
        check_blind_rank,
        "the ranks begin apart",
    ),
    "that a schedule has an end": (
        "if scheduler.T_max != steps:",
        "if False:",
        check_other_epochs,
        "goes on with another schedule",
    ),
    "autocast": ("enabled=args.autocast", "enabled=False", check_autocast, "computes in float32"),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_copy_that_forgets_something_is_caught(launcher, tmp_path, reference, mutant):
    (old, new, check, says), source = mutant, TRAIN.read_text()
    assert source.count(old) == 1
    copy = tmp_path / "train.py"
    copy.write_text(source.replace(old, new))

    with pytest.raises(AssertionError, match=says):
        check(Runs(launcher, tmp_path, copy), reference)


# ---- As a reader starts it: torchrun, the file alone in a folder ---------------------------------


class Download:
    """The script as it is downloaded, alone in a folder; Python finds nothing else of ours."""

    def __init__(self, launcher: Launcher, folder: Path):
        self.launcher, self.folder = launcher, folder
        shutil.copy(TRAIN, folder)

    def run(self, ranks: int, checkpoint: str, command: str = "26_train.py") -> RankOutcome:
        """Start some ranks, wait for them."""
        options = [*OPTIONS, f"--checkpoint={checkpoint}"]
        return self.shell(f"{TORCHRUN}={ranks} {command} {shlex.join(options)}")

    def watched(self, then: str, **told) -> RankOutcome:
        """Start two ranks with the spy, do something else when the launcher has ended."""
        told |= {"script": "26_train.py", "checkpoint": "train.pt", "events": "events"}
        told["options"] = [*OPTIONS, "--checkpoint=train.pt"]
        return self.shell(f"{TORCHRUN}=2 {SPY}", f"SPY={shlex.quote(json.dumps(told))}", then)

    def shell(self, arguments: str, variable: str = "A=1", then: str = "true") -> RankOutcome:
        """Run a Python command with a variable, and then another command."""
        lines = [
            "unset PYTHONPATH",
            f"cd {self.folder}",
            f"{variable} {sys.executable} {arguments} || echo the launcher ended with $?",
            then,
        ]
        program = Program("\n".join(lines), shell="bash", timeout=HANG)  # noqa: S604
        (shell,) = self.launcher.run(program).ranks
        return shell


@pytest.fixture(scope="module")
def dead_twice(launcher, tmp_path_factory):
    """Let torchrun start the script; kill a rank; start it again; kill torchrun itself."""
    download = Download(launcher, tmp_path_factory.mktemp("download"))
    first = download.watched("true", kill=[1, 5])
    left_alone = "until grep -q end events.0 && grep -q end events.1; do sleep 0.1; done"
    second = download.watched(left_alone, kill_launcher=FATAL - 3)
    return download, first, second


def test_torchrun_ends_a_job_whose_rank_is_killed(dead_twice):
    _, first, _ = dead_twice

    assert "the launcher ended with 1" in first.stdout
    assert "Signal 9 (SIGKILL)" in first.stderr


def test_ranks_whose_launcher_is_killed_leave_the_checkpoint_alone(dead_twice):
    _, _, second = dead_twice

    assert f"2 ranks begin at epoch 0, sample {3 * BATCH}" in second.stdout
    assert "the launcher ended with 137" in second.stdout
    assert "the launcher is gone: its successor may use the same checkpoint" in second.stderr
    assert second.exit == 0, "the ranks are still there"


@pytest.mark.parametrize("ranks", [2, 4, 1])
def test_a_download_goes_on_where_it_was_on_as_many_ranks_and_others(dead_twice, right, ranks):
    download, *_ = dead_twice
    shutil.copy(download.folder / "train.pt", download.folder / f"on{ranks}.pt")
    done = download.run(ranks, f"on{ranks}.pt")

    assert done.exit == 0, done.stderr
    epoch, begun = torch.load(download.folder / "train.pt")["position"]
    assert f"{ranks} ranks begin at epoch {epoch}, sample {begun}\n" in done.stdout
    assert f"over {STEPS * BATCH - begun} samples" in done.stdout
    assert f"over {HELD_OUT} samples" in done.stdout
    if ranks == 2:
        right.shared("whole")
        ends = [right.checkpoint("whole"), download.folder / "on2.pt"]
        assert flat(torch.load(ends[0])) == flat(torch.load(ends[1]))
