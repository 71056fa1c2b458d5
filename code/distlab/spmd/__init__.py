"""Run a program on N ranks, with a deadline, and tell exactly what happened on each.

    with spmd.Launcher() as launcher:
        outcome = launcher.run(spmd.Program("print('hello')", ranks=4, timeout=30))

Three promises: a run returns by its deadline plus a few seconds whatever the program does; nothing
that the program started outlives the run, and nothing outlives a killed caller by more than 5 s;
nothing is raised for what the program did.
"""

from distlab.spmd.launcher import Launcher, LauncherError
from distlab.spmd.program import MAX_RANKS, RUNNER, Outcome, Program, RankOutcome

__all__ = ["MAX_RANKS", "RUNNER", "Launcher", "LauncherError", "Outcome", "Program", "RankOutcome"]
