"""Timelines measured once and kept, so that pages built twice are equal byte for byte.

`python -m distlab.figures.steps` (from code/) measures again on two ranks and overwrites the file;
its date, versions and machine are in it. What is recorded: real DDP steps over `distlab.overlap`'s
slow link, for several bucket caps and links.
"""

import datetime
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from distlab import spmd
from distlab.timeline import Layer, Link, Span, packing, with_layers

FILE = Path(__file__).with_suffix(".json")
RANKS = 2
REPEATS = 7  # of which the shortest is kept: it was disturbed least
LAYERS = tuple(Layer(f"layer {n}", 0.01, 2**16) for n in range(6, 0, -1))
CAPS = {"1 layer": 2**16, "2 layers": 2**17, "6 layers": 6 * 2**16}
UNCAPPED = ("naive", "flat")  # ways that know no buckets: recorded once for all caps
LINKS = {"slow network": Link(0.01, 0.01 / 2**16), "fast network": Link(0.002, 0.002 / 2**16)}

# Runs on every rank. The first step of a process pays for imports, so one is thrown away.
PROGRAM = """
import json, sys
import torch.distributed as dist
from distlab.overlap import WAYS, step
from distlab.timeline import Layer, Link, length

dist.init_process_group("gloo")
asked = json.load(open("asked.json"))
layers = [Layer(**layer) for layer in asked["layers"]]
step("overlapped", layers, Link(0, 0), 1)
for name, link in asked["links"].items():
    for bucket, cap in asked["caps"].items():
        for way in WAYS:
            packed = way not in asked["uncapped"]
            if not packed and cap != min(asked["caps"].values()):
                continue  # the cap means nothing to it: measured once
            runs = []
            for _ in range(asked["repeats"]):
                own = [None] * dist.get_world_size()
                dist.all_gather_object(own, step(way, layers, Link(**link), cap))
                runs.append([span for spans in own for span in spans])
            if dist.get_rank() == 0:
                best = min(runs, key=length)
                rows = [[s.rank, s.kind, s.name, s.start, s.end] for s in best]
                print(json.dumps([bucket if packed else "", name, way, rows]), flush=True)
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class Steps:
    """What was measured, and where: `steps[bucket, link, way]` are the spans of all ranks.

    The bucket is "" for the ways of UNCAPPED.
    """

    recorded: str
    layers: tuple[Layer, ...]
    caps: Mapping[str, int]
    links: Mapping[str, Link]
    steps: Mapping[tuple[str, str, str], tuple[Span, ...]]

    def spans(self, bucket: str, link: str, way: str) -> tuple[Span, ...]:
        """Return the spans of a case; the bucket does not matter to the ways of UNCAPPED."""
        return self.steps["" if way in UNCAPPED else bucket, link, way]


def measure(
    launcher: spmd.Launcher,
    caps: Mapping[str, int] = CAPS,
    links: Mapping[str, Link] = LINKS,
    repeats: int = REPEATS,
) -> Steps:
    """Run every way to communicate for every cap and link on RANKS ranks; keep the shortest runs.

    Raises RuntimeError with what the ranks said if one of them failed.
    """
    asked = {
        "layers": [asdict(layer) for layer in LAYERS],
        "caps": dict(caps),
        "links": {name: asdict(link) for name, link in links.items()},
        "uncapped": UNCAPPED,
        "repeats": repeats,
    }
    program = spmd.Program(
        PROGRAM, ranks=RANKS, timeout=120, files=(("asked.json", json.dumps(asked)),)
    )
    outcome = launcher.run(program)
    if outcome.cause != "finished":
        said = "\n".join(rank.stderr for rank in outcome.ranks)
        raise RuntimeError(f"the measurement {outcome.cause}; its ranks said:\n{said}")
    printed = outcome.ranks[0].stdout.splitlines()  # among them gloo's "[Gloo] Rank ..." lines
    steps = [json.loads(line) for line in printed if line.startswith('["')]
    return parse({**asked, "recorded": _where(), "steps": steps})


def parse(data: Mapping) -> Steps:
    """Rebuild a recording from what its file holds."""
    layers = tuple(Layer(**layer) for layer in data["layers"])
    steps = {}
    for bucket, link, way, rows in data["steps"]:
        packed = packing(way, layers, data["caps"].get(bucket, 0))
        steps[bucket, link, way] = with_layers((Span(*row) for row in rows), packed)
    return Steps(
        recorded=data["recorded"],
        layers=layers,
        caps=data["caps"],
        links={name: Link(**link) for name, link in data["links"].items()},
        steps=steps,
    )


def to_json(recorded: Steps) -> str:
    """Return the text of a recording's file; times are kept to 10 microseconds."""
    steps = [
        [*case, [[s.rank, s.kind, s.name, round(s.start, 5), round(s.end, 5)] for s in spans]]
        for case, spans in recorded.steps.items()
    ]
    head = {
        "recorded": recorded.recorded,
        "layers": [asdict(layer) for layer in recorded.layers],
        "caps": dict(recorded.caps),
        "links": {name: asdict(link) for name, link in recorded.links.items()},
    }
    lines = ",\n".join(json.dumps(step, separators=(",", ":")) for step in steps)
    return f'{json.dumps(head, indent=1)[:-2]},\n "steps": [\n{lines}\n]}}\n'


def load(file: Path = FILE) -> Steps:
    """Read a recording."""
    return parse(json.loads(file.read_text("utf-8")))


def _where() -> str:
    today = datetime.datetime.now(tz=datetime.UTC).date()
    torch = importlib.metadata.version("torch")
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{today}, torch {torch}, {machine}, {RANKS} ranks, the shortest of {REPEATS} steps"


def main() -> int:
    """Measure, overwrite the file, say so."""
    with spmd.Launcher() as launcher:
        recorded = measure(launcher)
    FILE.write_text(to_json(recorded), encoding="utf-8")
    print(f"{FILE.name}: {len(recorded.steps)} steps, {recorded.recorded}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
