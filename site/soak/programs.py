"""The programs that `nox -s soak` runs on one long-lived launcher, and what must come of each."""

from __future__ import annotations

from dataclasses import dataclass

from distlab import spmd

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
