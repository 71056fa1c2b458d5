"""Plain data to accessible inline SVG: draws, never computes.

One language for all figures. Ranks are rows, time goes right. Data is a cell that keeps its colour
wherever it goes, and a partial sum fills its cell as ranks are added. Nodes are frames, groups are
outlines. Every figure has a title and a description and stays readable in a column of 350 px. No
meaning hangs on colour alone. The same data always gives the same text.
"""

from distlab.plots.looks import LABELS, PITCH, ROW, WIDTH, milliseconds
from distlab.plots.rings import ring, ring_moment
from distlab.plots.stacks import bars
from distlab.plots.tiles import collective
from distlab.plots.timelines import timeline

__all__ = [
    "LABELS",
    "PITCH",
    "ROW",
    "WIDTH",
    "bars",
    "collective",
    "milliseconds",
    "ring",
    "ring_moment",
    "timeline",
]
