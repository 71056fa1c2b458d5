"""Read the dumps of a stuck job, or run a script and say where its ranks stand after a while.

    python -m distlab.hangs DUMP_DIR
    python -m distlab.hangs --run SCRIPT --nproc 4 --after 10 [-- ARGS]

Exit status: 0 no hang (the dumps agree and nothing is pending; the script ended well),
1 the script failed before the time was up, 2 nothing could be read or started,
3 stuck (or the dumps differ), 4 still moving when the time was up.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
from pathlib import Path

from distlab import spmd
from distlab.hangs.compare import Findings, compare
from distlab.hangs.dumps import Folder, read_folder
from distlab.hangs.report import report, wrap
from distlab.hangs.start import Watched, watched
from distlab.spmd import texts
from distlab.spmd.rank_names import grouped

FINE, FAILED, UNUSABLE, STUCK, MOVING = range(5)
MAX_AFTER = 3600.0


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    options = _parser().parse_args(argv)
    try:
        if options.run:
            return run(options)
        if len(options.rest) != 1:
            print("Give one folder of dumps, or --run SCRIPT; --help tells both.", file=sys.stderr)
            return UNUSABLE
        return read(Path(options.rest[0]))
    except (ValueError, OSError, spmd.LauncherError) as error:
        print(error, file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        print("Interrupted; every rank has been ended.", file=sys.stderr)
        return 128 + signal.SIGINT


def _parser() -> argparse.ArgumentParser:
    about, _, status = __doc__.partition("\n\nExit status")
    parser = argparse.ArgumentParser(
        prog="python -m distlab.hangs",
        description=about,
        epilog=f"Exit status{status}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--run", metavar="SCRIPT", help="start this script and watch it")
    parser.add_argument(
        "--nproc", type=int, metavar="N",
        help="ranks to start, with torchrun's variables; without it the script is started once, "
        "as python SCRIPT, and starts its ranks itself",
    )  # fmt: skip
    parser.add_argument(
        "--after", type=float, default=10.0, metavar="SECONDS",
        help="when to look, from the start of the ranks (default 10)",
    )  # fmt: skip
    parser.add_argument(
        "--start", choices=("fork", "fresh"), default=spmd.Program("").start,
        help="fork the ranks from a process that has imported torch, or start new interpreters",
    )  # fmt: skip
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the dumps in this folder")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="DUMP_DIR | -- ARGS")
    return parser


def read(path: Path) -> int:
    """Report on a folder of dumps."""
    folder = read_folder(path)
    findings = compare(folder)
    print("\n".join(report(folder, findings)))
    if not any(dump.calls is not None for dump in folder.ranks):
        print(f"No dump could be read in {path}.", file=sys.stderr)
        return UNUSABLE
    return STUCK if _at_odds(folder, findings) else FINE


def _at_odds(folder: Folder, findings: Findings) -> bool:
    return bool(findings.differences or findings.pending or folder.missing)


def run(options: argparse.Namespace) -> int:
    """Run a script on watched ranks and report where they stand."""
    script = Path(options.run)
    if not script.is_file():
        raise FileNotFoundError(f"{script} is no file; give the path of a Python script")
    if options.nproc is not None and not 1 <= options.nproc <= spmd.MAX_RANKS:
        raise ValueError(
            f"--nproc {options.nproc}: give 1 to {spmd.MAX_RANKS} ranks; a script that starts its "
            "ranks itself goes without --nproc"
        )
    if not 0.5 <= options.after <= MAX_AFTER:
        raise ValueError(f"--after {options.after:g}: give 0.5 to {MAX_AFTER:g} seconds")
    if options.keep and options.keep.exists() and any(options.keep.iterdir()):
        raise ValueError(f"--keep {options.keep}: the folder is not empty; name a new one")
    args = tuple(options.rest[1:] if options.rest[:1] == ["--"] else options.rest)
    seen = watched(
        script, args, nproc=options.nproc, after=options.after, start=options.start,
        keep=options.keep,
    )  # fmt: skip
    print("\n".join(wrap(line) for line in how_it_went(seen, options.after)))
    print("\n".join(report(seen.folder, compare(seen.folder))))
    if options.keep:
        print(f"The dumps are in {options.keep}; read them again with distlab.hangs.")
    return exit_status(seen)


def exit_status(seen: Watched) -> int:
    """Return the status that this module's docstring promises."""
    if seen.stuck:
        return MOVING if seen.moving else STUCK
    return FINE if all(rank.exit == 0 for rank in seen.outcome.ranks) else FAILED


def how_it_went(seen: Watched, after: float) -> list[str]:
    """Return the sentences before the report: stuck, moving, or ended and how."""
    if seen.moving:
        return [f"Not stuck after {after:g} s: collectives went on or, before the first of them, "
                "ranks were at work. Look again later, with a larger --after."]  # fmt: skip
    if seen.stuck:
        return [f"Stuck after {after:g} s: no collective was issued or ended any more."]
    outcome = seen.outcome
    if outcome.cause == "flood":
        return ["The script was stopped before its time, because it wrote without end."]
    lines = [f"The script ended by itself after {outcome.seconds:.1f} s, before the {after:g} s."]
    for status in sorted({rank.exit for rank in outcome.ranks}, key=str):
        ranks = [rank.rank for rank in outcome.ranks if rank.exit == status]
        lines.append(f"  {grouped(ranks)}: exit status {status}{_ended_by_us(outcome, ranks)}")
    if outcome.first_failed is not None and outcome.ranks[outcome.first_failed].exit:
        first = outcome.ranks[outcome.first_failed]
        # torch puts its rank before every line of a traceback.
        stderr = re.sub(r"^\[rank\d+\]: ?", "", texts.normalise(first.stderr), flags=re.MULTILINE)
        error = texts.last_error(stderr).splitlines()
        said = f", saying: {error[0]}" if error else ", without a word"
        lines.append(f"  rank {first.rank} failed first{said}")
    return lines


def _ended_by_us(outcome: spmd.Outcome, ranks: list[int]) -> str:
    killed = all(outcome.ranks[rank].killed for rank in ranks)
    return " (still there seconds after a peer had failed, and ended)" if killed else ""


if __name__ == "__main__":
    sys.exit(main())
