"""What `nox -s soak` will do and what may come of it: plans, rules and tallies as plain data.

Nothing here starts a process. The plan of a round follows from the seed and its number alone. The
rules stand before the run: an undisturbed round must be right; a disturbed one must end by its
deadline, right or as RULES says; an outcome that no rule explains is a fault.
"""

from __future__ import annotations

import random
import re
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from distlab import spmd
from distlab.practice import tasks

METHODS = ("spawn", "forkserver", "torchrun")
WORLDS = range(1, 9)
ENDLESS = 10**9
"""Training steps of a lab that only its disturbance ends."""

BUSY = (0, 0, 1, 1, 2, 3)
"""How many processes compute beside a round; one of these."""

SPAN = {"lab": 12.0, "practice": 6.0, "build": 60.0}
"""Seconds from the start of a job within which it is struck."""

DEADLINE = {"lab": 330.0, "practice": 150.0, "build": 900.0, "launcher": 120.0}
"""Seconds that a job may take; a lab gives a silent rank 70, and up to 240 while it imports."""

LEAVE = 30.0
"""Seconds that the rest of a job may take to leave: an import of torch cannot be cut short."""

LEAVE_TORCHRUN = 100.0
"""... if torchrun was killed: it leaves its workers, which end by themselves or time out."""


@dataclass(frozen=True)
class Strike:
    """A disturbance: a signal, to whom, and when.

    signal: "KILL", "TERM", "INT", "STOP", or "PAUSE": stopped, continued a few seconds later
    target: "rank", "parent" or "server", the fork server between them
    rank:   which rank, if it is one (of a build: which of those that run)
    delay:  seconds from the start of the job; later if there is no such process yet
    """

    signal: str
    target: str
    rank: int
    delay: float


@dataclass(frozen=True)
class Plan:
    """One round.

    job:      "lab", "practice", "build", or "launcher": several programs on the one server
    how:      the lab's start method; "solution" or "stub"; the names of the launcher's programs
    task:     the exercise's id
    ranks:    world size of the lab and of the launcher's programs
    steps:    the lab's training steps
    busy:     how many processes compute beside it
    culprits: for each of the launcher's programs, the rank that misbehaves
    moments:  ... and the seconds after which it is struck, if the program waits for that
    """

    seed: int
    number: int
    job: str
    how: str
    task: str = ""
    ranks: int = 1
    steps: int = 5
    busy: int = 0
    strike: Strike | None = None
    culprits: tuple[int, ...] = ()
    moments: tuple[float, ...] = ()

    @property
    def disturbance(self) -> tuple[str, str, str]:
        """Return job, target and signal: the key of its rule."""
        job = self.how if self.how == "torchrun" else self.job
        return (job, self.strike.target, self.strike.signal) if self.strike else (job, "", "")

    @property
    def leave(self) -> float:
        """Seconds that its processes and files may take to be gone."""
        return LEAVE_TORCHRUN if self.disturbance == ("torchrun", "parent", "KILL") else LEAVE

    def __str__(self) -> str:
        what = {"lab": f"lab {self.how}, {self.ranks} ranks", "build": "cold build",
                "practice": f"check {self.task} {self.how}",
                "launcher": f"{self.ranks} ranks: {self.how}"}[self.job]  # fmt: skip
        if not self.strike:
            return what
        whom = f"rank {self.strike.rank}" if self.strike.target == "rank" else self.strike.target
        return f"{what}; {self.strike.signal} to {whom} after {self.strike.delay:.1f} s"


# ---- Plans ---------------------------------------------------------------------------------------

DECK = 100
"""Rounds in which every kind comes: 36 labs, 36 exercise checks, 7 cold builds, 21 launchers."""

STRUCK = {"spawn": 6, "forkserver": 6, "torchrun": 6, "practice": 18, "build": 5}
"""How many cards of each kind are struck in a deck."""


@dataclass(frozen=True)
class Card:
    """What a round will be about: job, how, exercise or world size, and (target, signal) if any."""

    job: str
    how: str
    what: str | int
    strike: tuple[str, str] | None = None


