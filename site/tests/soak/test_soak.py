"""The soak session's own rules: a plan follows from its seed, and nothing wrong goes unnoticed."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import subprocess
import sys
import tempfile
import types
from collections import Counter
from pathlib import Path

import pytest

import soak.__main__ as soak
from distlab.practice import tasks
from distlab.spmd import Outcome, RankOutcome
from press import modules
from soak import leaks, programs, rules
from soak import plan as plans
from soak.plan import Plan, Strike
from soak.rules import RULES, Judgement, Observed, Round
from tools.watch import HANG

pytestmark = pytest.mark.skipif(not Path("/proc/net").is_dir(), reason="finds leaks in /proc")

TWO_DECKS = [plans.plan(7, number) for number in range(1, 201)]


# ---- Plans ---------------------------------------------------------------------------------------


def test_a_plan_follows_from_its_seed_and_its_number():
    again = "from soak import plan; print([str(plan.plan(7, n)) for n in (3, 150)])"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(["code", "site"]), "PYTHONHASHSEED": "5"}
    said = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True, env=env,
                          cwd=soak.ROOT, check=True)  # fmt: skip

    assert said.stdout.strip() == str([str(TWO_DECKS[n - 1]) for n in (3, 150)])
    assert [plans.plan(8, number) for number in range(1, 201)] != TWO_DECKS


def test_every_kind_is_played_disturbed_and_undisturbed():
    """Two decks of each module; what of the launcher fills them up."""
    modules_there = modules.everything()
    rounds = [plans.plan(7, n) for n in range(1, 2 * plans.DECK * len(modules_there) + 1)]
    labs = {(p.module, p.how, p.ranks) for p in rounds if p.job == "lab" and not p.strike}
    checks = {(p.task, p.how, p.strike is None) for p in rounds if p.job == "practice"}
    played = {p.disturbance for p in rounds}

    assert labs >= {(module.stem, method, world) for module in modules_there
                    for method in plans.METHODS for world in range(1, 9)}  # fmt: skip
    assert len(checks) == 4 * len(tasks.everything())
    assert {key for key in RULES if key[0] != "build"} - played <= {("torchrun", "rank", "STOP")}
    jobs = Counter(p.job for p in rounds)
    assert jobs["practice"] == 4 * len(tasks.everything())
    assert (jobs["lab"], jobs["build"]) == (56 * len(modules_there), 10 * len(modules_there))
    assert jobs["launcher"] > 0


def test_every_disturbance_that_can_be_dealt_has_a_rule():
    kinds = {"lab": ("spawn", "forkserver"), "torchrun": ("torchrun",), "practice": ("practice",),
             "build": ("build",)}  # fmt: skip
    dealt = {(job, *pair) for job, names in kinds.items() for name in names
             for pair in plans.disturbances(name)}  # fmt: skip

    assert dealt == set(RULES)


def test_a_lab_is_endless_only_if_its_disturbance_ends_it():
    endless = {p.disturbance for n in range(40) for k in range(1, 101)
               if (p := plans.plan(n, k)).steps == plans.ENDLESS}  # fmt: skip

    assert endless
    assert not {key for key in endless if key[2] == "PAUSE"}
    assert ("torchrun", "parent", "KILL") in endless
    assert ("lab", "rank", "INT") not in endless


# ---- Rules ---------------------------------------------------------------------------------------


def struck(key: tuple[str, str, str]) -> Plan:
    """Return a plan with this disturbance."""
    job, target, signal = key
    how = job if job == "torchrun" else {"lab": "forkserver"}.get(job, "solution")
    strike = Strike(signal, target, 2, 1.0)
    return Plan(1, 1, "lab" if job == "torchrun" else job, how, "99_toy", "99/1", 4, strike=strike)


def seen(exit_status: int | None = 1, output: str = "", **other) -> Observed:
    """Return what came of a job that did not end right."""
    values = {"wrong": "not right", "hit": 2, "begun": True} | other
    return Observed(exit_status, 1.0, output, **values)


SAYS = {
    ("lab", "rank", "KILL"): "FAILED: rank 2 ended early: exit status -9 (world size 4",
    ("lab", "rank", "TERM"): "FAILED: rank 2 ended early: exit status -15 (world size 4",
    ("lab", "rank", "INT"): "FAILED: rank 2 ended early: exit status 1 (world size 4",
    ("lab", "rank", "STOP"): "FAILED: rank 2 does not answer: stopped or stuck (training",
    ("lab", "parent", "TERM"): "FAILED: interrupted before the verdict (world size 4",
    ("lab", "parent", "INT"): "FAILED: interrupted before the verdict (world size 4",
    ("lab", "server", "KILL"): "FAILED: rank 0 ended early: exit status 255 (",
    ("lab", "server", "TERM"): "FAILED: rank 0 could not be started (",
    ("lab", "server", "INT"): "FAILED: rank 0 could not be started (",
    ("torchrun", "rank", "KILL"): "rank : 2 (local_rank: 2)\n  exitcode  : -9 (pid: 1)",
    ("torchrun", "rank", "TERM"): "rank : 2 (local_rank: 2)\n  exitcode  : -15 (pid: 1)",
    ("torchrun", "rank", "INT"): "rank : 2 (local_rank: 2)\n  exitcode  : 1 (pid: 1)",
    ("torchrun", "rank", "STOP"): "torch.distributed.elastic...ChildFailedError:",
    ("practice", "rank", "KILL"): "1 broadcast: rank 2 was ended by signal 9",
    ("practice", "rank", "TERM"): "1 broadcast: rank 2 was ended by signal 15",
    ("practice", "rank", "INT"): "rank 2 left with status 1 before your code returned",
    ("practice", "rank", "STOP"): "rank 2 did not come to an end in 10 s",
    ("build", "rank", "KILL"): "x.md:3, rank 2: rank 2 ended by signal 9\nno page was written.",
    ("build", "rank", "TERM"): "x.md:3, rank 2: rank 2 ended by signal 15\nno page was written.",
    ("build", "rank", "INT"): "rank 2 ended with exit status 1\nno page was written.",
    ("build", "rank", "STOP"): "still running at the deadline\nno page was written.",
    ("build", "parent", "INT"): "Aborted!",
}


@pytest.mark.parametrize("key", RULES, ids=" ".join)
def test_a_rule_explains_its_own_outcome_and_no_other(key):
    plan, rule = struck(key), RULES[key]
    said = SAYS.get(key, "the fork server has ended. no page was written" if rule.says else "")
    assert not rules.judge(plan, seen(0, wrong="")).faults, "right is always allowed"
    for status in rule.exits:
        assert not rules.judge(plan, seen(status, said)).faults
        assert bool(rules.judge(plan, seen(status, "")).faults) == bool(rule.says)
        another = rules.judge(plan, seen(status, said, hit=3))
        assert bool(another.faults) == ("{rank}" in rule.says)
        assert rules.judge(plan, seen(status, said, hit=None)).faults, "was not struck"

    for broken in (seen(None), seen(77, said), seen(0 if key[:2] != ("build", "rank") else 5)):
        assert rules.judge(plan, broken).faults


def test_an_undisturbed_round_must_be_right():
    plan = Plan(1, 1, "lab", "spawn", ranks=3)

    assert rules.judge(plan, seen(0, wrong="", hit=None)) == Judgement("right")
    assert rules.judge(plan, seen(1, hit=None)).faults
    assert rules.judge(plan, seen(None, hit=None)).faults == ("no end within 330 s",)
    left = seen(0, wrong="", hit=None, leaks=("file t/x",))
    assert rules.judge(plan, left).faults == ("left behind: file t/x",)


TRACE = 'Traceback (most recent call last):\n  File "{}", line 3, in f\n    g()\nKeyError: 1\n'


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("/x/code/distlab/spmd/run.py", True),
        ("/x/content/courses/pytorch/code/26_ddp_gloo.py", True),
        ("/x/site/hooks.py", True),
        ("/usr/lib/python3/site-packages/torch/distributed/run.py", False),
    ],
)
def test_a_traceback_of_ours_is_a_fault_and_one_of_torch_is_not(path, counts):
    plan = Plan(1, 1, "lab", "spawn", ranks=3)
    verdict = rules.judge(plan, seen(0, TRACE.format(path), wrong="", hit=None))

    assert bool(verdict.faults) == counts


def outcome(name: str, culprit: int) -> Outcome:
    """Return the outcome that a program of the launcher must come to, on two ranks."""
    does = programs.PROGRAMS[name]
    ranks = [RankOutcome(r, 0, True, False, "", "", "", 1.0) for r in range(2)]
    ranks[culprit] = dataclasses.replace(ranks[culprit], exit=does.exit, stdout=does.says)
    left = ("sleep 100",) * (name == "leave")
    return Outcome(does.cause, 1.0, tuple(ranks), culprit if does.cause == "failed" else None, left)


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_a_program_of_the_launcher_comes_to_its_outcome_and_no_other(name):
    good = outcome(name, 1)
    bad_rank = dataclasses.replace(good.ranks[1], exit=99)
    changes = [{"cause": "other"}, {"first_failed": 0}, {"ranks": (good.ranks[0], bad_rank)},
               {"left_behind": () if good.left_behind else ("sleep 5",)}]  # fmt: skip

    assert programs.wrong(name, 1, good) == ""
    for change in changes:
        assert programs.wrong(name, 1, dataclasses.replace(good, **change))


def test_the_report_has_the_tally_the_slowest_and_how_to_repeat_a_fault():
    plan = struck(("lab", "rank", "KILL"))
    bad = Round(plan, seen(7, leaks=("file t/x",)), rules.judge(plan, seen(7, leaks=("x",))))
    good = Round(Plan(1, 2, "lab", "spawn"), seen(0, wrong="", hit=None), Judgement("right"))
    text = rules.report([bad, good], ["a note"], "again {number} {seed}")

    assert "lab       KILL rank           1  against the rule 1" in text
    assert "lab       -                   1  right 1" in text
    assert "slowest: 1.0 s, round 1: lab 99_toy forkserver, 4 ranks; KILL to rank 2" in text
    assert "1 rounds that no rule explains, 1 leaks" in text
    assert "again 1 1" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--rounds", "0"], "--rounds 0: rounds are counted from 1"),
        (["--round", "3"], "needs the --seed"),
        (["--out", "/no/folder"], "/no/folder is not a folder"),
        (["--rounds", "many"], "invalid int value"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(capsys, arguments, says):
    with pytest.raises(SystemExit) as stop:
        soak.parse(arguments)

    assert stop.value.code == 2
    assert says in capsys.readouterr().err


class Unplayable:
    """A soak whose first round ends the run."""

    def __init__(self, folder: Path, *, private: bool) -> None:
        self.watchman = types.SimpleNamespace(first={"ports": 0}, count=lambda: {"ports": 0})

    def play(self, plan: Plan) -> Round:
        """End the run."""
        raise self.problem

    def close(self) -> tuple[str, ...]:
        """Leave nothing behind."""
        return ()


@pytest.mark.parametrize(
    ("problem", "status", "says"),
    [
        (soak.Unbuilt("the site does not build: no page"), 1, "the site does not build: no page"),
        (KeyboardInterrupt(), 130, "interrupted after 0 rounds"),
    ],
)
def test_a_run_cut_short_still_reports(monkeypatch, tmp_path, problem, status, says):
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setattr(soak, "Soak", Unplayable)
    monkeypatch.setattr(Unplayable, "problem", problem, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    options = soak.parse(["--rounds", "3", "--seed", "1", "--out", str(tmp_path)])

    assert soak.main(options, private=False) == status
    assert says in said.getvalue()
    assert (tmp_path / "soak.txt").read_text().startswith("0 rounds")
    assert json.loads((tmp_path / "soak.json").read_text()) == []


# ---- Leaks, made on purpose ----------------------------------------------------------------------

# In a process of its own: a soak adopts the orphans of its rounds, which pytest should not.
LEAKY = """
import os, socket, subprocess, sys, threading, time
from pathlib import Path
from distlab import spmd
from soak import leaks
from soak import plan as plans
folder = Path(sys.argv[1])
leaks.SHARED = (folder / "shared",)
leaks.SHARED[0].mkdir()
place = leaks.RoundFolder(folder / "r1", folder)
place.tmp.mkdir(parents=True)
place.work.mkdir()
with spmd.Launcher(preload=("json",)) as launcher:
    launcher.run(spmd.Program("pass"))
    guard = leaks.Watchman(folder, launcher, private=True)
    plan = plans.Plan(1, 1, "launcher", "")
    plans.LEAVE = 0.3
    print("nothing", guard.wait(plan, place)[1])
    kept = []
    def orphan():
        subprocess.run(["sh", "-c", "setsid sleep 67 >/dev/null 2>&1 &"], check=True)
    def marked():
        kept.append(subprocess.Popen(["sleep", "68"], env={"TMPDIR": str(place.tmp)}))
        guard.known.add(kept[-1].pid)
    def port():
        kept.append(socket.create_server(("127.0.0.1", 0)))
    def thread():
        kept.append(threading.Thread(target=time.sleep, args=(30,), daemon=True))
        kept[-1].start()
    makes = {
        "orphan": orphan,
        "marked": marked,
        "temp file": lambda: (place.tmp / "x").touch(),
        "result": lambda: (place.work / "half").touch(),
        "shared": lambda: (leaks.SHARED[0] / "torch_1_2").touch(),
        "descriptor": lambda: kept.append(open(os.devnull)),
        "port": port,
        "thread": thread,
    }
    for name, make in makes.items():
        make()
        print(name, guard.wait(plan, place)[1])
        if name == "marked":
            kept[-1].kill(), kept[-1].wait()
        for path in (place.tmp / "x", place.work / "half"):
            path.unlink(missing_ok=True)
    print("nothing", guard.wait(plan, place)[1])
