"""The script of module 99 to take away, started as a reader starts it."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "content/courses/pytorch/code/99_train.py"
TORCHRUN = "-m torch.distributed.run --standalone --local-addr=127.0.0.1 --nproc_per_node=2"


def test_the_script_goes_on_where_it_was(tmp_path):
    (tmp_path / "count.txt").write_text("2")
    done = subprocess.run(
        [sys.executable, *TORCHRUN.split(), SCRIPT],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip

    assert "begins at 2" in done.stdout, done.stderr
    assert (tmp_path / "count.txt").read_text() == "3"
