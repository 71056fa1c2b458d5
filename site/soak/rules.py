"""How a round of `nox -s soak` may end, said before the run, and the report.

An undisturbed round must be right; a disturbed one must end by its deadline, right or as RULES
says. An outcome that no rule explains is a fault. Nothing here starts a process.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from soak.plan import DEADLINE, Plan


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
    ("practice", "server", "INT"): Rule((3,), NO_SERVER, traces=True),  # as above: its start only
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
                  r'(?:code/(?:distlab|press)|site|exercises|pytorch/code)/[^"]*\.py"')  # fmt: skip


@dataclass(frozen=True)
class Observed:
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
class Judgement:
    """A round's outcome in words, and the faults that no rule explains."""

    outcome: str
    faults: tuple[str, ...] = ()


def judge(plan: Plan, seen: Observed) -> Judgement:
    """Return what came of a round by the rules."""
    outcome, fault = _ending(plan, seen)
    faults = [fault] if fault else []
    rule = RULES.get(plan.disturbance, Rule()) if seen.hit is not None else Rule()
    early = seen.hit is not None and not seen.begun
    if OURS.search(seen.output) and not (rule.traces or early):
        faults.append("a traceback of ours was printed")
    faults += [f"left behind: {leak}" for leak in seen.leaks]
    return Judgement(outcome, tuple(faults))


def _ending(plan: Plan, seen: Observed) -> tuple[str, str]:
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


# ---- The tally -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """A round that was played."""

    plan: Plan
    observed: Observed
    judgement: Judgement


def tally(rounds: Iterable[Round]) -> dict[tuple[str, str], Counter[str]]:
    """Count outcomes by job and disturbance; "-" where nothing was struck."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for each in rounds:
        job, target, signal = each.plan.disturbance
        key = (job, f"{signal} {target}" if target else "-")
        counts.setdefault(key, Counter())[each.judgement.outcome] += 1
    return counts


def report(rounds: list[Round], notes: Iterable[str], again: str) -> str:
    """Return the report: tally, leaks, the slowest, notes, and every fault with its command."""
    lines = [f"{len(rounds)} rounds", "", f"{'job':10}{'struck':14}{'rounds':>7}  outcomes"]
    for (job, struck), outcomes in sorted(tally(rounds).items()):
        told = "; ".join(f"{outcome} {n}" for outcome, n in outcomes.most_common())
        lines.append(f"{job:10}{struck:14}{outcomes.total():7}  {told}")
    faulty = [each for each in rounds if each.judgement.faults]
    leaks = sum(len(each.observed.leaks) for each in rounds)
    lines += ["", *_seconds(rounds), "", *notes, ""]
    lines.append(f"{len(faulty)} rounds that no rule explains, {leaks} leaks")
    for each in faulty:
        lines += ["", f"round {each.plan.number}: {each.plan}"]
        lines += [f"    {fault}" for fault in each.judgement.faults]
        lines += [f"    again: {again.format(number=each.plan.number, seed=each.plan.seed)}"]
    return "\n".join(lines)


def _seconds(rounds: list[Round]) -> list[str]:
    """Return how long undisturbed jobs took, and the slowest of all and the slowest to leave."""
    lines = []
    for job in DEADLINE:
        took = [each.observed.seconds for each in rounds if each.plan.job == job
                and not each.plan.strike]  # fmt: skip
        if took:
            middle, most = statistics.median(took), max(took)
            lines.append(f"{job}, undisturbed: median {middle:.1f} s, slowest {most:.1f} s")
    for what, key in (("slowest", "seconds"), ("slowest to leave", "leaving")):
        for each in sorted(rounds, key=lambda r: -getattr(r.observed, key))[:3]:
            took = getattr(each.observed, key)
            lines.append(f"{what}: {took:.1f} s, round {each.plan.number}: {each.plan}")
    return lines
