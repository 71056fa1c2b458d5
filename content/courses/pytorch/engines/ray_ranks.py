"""Run a script, as it is, on two ranks of Ray Train.

    python ray_ranks.py SCRIPT [ARGUMENT ...]

With MAX_FAILURES=1 all ranks are started again when one has failed.
"""

import os
import runpy
import socket
import sys
from pathlib import Path

import ray
import torch.distributed as dist
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

HERE = Path.cwd()


def rank(arguments):
    """Be one rank: Ray has set RANK, MASTER_ADDR and the others."""
    leave_the_group_of_ray()
    os.chdir(HERE)
    sys.argv = arguments
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"{arguments[0]}: exit status {end.code}") from end
    finally:
        if sys.stdout:
            sys.stdout.flush()  # Ray ends this process without


def leave_the_group_of_ray():
    """Let the script make its own, at another port: Ray's may still be served."""
    with socket.create_server(("", 0)) as free:
        port = [free.getsockname()[1]]
    dist.broadcast_object_list(port, src=0)
    dist.destroy_process_group()
    os.environ["MASTER_PORT"] = str(port[0])


if __name__ == "__main__":
    # Leave print() to the script; write no token to ~/.ray: nobody else is here.
    os.environ |= {"RAY_TRAIN_ENABLE_PRINT_PATCH": "0", "RAY_AUTH_MODE": "disabled"}
    retries = FailureConfig(max_failures=int(os.environ.get("MAX_FAILURES", "0")))
    ray.init(num_cpus=3, include_dashboard=False)
    TorchTrainer(
        rank,
        train_loop_config=sys.argv[1:],
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="ranks",
            storage_path=str(HERE / "ray_results"),
            failure_config=retries,
        ),
    ).fit()
