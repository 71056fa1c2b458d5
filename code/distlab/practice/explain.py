"""Say what went wrong in a run: the cause before its consequences, with rank, line and case."""

from __future__ import annotations

import re
from collections import Counter

from distlab.practice import tasks
from distlab.practice.task import Task
from distlab.practice.verdict import RankReport, Trial, Verdict
from distlab.spmd import rank_names, texts

Finding = tuple[str, str, tuple[tuple[str, str], ...], str]
"""Kind, headline, details, and what to think about."""

CONNECTION = re.compile(r"[Cc]onnection (closed|reset)|pair closure|[Cc]onnection refused")

THINK = {
    "stub": "Nothing is written yet. Read the docstring; `hint {id}` asks a first question.",
    "missing": "The grader calls it by name. `reset {id}` brings the signature back.",
    "process": "The ranks are there already: an answer runs inside one of them and starts none.",
    "library": "That call does the exercise's work. Write it from: {allows}.",
    "swallowed": "The error was caught and the answer went on, so a message is missing from here "
    "on. Let errors out: the grader shows them with their line.",
    "signature": "The grader calls what the stub defines, with those arguments: compare with "
    "`reset {id}`, and with what the docstring says is returned.",
}

ERRORS = (
    ("Pair is not connected", "A rank cannot send to itself or hear from itself. Which peer does "
     "this line compute, for this rank?"),
    ("contiguous", "gloo moves contiguous memory only: call contiguous() first, and copy the "
     "result back where it belongs."),
    ("process group has not been initialized", "The process group is the grader's and serves all "
     "cases: an answer does not destroy it."),
    ("default process group twice", "The process group is there already: ask it for get_rank() and "
     "get_world_size()."),
    ("not part of group", "That rank does not exist in this group: compute peers modulo p."),
    ("Invalid destination rank", "A rank cannot send to itself. Which peer is this?"),
    ("Invalid source rank", "A rank cannot hear from itself. Which peer is this?"),
    ("'NoneType'", "Something is None here: a parameter without a gradient (frozen, or not used "
     "on this rank)? Ranks may differ in which ones those are."),
    ("assign a gradient with dtype", "There are several dtypes here: a flat tensor holds one, "
     "so there must be one per dtype."),
    ("invalid for input of size", "The pieces are cut in another order, or in other sizes, than "
     "they were packed."),
    ("must match the size of tensor", "Two shapes do not fit. Is one kept from an earlier "
     "step, under a place where another parameter stands now?"),
    ("empty parameter list", "This rank got no parameter at all. There can be more ranks than "
     "parameters: what shall such a rank do?"),
    ("a leaf Variable that requires grad", "Autograd records what you do to parameters: work under "
     "torch.no_grad(), or on p.data or p.grad."),
    ("must be a Tensor", "A collective takes a tensor: make one of your number first."),
    ("preamble", "A message came with another size than was awaited: do both sides compute the "
     "same shapes, and the same order of calls?"),
)  # fmt: skip


def finding(run: Trial) -> Finding:
    """Return what went wrong in a run that did not pass."""
    if run.cause == "flood":
        return _flood(run)
    failed = [rank for rank in run.ranks if rank.failure]
    first = min(failed, key=_cause_first, default=None)
    ended = [rank for rank in run.ranks if not (rank.failure or rank.done or rank.outcome.killed)]
    if ended and (first is None or _lost(first) or ended[0].case[0] < first.case[0]):
        return _ended_early(run, ended[0])
    told_by_value = first and first.failure["kind"] in ("value", "rule", "traffic")
    if first is None or (told_by_value and _waiting(run, first.case[0])):
        waiting = _waiting(run) or [rank for rank in run.ranks if rank.outcome.killed]
        return _hang(run, waiting) if waiting else _left_behind(run)
    return _failed(run, first)


