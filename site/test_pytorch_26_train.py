"""The script of module 26 to take away: it trains right, dies at any time, and goes on.

torchrun starts the file as it is downloaded, alone in a folder. Other runs fork their ranks, which
is twenty times faster, with a spy in each (tests/modules/train_spy.py). Copies that lack one thing
show that a check would notice.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
import torch

from distlab.spmd import Launcher, Outcome, Program

SITE = Path(__file__).parent
TRAIN = SITE.parent / "content/courses/pytorch/code/26_train.py"
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


class Runs:
    """The runs of one script, each made when a check asks for it."""

    def __init__(self, launcher: Launcher, folder: Path, script: Path = TRAIN):
        self.launcher, self.folder, self.script = launcher, folder, script

    def checkpoint(self, name: str) -> Path:
        """Return where runs of this name keep their checkpoint."""
        return self.folder / f"{name}.pt"

    def start(self, name: str, ranks: int = 2, options: tuple = (), **told) -> Callable[[], Done]:
        """Start a run on the checkpoint of this name; what is returned waits for it."""
        path, events = self.checkpoint(name), self.folder / f"{name}.{len(told)}.{ranks}"
        options = [*OPTIONS, f"--checkpoint={path}", *options]
        told |= {"script": str(self.script), "options": options}
        told |= {"checkpoint": str(path), "events": str(events)}
        env = (("SPY", json.dumps(told)),)
        program = Program(SPY.read_text(), ranks=ranks, timeout=HANG, env=env)
        running: Future[Outcome] = self.launcher.submit(program)
        return lambda: Done(running.result(), [_read(f"{events}.{rank}") for rank in range(ranks)])

    def run(self, name: str, ranks: int = 2, options: tuple = (), **told) -> Done:
        """Start a run and wait for it."""
        return self.start(name, ranks, options, **told)()

    def copy(self, name: str, new: str) -> str:
        """Copy a checkpoint, so that it can be resumed from again; return the new name."""
        shutil.copy(self.checkpoint(name), self.checkpoint(new))
        return new

    @cached_property
    def whole(self) -> Done:
        """Undisturbed, on two ranks."""
        return self.run("whole")

    @cached_property
    def exact(self) -> Done:
        """Without dropout and in float64, on two ranks."""
        return self.run("exact", exact=True)

    @cached_property
    def killed(self) -> Done:
        """Rank 1 is killed; the checkpoint stays where it is, whoever resumes takes a copy."""
        return self.run("killed", kill=[1, FATAL])

    @cached_property
    def resumed(self) -> Done:
        """Killed, resumed on as many ranks."""
        assert self.killed.exits == [1, -9]
        return self.run(self.copy("killed", "resumed"))


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
    done = done or runs.exact
    assert set(done.exits) == {0}, "it does not end well"
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
            f"epoch {epoch}, {what}: loss {loss:.6f} over {count} samples"
            for epoch, loss in enumerate(reference[what])
        ]
        assert [line for line in done.said if what in line] == logged, f"log of {what}"


def check_communication(runs: Runs, _: dict) -> None:
    """Let the ranks talk once a step, and once before; nobody evaluates through DDP."""
    for rank in range(2):
        last = [event for event in runs.whole.seen("bucket", rank) if event == [True]]
        assert len(last) == 1 + EPOCHS * STEPS, "all-reduces"
        assert runs.whole.seen("evaluates through DDP", rank) == [], "evaluates through DDP"


def check_checkpoint(runs: Runs, _: dict) -> None:
    """Rank 0 writes it, for a model that knows nothing of DDP, with each rank's random numbers."""
    assert set(runs.whole.exits) == {0}
    saved = torch.load(runs.checkpoint("whole"))
    states = {state["cpu"].numpy().tobytes() for state in saved["random"]}

    assert not [name for name in saved["model"] if name.startswith("module.")], "names"
    assert len(states) == 2, "random numbers"
    assert [len(runs.whole.seen("writes", rank)) for rank in range(2)] == [6, 0], "writers"


def check_resume(runs: Runs, _: dict) -> None:
    """Killed and resumed, a run ends with the bits of the undisturbed one."""
    compare(runs, runs.whole, "whole", runs.resumed, "resumed")


