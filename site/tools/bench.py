"""Measure builds, fences and the labs beside their plain counterparts: `nox -s bench`.

Every figure is a ratio of two walls taken in turn, round by round, on the same machine; the table
shows the median of the rounds. The exit status is 1 if a ratio misses its limit.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from distlab.spmd import Launcher, Program
from press import modules, scan
from press.modules import Module
from tools.site_copy import ROOT, Site

HEADER = '```python exec="on" source="above" result="text"{}\n{}\n```\n'
DDP = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(3, 1))
model(torch.randn(2, 3)).sum().backward()
print(model.module.weight.grad)
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class Comparison:
    """Two things to time in turn: `ours` may take at most `limit` times as long as `plain`."""

    name: str
    ours: Callable[[], float]
    plain: Callable[[], float]
    limit: float


def five_fences() -> list[str]:
    """Return five small fences that run on one rank, and so under plain markdown-exec too.

    They are those of the first module whose limits.toml names its `minimal` ones.
    """
    module = next(each for each in modules.everything() if "minimal" in each.limits)
    fences = {fence.id: fence.code for fence in scan.file(module.page, ROOT / "content").fences}
    return [fences[name] for name in module.limits["minimal"]]


def page(codes: list[str], mark: str = "", options: str = "") -> str:
    """Return a page of fences; `mark` makes their text, and so their cache keys, its own."""
    fences = [HEADER.format(options, f"{code}\n# {mark}".rstrip("# \n")) for code in codes]
    return "\n".join(["# A page\n", *fences])


class Builds:
    """Copies of the site: ours, the same under plain markdown-exec, the same without execution."""

    def __init__(self, folder: Path) -> None:
        """Lay out the copies."""
        self.sites, self.filled = {}, False
        for name in ("ours", "plain", "unexecuted"):
            (folder / name).mkdir()
            self.sites[name] = Site(folder / name)
        config = self.sites["plain"].folder / "mkdocs.yml"
        config.write_text(re.sub(r"(?m)^hooks:\n(  - .*\n)+", "", config.read_text()))

    def wall(self, name: str, pages: dict[str, str], **env: str) -> float:
        """Return the seconds that one build takes."""
        site = self.sites[name]
        for old in (site.folder / "content").rglob("*.md"):
            old.unlink()
        for file, text in pages.items():
            site.write(text, file)
        begun = time.perf_counter()
        built = site.build("-q", **env)
        if built.status:
            sys.exit(f"the build {name!r} failed: {built.said}")
        return time.perf_counter() - begun

    def warm(self, pages: dict[str, str]) -> float:
        """Return the seconds of a build whose fences are all in the cache."""
        if not self.filled:
            self.wall("ours", pages)
            self.filled = True
        return self.wall("ours", pages)


def build_comparisons(builds: Builds) -> list[Comparison]:
    """Return what is asked of builds."""
    five = five_fences()
    four_ranks = HEADER.format(' ranks="4"', DDP.strip())
    one = {"index.md": page(five)}
    mixed = {"index.md": page(five) + "\n" + four_ranks}
    shown = {"index.md": re.sub(' exec="on".*', "", mixed["index.md"])}
    many = {f"p{i}.md" if i else "index.md": page(five, f"page {i}") for i in range(30)}
    cold = {"FENCE_FRESH": "1"}
    return [
        Comparison(
            "cold build, five fences and one on 4 ranks / five under plain markdown-exec",
            lambda: builds.wall("ours", mixed, **cold),
            lambda: builds.wall("plain", one),
            1.0,
        ),
        Comparison(
            "warm build / the same page with the exec options removed",
            lambda: builds.warm(mixed),
            lambda: builds.wall("unexecuted", shown),
            1.1,
        ),
        Comparison(
            "30 pages of five fences, cold / plain markdown-exec, which isolates nothing",
            lambda: builds.wall("ours", many, **cold),
            lambda: builds.wall("plain", many),
            1.2,
        ),
    ]


def fence_comparison(launcher: Launcher) -> Comparison:
    """Return what is asked of one fence: forking its ranks at most a twentieth of spawning them."""

    def wall(start: str) -> float:
        begun = time.perf_counter()
        outcome = launcher.run(Program(DDP, ranks=4, start=start))
        if outcome.cause != "finished":
            sys.exit(f"the fence failed: {outcome}")
        return time.perf_counter() - begun

    def forked() -> float:
        launcher.run(Program("pass"))  # waits for the server to have imported torch
        return wall("fork")

    return Comparison(
        "a DDP fence on 4 ranks, forked / its ranks spawned",
        forked,
        lambda: wall("fresh"),
        1 / 20,
    )


def lab_comparisons(module: Module) -> list[Comparison]:
    """Return what is asked of a module's lab, in units of `import torch`."""

    def wall(*command: str) -> float:
        begun = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begun

    def lab(world_size: int, method: str, limit: float) -> Comparison:
        options = ("--world-size", str(world_size), "--start-method", method)
        return Comparison(
            f"lab {module.number} on {world_size} ranks, {method} / import torch",
            lambda: wall(str(module.lab), *options),
            lambda: wall("-c", "import torch"),
            limit,
        )

    return [lab(2, "spawn", 4.5), lab(2, "forkserver", 2.7), lab(4, "forkserver", 2.7)]


def measure(comparisons: list[Comparison], rounds: int) -> list[tuple[Comparison, float, float]]:
    """Time everything once a round; return each comparison with its two medians in seconds."""
    walls: list[tuple[list, list]] = [([], []) for _ in comparisons]
    for number in range(rounds):
        for comparison, (ours, plain) in zip(comparisons, walls, strict=True):
            ours.append(comparison.ours())
            plain.append(comparison.plain())
        print(f"round {number + 1} of {rounds} done", file=sys.stderr)
    medians = [tuple(map(statistics.median, pair)) for pair in walls]
    return [(each, *pair) for each, pair in zip(comparisons, medians, strict=True)]


def main() -> int:
    """Measure, print a table, return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often to time each (default 5)")
    parser.add_argument("--only", default="", help="a part of the names to measure")
    parser.add_argument("--list", action="store_true", help="only say what there is to measure")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: at least one round is needed")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, Launcher() as launcher:
        everything = [
            *build_comparisons(Builds(Path(folder))),
            fence_comparison(launcher),
            *(each for module in modules.everything() for each in lab_comparisons(module)),
        ]
        chosen = [each for each in everything if options.only in each.name]
        if not chosen:
            parser.error(f"--only {options.only!r} is part of no name; --list shows them")
        if options.list:
            print(*(each.name for each in chosen), sep="\n")
            return 0
        results = measure(chosen, options.rounds)
    print("| what | ours | plain | ratio | limit | |\n|---|--:|--:|--:|--:|---|")
    for each, ours, plain in results:
        ratio = ours / plain
        verdict = "holds" if ratio <= each.limit else "MISSED"
        print(f"| {each.name} | {ours:.2f} s | {plain:.2f} s "
              f"| {ratio:.3f} | {each.limit:.3g} | {verdict} |")  # fmt: skip
    return int(any(ours / plain > each.limit for each, ours, plain in results))


if __name__ == "__main__":
    sys.exit(main())