def _cause_first(rank: RankReport) -> tuple:
    """Order failures: by case, causes before what a dead peer caused, exceptions by their time."""
    failure = rank.failure
    when = failure["time"] if failure["kind"] == "raised" else float("inf")
    return failure["case"], _lost(rank), when, rank.outcome.rank


def _lost(rank: RankReport) -> bool:
    """Tell whether a rank failed only because a peer had ended."""
    failure = rank.failure
    seen = failure and failure["kind"] in ("raised", "swallowed")
    return bool(seen and CONNECTION.search(failure["what"] + failure["got"]))


def _waiting(run: Trial, case: int = 0) -> list[RankReport]:
    """Return the ranks that did not come back from the answer's communication in a case."""
    waiting = [r for r in run.ranks if (r.outcome.killed and not r.returned) or _lost(r)]
    return [rank for rank in waiting if case in (0, rank.case[0])]


def _where(run: Trial, ranks: list[RankReport]) -> tuple[str, str]:
    world = len(run.ranks)
    return ("where", f"{_names(ranks)} of {world}, in the case: {ranks[0].case[1]}")


def _names(ranks: list[RankReport]) -> str:
    return rank_names.listed([rank.outcome.rank for rank in ranks])


def _failed(run: Trial, rank: RankReport) -> Finding:
    alike = [r for r in run.ranks if r.failure and _key(r.failure) == _key(rank.failure)]
    thoughts = Counter(r.failure["think"] for r in alike)
    told = max(alike, key=lambda r: thoughts[r.failure["think"]])  # the first of the most
    failure, task = told.failure, run.task
    kind, what = failure["kind"], failure["what"]
    details = [_where(run, alike)]
    if kind in ("raised", "stub", "signature", "internal"):
        details += [("line", line) for line in failure["got"].splitlines()[-3:]]
        kind = "lost" if _lost(rank) else kind
    else:
        details += [(key, failure[key]) for key in ("expected", "got") if failure[key]]
    headline = {
        "value": f"{what} is not what it should be",
        "traffic": f"{what}: too many",
        "stub": f"not begun, {task.asks[0]} raises NotImplementedError",
        "raised": f"your code raised {what}",
        "lost": f"a connection broke: {what}",
        "library": f"{what}, which this task replaces",
        "swallowed": f"{what}, and your code went on",
        "signature": f"calling {task.asks[0]} failed: {what}",
        "internal": f"the grader itself failed: {what} (a defect of ours: please report it)",
    }.get(kind, what)
    return kind, headline, tuple(details), failure["think"] or _advice(task, kind, what)


def _key(failure: dict) -> tuple:
    return failure["case"], failure["kind"], failure["what"]


def _advice(task: Task, kind: str, what: str) -> str:
    if kind in THINK:
        allows = ", ".join(f"dist.{name}" for name in sorted(task.allows)) or "no communication"
        return THINK[kind].format(id=tasks.spelling(task), allows=allows)
    for part, think in ERRORS:
        if part in what:
            return think
    if kind == "lost":
        return f"A peer had ended, or never made its part of the call. {task.hangs}"
    return "Read the line, then ask what its values are on this rank; print them if in doubt."


def _ended_early(run: Trial, rank: RankReport) -> Finding:
    code = rank.outcome.exit
    details = (_where(run, [rank]),)
    if code is not None and code < 0:
        said = texts.normalise(texts.last_error(rank.outcome.stderr)).strip()[:300]
        details += (("said", said),) if said else ()
        headline = f"{_names([rank])} was ended by signal {-code}"
        think = "Not Python but the code under it gave up. What did the last lines hand to it?"
        if "gloo" in said:
            think = f"{dict(ERRORS).get('preamble')} {run.task.hangs}"
        return "signal", headline, details, think
    headline = f"{_names([rank])} left with status {code} before your code returned"
    think = "os._exit and the like end the process under the grader. Return instead: a rank that "
    think += "leaves early leaves its peers waiting."
    return "exit", headline, details, think


