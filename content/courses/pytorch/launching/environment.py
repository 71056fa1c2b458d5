"""Print, as JSON, the variables that torchrun has added to this rank's environment (on Linux)."""

import json
import os
from pathlib import Path

import torch.distributed as dist

dist.init_process_group("gloo")
launcher = Path(f"/proc/{os.getppid()}/environ").read_bytes().decode().split("\0")
added = {n: v for n, v in sorted(os.environ.items()) if f"{n}={v}" not in launcher}
print(json.dumps({"node": os.uname().nodename, **added}), flush=True)
dist.barrier()
dist.destroy_process_group()