def _random(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311 -- to be repeated, not to be secret


def deck(seed: int, number: int) -> list[Card]:
    """Return the cards of a deck, shuffled.

    Every start method comes with every world size, every exercise with its solution and its stub.
    What is struck in an even deck is left alone in the next, and the other way round (builds: five
    of seven are struck). Each kind's disturbances come in turn, so that few decks hold them all.
    """
    more = _random(f"{seed} more {number}")
    cards = []
    for method in METHODS:
        worlds = [*WORLDS, *(more.choice(WORLDS) for _ in range(4))]
        cards += _struck(seed, number, method, [Card("lab", method, world) for world in worlds])
    ids = [task.id for task in tasks.everything()]
    checks = [Card("practice", how, task) for task in ids for how in ("solution", "stub")]
    cards += _struck(seed, number, "practice", checks)
    cards += [Card("build", "cold", 0)] * 2
    cards += _deal(seed, number, "build", [Card("build", "cold", 0)] * STRUCK["build"])
    cards += [Card("launcher", "", 0)] * (DECK - len(cards))
    _random(f"{seed} order {number}").shuffle(cards)
    return cards


def _struck(seed: int, number: int, kind: str, cards: list[Card]) -> list[Card]:
    """Return the cards, every other one with a disturbance; the others in the next deck."""
    hit = [(place + place // 2 + number) % 2 for place in range(len(cards))]
    struck = _deal(seed, number, kind, [card for card, h in zip(cards, hit, strict=True) if h])
    return [card for card, h in zip(cards, hit, strict=True) if not h] + struck


def _deal(seed: int, number: int, kind: str, cards: list[Card]) -> list[Card]:
    """Give each card the next disturbance of its kind."""
    known = disturbances(kind)
    _random(f"{seed} strikes {kind}").shuffle(known)
    first = number * STRUCK[kind]
    return [replace(c, strike=known[(first + n) % len(known)]) for n, c in enumerate(cards)]


def disturbances(kind: str) -> list[tuple[str, str]]:
    """Return what can be done to a start method, a check or a build: pairs (target, signal)."""
    servers = ("parent",) if kind in ("spawn", "torchrun") else ("parent", "server")
    found = [("rank", signal) for signal in ("KILL", "TERM", "INT", "STOP")]
    return found + [(t, signal) for t in servers for signal in ("KILL", "TERM", "INT", "PAUSE")]


def plan(seed: int, number: int) -> Plan:
    """Return the plan of a round, numbered from 1."""
    card = deck(seed, (number - 1) // DECK)[(number - 1) % DECK]
    rng = _random(f"{seed} round {number}")
    busy = rng.choice(BUSY)
    if card.job == "launcher":
        programs = rng.sample(sorted(PROGRAMS), 4)
        ranks = rng.choice(WORLDS)
        culprits = tuple(rng.randrange(ranks) for _ in programs)
        how = ", ".join(programs)
        moments = tuple(round(rng.uniform(0, 2), 2) for _ in programs)
        return Plan(seed, number, card.job, how, "", ranks, 0, busy, None, culprits, moments)
    ranks = card.what if card.job == "lab" else 4
    strike = _strike(rng, card, ranks) if card.strike else None
    steps = ENDLESS if strike and rng.random() < 0.7 and _ends(card.how, strike) else 5
    task = card.what if card.job == "practice" else ""
    return Plan(seed, number, card.job, card.how, task, ranks, steps, busy, strike)


def _strike(rng: random.Random, card: Card, ranks: int) -> Strike:
    target, signal = card.strike
    if signal == "STOP" and ranks == 1:
        signal = "KILL"  # it has no peer that would time out: torchrun would wait for ever
    return Strike(signal, target, rng.randrange(ranks), round(rng.uniform(0, SPAN[card.job]), 2))


def _ends(how: str, strike: Strike) -> bool:
    """Tell whether this disturbance is sure to end a lab that would train on for ever."""
    if strike.target == "rank":  # ranks that the lab starts ignore Ctrl-C
        return strike.signal != "INT"
    if strike.target == "server":  # so does their fork server
        return strike.signal in ("KILL", "TERM")
    return strike.signal in ("TERM", "INT") or (strike.signal == "KILL" and how != "torchrun")


# ---- Rules ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """How a disturbed job may end, if it does not end right.

    exits:  the exit statuses
    says:   a pattern that stands in what it printed; {rank} is the rank that was struck
    early:  the exit statuses if it had started nothing yet: Python's own end
    traces: whether a traceback with lines of ours may be printed
    """

    exits: tuple[int, ...] = ()
    says: str = ""
    early: tuple[int, ...] = ()
    traces: bool = False


INTERRUPTED = (1, -2, 130)
NO_SERVER = r"the fork server has ended"
NO_PAGE = r"no page was written"
NAMED = r"(?m)^FAILED: rank {rank} "

RULES = {
    # The lab names the rank and how it ended, or that the user has interrupted it.
    ("lab", "rank", "KILL"): Rule((1,), NAMED + r"ended early: exit status -9 \("),
    ("lab", "rank", "TERM"): Rule((1,), NAMED + r"ended early: exit status -15 \("),
    ("lab", "rank", "INT"): Rule((1,), NAMED, traces=True),  # Python's start only; then ignored
    ("lab", "rank", "STOP"): Rule((1,), NAMED + "does not answer"),
    ("lab", "parent", "KILL"): Rule((-9,)),
    ("lab", "parent", "TERM"): Rule((1,), "(?m)^FAILED: interrupted before the verdict", (-15,)),
    ("lab", "parent", "INT"): Rule((1,), "(?m)^FAILED: interrupted before the verdict",
                                   INTERRUPTED),
    ("lab", "parent", "PAUSE"): Rule(),
    ("lab", "server", "KILL"): Rule((1,), r"(?m)^FAILED: rank \d "),
    ("lab", "server", "TERM"): Rule((1,), r"(?m)^FAILED: rank \d "),
    ("lab", "server", "INT"): Rule((1,), r"(?m)^FAILED: rank \d ", traces=True),
    ("lab", "server", "PAUSE"): Rule(),
    # torchrun names the rank; what it prints at its own end is torch's.
    ("torchrun", "rank", "KILL"): Rule((1,), r"\(local_rank: {rank}\)\s+exitcode\s*: -9"),
    ("torchrun", "rank", "TERM"): Rule((1,), r"\(local_rank: {rank}\)\s+exitcode\s*: -15"),
    ("torchrun", "rank", "INT"): Rule((1,), r"\(local_rank: {rank}\)\s+exitcode\s*: (1|-2)\b",
                                      traces=True),
    ("torchrun", "rank", "STOP"): Rule((1,), "ChildFailedError", traces=True),
    ("torchrun", "parent", "KILL"): Rule((-9,), traces=True),
    ("torchrun", "parent", "TERM"): Rule((1, -15), "", (-15,), traces=True),
    ("torchrun", "parent", "INT"): Rule((*INTERRUPTED,), "", INTERRUPTED, traces=True),
    ("torchrun", "parent", "PAUSE"): Rule(),
    # The grader names the rank; without its fork server it says so.
    ("practice", "rank", "KILL"): Rule((1,), "rank {rank} was ended by signal 9"),
    ("practice", "rank", "TERM"): Rule((1,), "rank {rank} was ended by signal 15"),
    ("practice", "rank", "INT"): Rule((1,), "rank {rank}"),
    ("practice", "rank", "STOP"): Rule((1,), "rank"),
    ("practice", "parent", "KILL"): Rule((-9,)),
    ("practice", "parent", "TERM"): Rule((-15,), "", (-15,)),
    ("practice", "parent", "INT"): Rule((130,), "", INTERRUPTED),
    ("practice", "parent", "PAUSE"): Rule(),
    ("practice", "server", "KILL"): Rule((3,), NO_SERVER),
    ("practice", "server", "TERM"): Rule((3,), NO_SERVER),
    ("practice", "server", "INT"): Rule((3,), NO_SERVER),
    ("practice", "server", "PAUSE"): Rule(),
    # A build publishes nothing, and names the fence's rank.
    ("build", "rank", "KILL"): Rule((1,), rf"(?s)rank {{rank}} ended by signal 9.*{NO_PAGE}"),
    ("build", "rank", "TERM"): Rule((1,), rf"(?s)rank {{rank}} ended .*{NO_PAGE}"),
    ("build", "rank", "INT"): Rule((1,), rf"(?s)rank {{rank}} ended .*{NO_PAGE}"),
    ("build", "rank", "STOP"): Rule((1,), rf"(?s)still running at the deadline.*{NO_PAGE}"),
    ("build", "parent", "KILL"): Rule((-9,)),
    ("build", "parent", "TERM"): Rule((-15,), "", (-15,)),
    ("build", "parent", "INT"): Rule(INTERRUPTED, "Aborted", INTERRUPTED),
    ("build", "parent", "PAUSE"): Rule(),
    ("build", "server", "KILL"): Rule((1,), rf"(?s){NO_SERVER}.*{NO_PAGE}", traces=True),
    ("build", "server", "TERM"): Rule((1,), rf"(?s){NO_SERVER}.*{NO_PAGE}", traces=True),
    ("build", "server", "INT"): Rule((1,), rf"(?s){NO_SERVER}.*{NO_PAGE}", traces=True),
    ("build", "server", "PAUSE"): Rule(),
}  # fmt: skip

OURS = re.compile(r'Traceback \(most recent call last\):\n(?:[ |].*\n)*?[ |]+File "[^"]*/'
                  r'(?:code/distlab|site|exercises|courses/pytorch/code)/[^"]*\.py"')  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What came of a round.

    exit:    the job's exit status, None if it had to be ended at its deadline
    seconds: from its start to its end
    output:  all that it printed
    wrong:   why it is not what an undisturbed job must be, "" if it is
    hit:     the rank, or the process id of another target, that was struck; None if it had ended
    begun:   whether it had started a process of its own when it was struck
    leaving: seconds from its end until its processes and files were gone
    leaks:   what was not gone by then, a line each
    """

    exit: int | None
    seconds: float
    output: str
    wrong: str
    hit: int | None = None
    begun: bool = False
    leaving: float = 0.0
    leaks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """A round's outcome in words, and the faults that no rule explains."""

    outcome: str
    faults: tuple[str, ...] = ()


def judge(plan: Plan, seen: Seen) -> Verdict:
    """Return what came of a round by the rules."""
    outcome, fault = _ending(plan, seen)
    faults = [fault] if fault else []
    rule = RULES.get(plan.disturbance, Rule()) if seen.hit is not None else Rule()
    early = seen.hit is not None and not seen.begun
    if OURS.search(seen.output) and not (rule.traces or early):
        faults.append("a traceback of ours was printed")
    faults += [f"left behind: {leak}" for leak in seen.leaks]
    return Verdict(outcome, tuple(faults))


def _ending(plan: Plan, seen: Seen) -> tuple[str, str]:
    """Return the outcome in words and what is wrong with it, or ""."""
    if seen.exit is None:
        return "did not end", f"no end within {DEADLINE[plan.job]:.0f} s"
    if not seen.wrong:
        return "right" if seen.hit is not None or not plan.strike else "right, over before", ""
    if seen.hit is None:
        return "wrong", f"undisturbed, and {seen.wrong}"
    rule = RULES[plan.disturbance]
    if plan.job == "build" and plan.strike.target == "rank" and seen.exit == 0:
        return "as declared, another page", ""  # the struck fence may fail, as it is declared to
    if not seen.begun and seen.exit in rule.early:
        return "ended before it began", ""
    if seen.exit in rule.exits and re.search(rule.says.format(rank=seen.hit), seen.output):
        return f"exit status {seen.exit}" + (", as the rule says" if rule.says else ""), ""
    allowed = " or ".join(map(str, rule.exits)) or "none: it must be right"
    saying = f" saying {rule.says.format(rank=seen.hit)!r}" if rule.says else ""
    return "against the rule", (
        f"exit status {seen.exit} ({seen.wrong}); the rule for {' '.join(plan.disturbance)}: "
        f"{allowed}{saying}"
    )


# ---- The launcher's programs ---------------------------------------------------------------------

GROUP = 'import os, time, torch, torch.distributed as dist\ndist.init_process_group("gloo")\n'
ON = 'if os.environ["RANK"] == "{}":\n    '


@dataclass(frozen=True)
class Does:
    """A program for the long-lived launcher, and what must come of it.

    source:  with {rank} for the culprit
    cause:   the outcome's
    exit:    of the culprit
    says:    in the last error or the output of the culprit
    options: further ones of spmd.Program
    outside: a signal that the soak sends to the culprit
    """

    source: str
    cause: str
    exit: int = 0
    says: str = ""
    options: tuple[tuple[str, object], ...] = ()
    outside: str = ""


def _misbehaves(does: str) -> str:
    return GROUP + ON.format("{rank}") + does + "\ntime.sleep(100)\n"


SHORT = (("timeout", 4.0),)
PROGRAMS = {
    "finish": Does(
        GROUP + "x = torch.ones(3)\ndist.all_reduce(x)\n"
        "assert x.tolist() == [dist.get_world_size()] * 3\nprint('sum', dist.get_world_size())\n"
        "dist.destroy_process_group()\n", "finished", says="sum"),
    "raise": Does(_misbehaves("raise ValueError('boom')"), "failed", 1, "ValueError: boom"),
    "hang": Does(GROUP + ON.format("{rank}") + "time.sleep(100)\ndist.barrier()\n",
                 "deadline", -9, options=SHORT),
    "exit": Does(_misbehaves("os._exit(3)"), "failed", 3),
    "exit 0": Does(_misbehaves("os._exit(0)"), "failed", 0),
    "abort": Does(_misbehaves("os.abort()"), "failed", -6),
    "flood": Does(_misbehaves("while True: print('x' * 1000)"), "flood", -9),
    "kill": Does(_misbehaves("time.sleep(100)"), "failed", -9, outside="KILL"),
    "term": Does(_misbehaves("time.sleep(100)"), "failed", -15, outside="TERM"),
    "stop": Does(_misbehaves("os.kill(os.getpid(), 19)"), "deadline", -9, options=SHORT),
    "leave": Does(
        "import os, subprocess\n" + ON.format("{rank}")
        + "subprocess.Popen(['sleep', '100'], start_new_session=True)\nprint('left')\n",
        "finished", says="left"),
    "fresh": Does("import os\nprint('new', os.environ['RANK'])\n", "finished", says="new",
                  options=(("start", "fresh"),)),
}  # fmt: skip


def program(name: str, culprit: int, ranks: int) -> spmd.Program:
    """Return one of PROGRAMS for so many ranks."""
    does = PROGRAMS[name]
    options = {"timeout": 60.0, "ranks": ranks} | dict(does.options)
    source = does.source.replace("{rank}", str(culprit))
    return spmd.Program(f"{source}# {name}\n", **options)


def wrong(name: str, culprit: int, outcome: spmd.Outcome) -> str:
    """Return how an outcome differs from what the program must come to, or ""."""
    does, rank = PROGRAMS[name], outcome.ranks[culprit]
    blamed = culprit if does.cause == "failed" else None
    said = rank.stdout + rank.stderr
    checks = {
        f"cause {outcome.cause}": outcome.cause == does.cause,
        f"blamed rank {outcome.first_failed}": outcome.first_failed == blamed,
        f"rank {culprit} exit {rank.exit}": rank.exit == does.exit,
        f"rank {culprit} said {said[-200:]!r}": does.says in said,
        f"left behind {outcome.left_behind}": bool(outcome.left_behind) == (name == "leave"),
    }
    unmet = [what for what, met in checks.items() if not met]
    return f"{name}: {', '.join(unmet)}" if unmet else ""


# ---- The tally -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """A round that was played."""

    plan: Plan
    seen: Seen
    verdict: Verdict


def tally(rounds: Iterable[Round]) -> dict[tuple[str, str], Counter[str]]:
    """Count outcomes by job and disturbance; "-" where nothing was struck."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for each in rounds:
        job, target, signal = each.plan.disturbance
        key = (job, f"{signal} {target}" if target else "-")
        counts.setdefault(key, Counter())[each.verdict.outcome] += 1
    return counts


def report(rounds: list[Round], notes: Iterable[str], again: str) -> str:
    """Return the report: tally, leaks, the slowest, notes, and every fault with its command."""
    lines = [f"{len(rounds)} rounds", "", f"{'job':10}{'struck':14}{'rounds':>7}  outcomes"]
    for (job, struck), outcomes in sorted(tally(rounds).items()):
        told = "; ".join(f"{outcome} {n}" for outcome, n in outcomes.most_common())
        lines.append(f"{job:10}{struck:14}{outcomes.total():7}  {told}")
    faulty = [each for each in rounds if each.verdict.faults]
    leaks = sum(len(each.seen.leaks) for each in rounds)
    lines += ["", *_seconds(rounds), "", *notes, ""]
    lines.append(f"{len(faulty)} rounds that no rule explains, {leaks} leaks")
    for each in faulty:
        lines += ["", f"round {each.plan.number}: {each.plan}"]
        lines += [f"    {fault}" for fault in each.verdict.faults]
        lines += [f"    again: {again.format(number=each.plan.number, seed=each.plan.seed)}"]
    return "\n".join(lines)


def _seconds(rounds: list[Round]) -> list[str]:
    """Return how long undisturbed jobs took, and the slowest of all and the slowest to leave."""
    lines = []
    for job in DEADLINE:
        took = [each.seen.seconds for each in rounds if each.plan.job == job
                and not each.plan.strike]  # fmt: skip
        if took:
            middle, most = statistics.median(took), max(took)
            lines.append(f"{job}, undisturbed: median {middle:.1f} s, slowest {most:.1f} s")
    for what, key in (("slowest", "seconds"), ("slowest to leave", "leaving")):
        for each in sorted(rounds, key=lambda r: -getattr(r.seen, key))[:3]:
            took = getattr(each.seen, key)
            lines.append(f"{what}: {took:.1f} s, round {each.plan.number}: {each.plan}")
    return lines
