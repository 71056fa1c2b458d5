"""The interactive figures as complete HTML: what is read without JavaScript, controls, and data.

A page's fence prints one: `print(figures.ring_all_reduce())` in ```python exec="on" html="on"```.
Each is a custom element whose module in content/assets/widgets has its name. The element holds
a complete static figure, controls that stay hidden until the module is there, and, as JSON, all
that the module shows: it computes nothing, the calculator excepted.
"""

from distlab.figures.rings import home_ring, ring_all_reduce
from distlab.figures.samplers import distributed_sampler
from distlab.figures.scaling import scaling_calculator
from distlab.figures.timelines import TimelineCase, ddp_timeline, model_cases, recorded_cases

__all__ = [
    "TimelineCase",
    "ddp_timeline",
    "distributed_sampler",
    "home_ring",
    "model_cases",
    "recorded_cases",
    "ring_all_reduce",
    "scaling_calculator",
]
