"""What an exercise is: plain data, read by the command line, the grader and the ranks."""

from __future__ import annotations

from dataclasses import dataclass

POINT_TO_POINT = frozenset({"send", "recv", "isend", "irecv", "batch_isend_irecv"})

COLLECTIVES = frozenset(
    {
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_object",
        "all_reduce",
        "all_to_all",
        "all_to_all_single",
        "barrier",
        "broadcast",
        "broadcast_object_list",
        "gather",
        "gather_object",
        "monitored_barrier",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "scatter",
        "scatter_object_list",
    }
)


@dataclass(frozen=True)
class Task:
    """One exercise.

    id:     its number in its module: "1", or "11.3" for the third part of task 11
    stem:   the name of its file, without ".py"
    title:  what is to be written, in a few words
    proves: what a passed check shows
    asks:   the names that the file must define
    hints:  three, from a question to nearly the code
    allows: the functions of torch.distributed that an answer may call
    bans:   pairs (name, why): classes and functions that would do the exercise's work
    hangs:  what to think about when ranks wait for each other
    answer: for a bug, the letter of its diagnosis; else ""
    module: the number of its module, as "26"; `tasks` fills it in
    """

    id: str
    stem: str
    title: str
    proves: str
    asks: tuple[str, ...]
    hints: tuple[str, str, str]
    allows: frozenset[str] = COLLECTIVES | POINT_TO_POINT
    bans: tuple[tuple[str, str], ...] = ()
    hangs: str = "Every call needs its partner on the other ranks, in the same order."
    answer: str = ""
    module: str = ""

    @property
    def full_id(self) -> str:
        """The id that no other module has: "26/4"."""
        return f"{self.module}/{self.id}"

    @property
    def file(self) -> str:
        """The name of the exercise's file."""
        return f"{self.stem}.py"

    @property
    def label(self) -> str:
        """How messages name it."""
        return f"task {self.id}, {self.title}"
