"""A program of the museum whose outcome varies: what races.py of a module is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from distlab.spmd import Outcome, Program
from tools import museum


@dataclass(frozen=True)
class Race:
    """A program to run many times.

    name:   the title of its code block, or the id of a fence that shows its fixed version
    kinds:  tells what came of one run, in the words of the page: one entry a run, or one a rank
    runs:   how many times
    column: what the entries are counted in
    right:  how the words begin for a run that came out right
    files:  titles of other code blocks, to lay beside the program under their titles
    ranks, timeout, start: as in spmd.Program
    """

    name: str
    kinds: Callable[[Outcome], list[str]]
    ranks: int = 1
    timeout: float = 10.0
    start: str = "fork"
    runs: int = 24
    column: str = "Runs"
    right: str = "right"
    files: tuple[str, ...] = ()

    def program(self) -> Program:
        """Return the program as the page shows it."""
        language, code = museum.shown_program(self.name)
        return Program(
            code,
            ranks=self.ranks,
            timeout=self.timeout,
            start=self.start,
            shell="bash" if language == "bash" else "",
            files=tuple((name, museum.shown_program(name)[1]) for name in self.files),
            waits=self.start == "fork" and language == "python",
        )
