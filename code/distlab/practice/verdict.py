"""What a check comes to, and what it is told from: trials, with a report from each rank."""

from __future__ import annotations

from dataclasses import dataclass

from distlab import spmd
from distlab.practice.task import Task


@dataclass(frozen=True)
class Verdict:
    """What came of one check.

    passed:   whether all cases passed at every number of ranks
    kind:     "passed", or what failed: "value", "traffic", "hang", "stub", "syntax", ...
    headline: one line that names the finding
    details:  pairs (label, text): where, what was expected, what came, on which rank
    think:    what to think about next
    printed:  what the answer printed, per rank
    seconds:  how long the longest of the runs took
    """

    passed: bool
    kind: str
    headline: str
    details: tuple[tuple[str, str], ...] = ()
    think: str = ""
    printed: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class RankReport:
    """What one rank reported, and how its process ended."""

    outcome: spmd.RankOutcome
    events: tuple[dict, ...]
    printed: str

    @property
    def failure(self) -> dict | None:
        """The failed check or the exception that it reported, if any."""
        return next((e for e in self.events if e["event"] == "fail"), None)

    @property
    def done(self) -> bool:
        """Whether every case passed here."""
        return any(event["event"] == "done" for event in self.events)

    @property
    def case(self) -> tuple[int, str]:
        """The number and the name of the case that it was in last."""
        begun = [event for event in self.events if event["event"] == "begin"]
        return (begun[-1]["case"], begun[-1]["name"]) if begun else (0, "starting")

    @property
    def returned(self) -> bool:
        """Whether the answer had come back from the last case, well or not."""
        number = self.case[0]
        return any(e["event"] == "returned" and e["case"] == number for e in self.events)


@dataclass(frozen=True)
class Trial:
    """One run of an answer at one number of ranks."""

    task: Task
    text: str
    cause: str
    seconds: float
    ranks: tuple[RankReport, ...]
    left_behind: tuple[str, ...] = ()