"""
SEEN = {
    "orphan": "process sleep 67",
    "marked": "process sleep 68",
    "temp file": "file t/x",
    "result": "file work/half",
    "shared": "shared/torch_1_2",
    "descriptor": "caller's descriptors",
    "port": "listening ports: 1, before 0",
    "thread": "caller's threads",
}


@pytest.fixture
def python(tmp_path):
    """Return a function that runs a program with a short temp folder of its own."""
    temp = Path(tempfile.mkdtemp(prefix="soak-"))

    def run(*arguments: str) -> subprocess.CompletedProcess:
        env = os.environ | {"PYTHONPATH": os.pathsep.join(["code", "site"]), "TMPDIR": str(temp)}
        return subprocess.run([sys.executable, *arguments], capture_output=True, text=True,
                              cwd=soak.ROOT, env=env, timeout=HANG, check=False)  # fmt: skip

    yield run
    assert list(temp.iterdir()) == []
    temp.rmdir()


@pytest.mark.slow
def test_each_kind_of_leak_is_seen_once(python, tmp_path):
    done = python("-c", LEAKY, str(tmp_path))
    told = [line.partition(" (") for line in done.stdout.splitlines()]

    assert [name for name, _, _ in told] == ["nothing", *SEEN, "nothing"], done.stderr
    assert told[0][2] == told[-1][2] == ")"
    for name, _, said in told[1:-1]:
        assert SEEN[name] in said
        assert sum(words in said for words in SEEN.values()) <= 2


def test_only_a_disturbed_torchrun_may_leave_what_torch_leaves():
    calm, hit = Plan(1, 1, "lab", "torchrun"), struck(("torchrun", "rank", "KILL"))

    assert leaks.may_stay(Plan(1, 1, "lab", "spawn"))["t"] == ()
    assert leaks.may_stay(struck(("build", "server", "KILL")))["t"] == ()
    assert leaks.may_stay(calm)["t"] == ("torchelastic_*",)
    assert leaks.may_stay(hit)["t"] == ("torchelastic_*", "tmp????????")


# ---- Rounds, really played -----------------------------------------------------------------------


SHORT = 18438
"""A seed whose first two rounds are short: programs on the launcher, and a check that is struck."""


@pytest.mark.slow
def test_two_rounds_are_played_and_reported(python, tmp_path):
    assert [plans.plan(SHORT, number).job for number in (1, 2)] == ["launcher", "practice"]
    assert plans.plan(SHORT, 2).strike

    done = python("-m", "soak", "--rounds", "2", "--seed", str(SHORT), "--out", str(tmp_path))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 rounds that no rule explains, 0 leaks" in (tmp_path / "soak.txt").read_text()
    played = json.loads((tmp_path / "soak.json").read_text())
    assert [each["judgement"]["faults"] for each in played] == [[], []]
