"""The programs of this module's exhibits whose outcome varies, and what came of one run of each."""

from __future__ import annotations

import re

from distlab.spmd import Outcome
from record.race import Race


def means(outcome: Outcome) -> list[str]:
    """Tell whether a division came too early, from the ranks' printed means."""
    if outcome.cause != "finished":
        return ["an error or a hang"]
    found = [re.findall(r"[\d.]+", rank.stdout.partition("mean")[2]) for rank in outcome.ranks]
    values = {float(number) for numbers in found for number in numbers}
    return ["right: 3 everywhere" if values == {3.0} else "no error, some elements are not 3"]


def sums(outcome: Outcome) -> list[str]:
    """Tell which ranks' values met in the two groups."""
    if outcome.cause != "finished":
        return ["a hang" if outcome.cause == "deadline" else "an error about a closed connection"]
    found = [int(re.search(r"sum (\d+)", rank.stdout)[1]) for rank in outcome.ranks]
    right = found == [1001, 110, 110, 1001]
    return ["right: 1001 and 110" if right else "no error, sums of the wrong ranks"]


def exits(outcome: Outcome) -> list[str]:
    """Tell how each process ended after its result."""
    return [
        f"{'result printed' if 'result' in rank.stdout else 'no result'}, exit status {rank.exit}"
        for rank in outcome.ranks
    ]


def restarts(outcome: Outcome) -> list[str]:
    """Tell whether torchrun's second attempt came up, and if not, with which error."""
    rank = outcome.ranks[0]
    if "attempt 1 is up" in rank.stdout:
        return [CAME_UP]
    error = re.search(r"connectFullMesh failed|EADDRINUSE|Timed out|timed out", rank.stderr)
    return [f"attempt 1 did not: {error[0] if error else 'another error'}"]


LEFT_IN_ORDER = "result printed, exit status 0"
CAME_UP = "attempt 1 came up"
FRESH = {"ranks": 2, "start": "fresh", "timeout": 120.0, "runs": 12, "column": "Processes",
         "right": LEFT_IN_ORDER}  # fmt: skip
SHELL = {"timeout": 300.0, "runs": 12, "right": CAME_UP}
RACES: dict[str, tuple[tuple[str, Race], ...]] = {
    "async": (("as shown", Race("async_race.py", means, ranks=2)),),
    "own-groups": (("as shown", Race("own_groups.py", sums, ranks=4, timeout=4.0)),),
    "no-destroy": (
        ("as shown", Race("no_destroy.py", exits, **FRESH)),
        ("all waited for, still no destroy", Race("no_destroy_waited.py", exits, **FRESH)),
        ("fixed", Race("no-destroy-fixed", exits, **FRESH)),
    ),
    "restart": (
        ("as shown", Race("restart.sh", restarts, **SHELL)),
        ("fixed", Race("restart_fixed.sh", restarts, files=("restart.sh",), **SHELL)),
    ),
}
"""For each tally the variants of its program, with their names in the table."""
