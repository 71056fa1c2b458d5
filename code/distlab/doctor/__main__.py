"""Check this machine for what makes a first distributed run fail, and print what will work.

    python -m distlab.doctor [--nproc 4] [--try]

Exit status: 0 nothing fails, 1 a line says FAIL or the tried command does not work, 2 the command
line cannot be used.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

from distlab import spmd
from distlab.doctor.checks import Check, examine
from distlab.spmd import texts

TRY_LIMIT = 180.0
"""Seconds that `--try` gives torchrun: N imports of torch on a busy machine, and a collective."""

RUN = "torch.distributed.run"
WIDEST = 88
"""Columns of the table, at most; fewer where the terminal, or COLUMNS, has fewer."""


def command(checks: Iterable[Check], nproc: int, script: str = "train.py") -> str:
    """Return the torchrun command that works in spite of the failing checks, "" if none can."""
    failing = [check for check in checks if check.state == "FAIL"]
    if any(check.blocks for check in failing):
        return ""
    env = dict.fromkeys(check.env for check in failing if check.env)
    options = dict.fromkeys(check.option for check in failing if check.option)
    torchrun = "torchrun" if _is_ours(shutil.which("torchrun")) else f"{sys.executable} -m {RUN}"
    return " ".join([*env, torchrun, "--standalone", *options, f"--nproc-per-node={nproc}", script])


def _is_ours(command: str | None) -> bool:
    """Tell whether the torchrun on PATH is the one of this interpreter's environment."""
    return command is not None and Path(command).parent == Path(sys.executable).parent


def table(checks: Iterable[Check]) -> str:
    """Return one line a check, and under a line that is not ok its rule and the next step."""
    lines = []
    for check in checks:
        lines.append(_wrapped(f"{check.name:<15} {check.state:<5} ", check.value))
        if check.state != "ok":
            lines.append(_wrapped(f"{'':<22}rule: ", check.rule))
            lines.append(_wrapped(f"{'':<22}next: ", check.todo))
    return "\n".join(lines)


def _wrapped(start: str, text: str) -> str:
    width = max(50, min(WIDEST, shutil.get_terminal_size().columns))
    return textwrap.fill(
        text, width, initial_indent=start, subsequent_indent=" " * len(start),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


PROBE = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
dist.barrier()
if dist.get_rank() == 0:
    print(f"all_reduce over {dist.get_world_size()} ranks counted {total.item():g}")
dist.destroy_process_group()
"""


def try_out(line: str, script: str = "train.py", limit: float = TRY_LIMIT) -> tuple[bool, str]:
    """Run a command with a small program as its script; return whether it worked, and a sentence.

    It runs with the caller's environment, and in the runner's keep: nothing of it is left behind.
    """
    env = tuple((key, value) for key, value in os.environ.items() if key != "PWD")
    # The line is run as the reader is told to: pasted into a shell.
    program = spmd.Program(  # noqa: S604
        line,
        shell="bash",
        timeout=limit,
        env=env,
        files=((script, PROBE),),
    )
    with spmd.Launcher() as launcher:
        outcome = launcher.run(program)
    # gloo's own lines interleave with the program's on this one stdout.
    right = re.search(r"all_reduce over (\d+) ranks counted \1\b", outcome.ranks[0].stdout)
    if outcome.cause == "finished" and right:
        return True, f"Tried: {right[0]}, after {outcome.seconds:.1f} s."
    if outcome.cause == "deadline":
        return False, f"Tried: no answer within {limit:g} s; report this with the table above."
    error = texts.normalise(outcome.ranks[0].stderr).strip().splitlines()[-12:]
    return False, "\n".join(["Tried, and it failed:", *(f"  {line}" for line in error)])


def main(argv: list[str] | None = None) -> int:
    """Print the table and the command, and return the exit status."""
    about, _, status = __doc__.partition("\n\nExit status")
    parser = argparse.ArgumentParser(
        prog="python -m distlab.doctor",
        description=about,
        epilog=f"Exit status{status}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nproc", type=int, default=2, metavar="N", help="ranks (default 2)")
    parser.add_argument("--try", dest="attempt", action="store_true", help="run the command, too")
    options = parser.parse_args(argv)
    if not 1 <= options.nproc <= 256:
        parser.error(f"--nproc {options.nproc}: a machine runs 1 to 256 ranks")
    return diagnose(options.nproc, attempt=options.attempt)


def diagnose(nproc: int, *, attempt: bool) -> int:
    """Examine the machine, print what was found, and return the exit status."""
    checks = examine(nproc)
    print(table(checks))
    line = command(checks, nproc)
    if not line:
        print("\nNo command works before the lines that say FAIL are mended.")
        return 1
    print(f"\nThis works here:\n  {line}")
    worked = True
    if attempt:
        worked, sentence = try_out(line)
        print(sentence)
    return 0 if worked and not any(check.state == "FAIL" for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