def _flood(run: Trial) -> Finding:
    loud = max(run.ranks, key=lambda rank: len(rank.outcome.stdout) + len(rank.outcome.stderr))
    details = (_where(run, [loud]), *_stands(run, loud))
    headline = f"{_names([loud])} printed more than 4 MiB and was stopped"
    think = "A print in a loop that does not end? Print a shape or a sum."
    return "flood", headline, details, think


def _left_behind(run: Trial) -> Finding:
    what = "; ".join(run.left_behind) or "a process"
    return "process", f"your code left running: {what}", (), THINK["process"]


def _hang(run: Trial, stuck: list[RankReport]) -> Finding:
    dropped = [event for rank in run.ranks for event in rank.events if event["event"] == "dropped"]
    if dropped:
        return _dropped(run, stuck, dropped[0])
    back = [rank for rank in run.ranks if rank.returned and not _lost(rank)]
    computing = [r for r in stuck if not (_lost(r) or _communication(r))]
    details = [("where", f"{len(run.ranks)} ranks, in the case: {stuck[0].case[1]}")]
    for rank in stuck:
        details += _stands(run, rank)
    if back:
        details.append((_names(back), "had returned from your code"))
    if computing:
        headline = f"{_names(computing)} did not come to an end in {run.seconds:.0f} s"
        think = "It is not waiting for a peer: it computes. A loop whose condition never changes?"
        return "endless", headline, tuple(details), think
    headline = f"{_names(stuck)} wait{'s' * (len(stuck) == 1)} for a message that never comes"
    think = run.task.hangs
    if back:
        think = f"{_names(back).capitalize()} made fewer calls than the others. {think}"
    return "hang", headline, tuple(details), think


def _dropped(run: Trial, stuck: list[RankReport], event: dict) -> Finding:
    headline = f"{event['name']} on line {event['line']} was started and never awaited"
    details = [_where(run, stuck)]
    for rank in stuck:
        details += _stands(run, rank)
    think = "Its Work was thrown away, and the message with it: a peer waits for it now. Keep the "
    think += "Work that an asynchronous call returns, and call wait()."
    return "unawaited", headline, tuple(details), think


def _communication(rank: RankReport) -> str:
    """Return the function of torch.distributed in which a rank stood, or ""."""
    frames = texts.FRAME.findall(rank.outcome.stack)
    for path, _, name in frames:
        if path.endswith("practice/recorder.py") and name in ("wait", "is_completed"):
            return name
        if "torch/distributed/" in path and not path.endswith("c10d_logger.py"):
            return name
        if path.endswith(".py") and "/work/" in path:
            return ""
    return ""


def _stands(run: Trial, rank: RankReport) -> tuple[tuple[str, str], ...]:
    if _lost(rank):
        stood = rank.failure["got"].splitlines() or ["came back, and lost its peer"]
        return ((f"rank {rank.outcome.rank}", stood[-1]),)
    lines = run.text.splitlines()
    for path, number, name in texts.FRAME.findall(rank.outcome.stack):
        if path.endswith(f"/{run.task.file}") and int(number) <= len(lines):
            call = _communication(rank)
            waits = f" (waiting in {call})" if call else ""
            code = lines[int(number) - 1].strip()
            return ((f"rank {rank.outcome.rank}", f"line {number}, in {name}: {code}{waits}"),)
    return ((f"rank {rank.outcome.rank}", "stands outside your file"),)


def diagnosis(task: Task, given: object) -> Verdict | None:
    """Return the verdict on a bug's diagnosis, or None if it is right."""
    if given == task.answer:
        return None
    if given in ("?", "", None):
        headline = "not begun, set DIAGNOSIS to the letter of the cause"
        think = "Run it in your head on two ranks that differ, then choose a letter from the list."
        return Verdict(False, "stub", headline, think=think)
    headline = f"the cause is not {given!r}"
    return Verdict(False, "diagnosis", headline, think=task.hints[0])
