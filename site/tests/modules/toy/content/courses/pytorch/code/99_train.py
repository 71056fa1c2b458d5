"""Count to a number; started again, it goes on where it was.

torchrun --standalone --local-addr=127.0.0.1 --nproc_per_node=2 99_train.py
"""

from pathlib import Path

import torch
import torch.distributed as dist

LAST = 3


def main():
    """Count together; rank 0 keeps the count."""
    dist.init_process_group("gloo")
    checkpoint = Path("count.txt")
    count = torch.tensor(int(checkpoint.read_text()) if checkpoint.exists() else 0)
    dist.broadcast(count, src=0)
    if dist.get_rank() == 0:
        print("begins at", count.item())
    while count < LAST:
        count += 1
        if dist.get_rank() == 0:
            checkpoint.write_text(str(count.item()))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
