"""The variables by which torchrun tells a worker its place: the one file that names them."""

from __future__ import annotations


def environment(rank: int, world_size: int, port: int, run_id: str) -> dict[str, str]:
    """Return the variables that torchrun 2.8 exports to a worker on one node.

    Source: torch/distributed/elastic/agent/server/local_elastic_agent.py, `_start_workers`.
    """
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "ROLE_RANK": str(rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "ROLE_WORLD_SIZE": str(world_size),
        "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "TORCHELASTIC_RUN_ID": run_id,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }


NAMES = tuple(name for name in environment(0, 1, 0, "") if name != "OMP_NUM_THREADS")
"""What a script that starts its ranks itself must not find: all but the number of threads."""
