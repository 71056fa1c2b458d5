"""A sum over ranks, compared with the formula.

    python 99_toy.py                                                 # two ranks
    python 99_toy.py --world-size 4 --start-method forkserver
    torchrun --standalone --local-addr=127.0.0.1 --nproc_per_node=2 99_toy.py --torchrun

The last line is `ok: ...` (exit status 0) or `FAILED: ...` (1).
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from datetime import timedelta
from pathlib import Path


def total(steps):
    """Return the sum of rank + 1 over the ranks, computed `steps` times."""
    import torch
    import torch.distributed as dist

    for _ in range(steps):
        tensor = torch.tensor(dist.get_rank() + 1)
        dist.all_reduce(tensor)
    return tensor.item()


def worker(rank, world_size, init_method, steps, path):
    """Meet the other ranks, check the sum, and let rank 0 write what was found."""
    import torch.distributed as dist

    timeout = timedelta(seconds=60)
    options = {} if init_method is None else {"rank": rank, "world_size": world_size}
    dist.init_process_group("gloo", init_method=init_method, timeout=timeout, **options)
    try:
        got, expected = total(steps), world_size * (world_size + 1) // 2
        if rank == 0:
            checks = [["the sum is that of the formula", got == expected, str(got)]]
            Path(path).write_text(json.dumps({"checks": checks}))
        dist.barrier()
    finally:
        dist.destroy_process_group()


def verdict(path, world_size):
    """Print the last line and return the exit status."""
    ((name, passed, got),) = json.loads(Path(path).read_text())["checks"]
    print(f"{'ok' if passed else 'FAILED'}: {name}: {got} (world size {world_size})")
    return 0 if passed else 1


def main():
    """Start the ranks, or be one of torchrun's."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--start-method", choices=("spawn", "forkserver"), default="spawn")
    parser.add_argument("--torchrun", action="store_true", help="torchrun has started this rank")
    parser.add_argument("--steps", type=int, default=5, help="how often to add")
    parser.add_argument("--json", help="where to write the checks")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.json or f"{folder}/checks.json"
        if options.torchrun:
            rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            worker(rank, world_size, None, options.steps, path)
            return verdict(path, world_size) if rank == 0 else 0
        start = multiprocessing.get_context(options.start_method)
        arguments = (options.world_size, f"file://{folder}/rdzv", options.steps, path)
        ranks = [
            start.Process(target=worker, args=(rank, *arguments), daemon=True)
            for rank in range(options.world_size)
        ]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join(120)
        if any(process.exitcode for process in ranks):
            print(f"FAILED: exit statuses {[process.exitcode for process in ranks]}")
            return 1
        return verdict(path, options.world_size)


if __name__ == "__main__":
    sys.exit(main())
