"""Judges what came of a fence, and tells it in words.

This is the only place where an outcome is held against the declared one.
"""

from __future__ import annotations

import signal

from distlab.spmd import Outcome, RankOutcome, texts
from press.fences import Fence, Problem


def judge(fence: Fence, outcome: Outcome, code: str) -> Problem | None:
    """Return why the outcome of this text is not the declared one; None when it is."""
    expected, met, todo = _declaration(fence, outcome)
    if met:
        return None
    rank = _rank_to_look_at(outcome)
    return Problem(
        fence.at,
        f"expected {expected}; {happened(outcome)}",
        fence.id,
        rank.rank,
        last_words(outcome, code),
        todo,
    )


def _declaration(fence: Fence, outcome: Outcome) -> tuple[str, bool, str]:
    if fence.hang:
        met = outcome.cause == "deadline" and outcome.first_failed is None
        return f"a hang at {fence.hang:g} s", met, "mend the program, or declare what it does"
    if fence.raises:
        met = outcome.cause == "failed" and any(
            fence.raises in texts.last_error(rank.stderr) for rank in outcome.ranks if rank.exit
        )
        return f"an error with {fence.raises!r}", met, "quote a part of the error shown here"
    if fence.returncode:
        first = outcome.first_failed
        met = outcome.cause == "failed" and outcome.ranks[first].exit == fence.returncode
        return f"exit status {fence.returncode}", met, "declare the status shown here"
    todo = "save it as fence.py and run: torchrun --nproc_per_node=" + str(fence.ranks)
    if outcome.cause == "deadline":
        todo = f'find what it waits for; if {fence.timeout:g} s are too short, say timeout="…"'
    return "every rank to run off its end", outcome.cause == "finished", todo


def happened(outcome: Outcome) -> str:
    """Return one clause that says how a run ended."""
    if outcome.cause == "deadline":
        return f"still running at the deadline, after {outcome.seconds:.1f} s"
    if outcome.cause == "flood":
        return "stopped, because it wrote without end"
    if outcome.cause == "finished":
        return "all ranks ran off their end"
    first = outcome.ranks[outcome.first_failed]
    if first.exit == 0:
        return f"rank {first.rank} ended with status 0 before its end (sys.exit or os._exit)"
    if first.exit and first.exit < 0:
        return f"rank {first.rank} ended by signal {-first.exit} (exit status {first.exit})"
    return f"rank {first.rank} ended with exit status {first.exit}"


def _rank_to_look_at(outcome: Outcome) -> RankOutcome:
    return outcome.ranks[outcome.first_failed or 0]


def last_words(outcome: Outcome, code: str) -> str:
    """Return the last lines of the rank to look at, then where every rank stood that was ended."""
    rank = _rank_to_look_at(outcome)
    said = texts.normalise(rank.stdout + rank.stderr).splitlines()[-8:]
    for rank in outcome.ranks:
        if stood := texts.where_it_stood(rank.stack, code):
            said += [f"rank {rank.rank} stood at", *stood.splitlines()[-6:]]
    return "\n".join(said)


def rank_texts(fence: Fence, outcome: Outcome, code: str) -> list[str]:
    """Return what each rank said and, where it was killed, where it stood."""
    lines = []
    for rank in outcome.ranks:
        text = texts.normalise(rank.stdout)
        text += texts.without_torch(texts.normalise(rank.stderr))
        if rank.killed:
            after = f"after {fence.hang:g} s" if fence.hang else "when it was ended"
            stood = texts.where_it_stood(rank.stack, code) or "  unknown"
            text += f"(where it stood {after})\n{stood}\n"
        elif rank.exit and rank.exit < 0:
            text += f"(ended by {signal.Signals(-rank.exit).name}: exit status {rank.exit})\n"
        lines.append(text)
    return lines
