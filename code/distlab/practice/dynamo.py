"""A stand-in for torch._dynamo, whose import takes twice as long as that of torch itself.

The first optimizer or DistributedDataParallel imports it, only to mark functions that the compiler
shall leave alone. Nothing in these exercises is compiled, so a module that has these three
functions and does nothing is enough, and a check stays a matter of a second or two.

Used by torch 2.8.0: torch/_compile.py, torch/optim/optimizer.py, torch/nn/parallel/distributed.py.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable


def stand_in() -> None:
    """Put the stand-in into sys.modules, unless the real one is there already.

    Call it after init_process_group, which asks for more of it if it finds it loaded.
    """
    if "torch._dynamo" in sys.modules:
        return
    import torch

    module = types.ModuleType("torch._dynamo")
    module.utils = types.ModuleType("torch._dynamo.utils")
    module.disable = _leave_alone
    module.graph_break = lambda *_, **__: None
    module.utils.get_optimize_ddp_mode = lambda: "ddp_optimizer"
    sys.modules["torch._dynamo"] = torch._dynamo = module
    sys.modules["torch._dynamo.utils"] = module.utils


def _leave_alone(function: Callable, *_: object, **__: object) -> Callable:
    return function
