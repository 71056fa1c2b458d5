"""Be a rank of a training script, unchanged, and write down what it does; or make it die.

The variable SPY tells, as JSON:

    script, options  what to run
    checkpoint       its checkpoint, to note which rank writes there
    events           where to write, as EVENTS.RANK: one line of JSON for each event
    kill, raise      [rank, step]: that rank is killed before its step, counted from 1, or raises
                     while threads of gloo hold tensors, which they need the interpreter to release
    kill_launcher    the step before which rank 0 kills its parent
    kill_in_save     the save, counted from 1, in the midst of which it is killed
    blind            a rank that does not find the checkpoint, as one without the shared disk
    timeout          seconds that the group waits
    exact            float64 and no dropout: algebra without rounding to speak of
"""

import io
import itertools
import json
import os
import pathlib
import runpy
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import TensorDataset

TOLD, RANK = json.loads(os.environ["SPY"]), int(os.environ["RANK"])
EVENTS = open(f"{TOLD['events']}.{RANK}", "w", buffering=1)  # noqa: PTH123, SIM115
STEPS, SAVES = itertools.count(1), itertools.count(1)


def note(*event):
    """Write an event down; a line at a time, so that none is lost with its rank."""
    print(json.dumps(event), file=EVENTS)


def before_step(optimizer, *_):
    """Note what a step goes by, and be the one who fails."""
    step = next(STEPS)
    (group,) = optimizer.param_groups
    gradient = [value for p in group["params"] for value in p.grad.flatten().tolist()]
    note("step", group["lr"], gradient)
    if TOLD.get("kill") == [RANK, step]:
        os.kill(os.getpid(), signal.SIGKILL)
    if TOLD.get("kill_launcher") == step and RANK == 0:
        os.kill(os.getppid(), signal.SIGKILL)
    if step == TOLD.get("raise", [None, None])[1]:
        for _ in range(2000):
            dist.all_reduce(torch.ones(1), async_op=True)
        if TOLD["raise"][0] == RANK:
            raise ValueError("this rank is at fault")


def count_buckets(_, bucket):
    """Reduce as DDP does by itself."""
    note("bucket", bucket.is_last())
    return allreduce_hook(None, bucket)


def write_half(write):
    """Return torch.save, which may die before the end."""

    def save(what, file, **options):  # options are a tensor's, which is being pickled
        if not options and next(SAVES) == TOLD.get("kill_in_save"):
            whole = io.BytesIO()
            write(what, whole)
            file.write(whole.getvalue()[:-100])
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        write(what, file, **options)

    return save


def hear(event, arguments):
    """Note who opens the checkpoint, or a file beside it, to write."""
    name = TOLD["checkpoint"].removesuffix(".pt")
    if event == "open" and "w" in str(arguments[1]) and str(arguments[0]).startswith(name):
        note("writes")


def around(owner, name, before=None, after=None):
    """Have a method call `before` and `after`, with what it is given, too."""
    own = getattr(owner, name)

    def method(*arguments, **options):
        if before:
            before(*arguments)
        result = own(*arguments, **options)
        if after:
            after(*arguments)
        return result

    setattr(owner, name, method)


def note_sample(data, index):
    """Note that a data set is asked for a sample."""
    if isinstance(index, int):
        note("sample", len(data), index)


def note_evaluation(ddp, *_):
    """Note a forward that should have gone by ddp.module: it may broadcast."""
    if not (ddp.training and torch.is_grad_enabled()):
        note("evaluates through DDP")


def note_dropout(dropout, *_):
    """Note an evaluation that leaves units out."""
    if dropout.training and not torch.is_grad_enabled():
        note("drops out while it evaluates")


around(TensorDataset, "__getitem__", before=note_sample)
around(torch.nn.Dropout, "forward", before=note_dropout)
around(DistributedDataParallel, "forward", before=note_evaluation)
around(
    DistributedDataParallel,
    "__init__",
    after=lambda ddp, *_: ddp.register_comm_hook(None, count_buckets),
)
torch.save = write_half(torch.save)
sys.addaudithook(hear)
register_optimizer_step_pre_hook(before_step)
if "timeout" in TOLD:
    own_init, limit = dist.init_process_group, timedelta(seconds=TOLD["timeout"])
    dist.init_process_group = lambda *backend, **options: own_init(
        *backend, timeout=limit, **options
    )
if TOLD.get("blind") == RANK:
    own_exists = pathlib.Path.exists
    pathlib.Path.exists = lambda path: str(path) != TOLD["checkpoint"] and own_exists(path)
if TOLD.get("exact"):
    torch.set_default_dtype(torch.float64)
    torch.nn.Dropout.forward = lambda _, x: x
sys.argv = [TOLD["script"], *TOLD["options"]]
try:
    runpy.run_path(TOLD["script"], run_name="__main__")
finally:
    note("end", len(os.listdir("/proc/self/task")), dist.is_initialized())  # noqa: PTH208