def check_resume_on_four(runs: Runs, _: dict) -> None:
    """... also where the order of a sum over ranks matters."""
    whole, killed = runs.start("whole4", 4), runs.run("four", 4, kill=[3, FATAL])
    assert killed.exits == [1, 1, 1, -9]
    compare(runs, whole(), "whole4", runs.run("four", 4), "four")


def compare(runs: Runs, whole: Done, name: str, resumed: Done, other: str) -> None:
    """Hold a resumed run against the undisturbed one."""
    assert set(whole.exits) == {0}, "the undisturbed run does not end well"
    assert set(resumed.exits) == {0}, f"does not end well: {resumed.last_words(0)}"
    ranks = len(whole.exits)
    assert resumed.said[0] == f"{ranks} ranks begin at epoch 1, sample {DONE}", "where it begins"
    for rank in range(ranks):
        left = REST // ranks
        samples = [run.samples(SAMPLES, rank)[-left:] for run in (whole, resumed)]
        assert samples[0] == samples[1], "samples after the resume"
    ends = [torch.load(runs.checkpoint(name)) for name in (name, other)]
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
    assert runs.killed.exits == [1, -9]
    started = {p: runs.start(runs.copy("killed", f"on{p}"), p, timeout=10) for p in (1, 3, 4)}
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(1)).tolist()
    for ranks, wait in started.items():
        done = wait()
        taken = [i for rank in range(ranks) for i in done.samples(SAMPLES, rank)]
        asked = [i for rank in range(ranks) for i in done.samples(HELD_OUT, rank)]

        assert set(done.exits) == {0}, "it does not end well"
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
    assert done.exits == [1, 1]
    assert done.last_words(1) == "[rank1]: ValueError: this rank is at fault", "the error is hidden"
    assert done.seen("end", 1)[0][1] is False, "the group is kept"


def check_end(runs: Runs, _: dict) -> None:
    """Let a rank that is done have left its group, and keep no thread of it."""
    assert set(runs.whole.exits) == {0}
    for rank in range(2):
        assert runs.whole.seen("end", rank) == [[1, False]], "the group is kept"


def check_blind_rank(runs: Runs, _: dict) -> None:
    """Let a rank that does not find the file begin where the others do, or not at all."""
    assert runs.killed.exits == [1, -9]
    done = runs.run(runs.copy("killed", "blind"), blind=1, timeout=3)
    assert set(done.exits) == {0}, "the ranks begin apart"
    assert len(done.samples(SAMPLES, 1)) == REST // 2, "the ranks begin apart"


def check_autocast(runs: Runs, _: dict) -> None:
    """With --autocast it computes something else, and nearly the same."""
    done = runs.run("autocast", options=("--autocast",))
    (full, half) = (float(run.said[-1].split()[-4]) for run in (runs.whole, done))
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
    "nothing": b"",
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
        assert right.killed.exits == [1, -9]
        path.write_bytes(
            right.checkpoint("killed").read_bytes()[:-100] if content is None else content
        )
    done = right.run("bad", timeout=10)

    assert done.exits == [1, 1]
    for rank in range(2):
        assert done.last_words(rank).startswith(f"{path} cannot be resumed, move it away: ")
        assert "Traceback" not in done.outcome.ranks[rank].stderr


def test_a_missing_folder_is_refused_before_anything_is_computed(right):
    done = right.run("no/folder", options=())

    assert done.exits == [2, 2]
    assert done.last_words(0).endswith("where the checkpoint would be kept, is no folder")
    assert done.seen("sample", 0) == []


def test_ranks_that_cannot_share_a_step_are_told(right):
    done = right.run("five", 5, timeout=10)

    assert set(done.exits) == {1}
    assert done.last_words(0) == "5 ranks cannot share 48 samples, 4 at a time"


def test_a_run_that_is_over_ends_at_once_when_started_again(right):
    assert right.whole.exits == [0, 0]
    done = right.run(right.copy("whole", "over"))

    assert done.exits == [0, 0]
    assert done.said == [f"2 ranks begin at epoch {EPOCHS}, sample 0"]
