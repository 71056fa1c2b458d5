"""The lab of module 99, run as a reader runs it.

python site/test_pytorch_99_toy.py     # needs torch, not pytest
"""

import subprocess
import sys
from pathlib import Path

LAB = Path(__file__).parents[1] / "content/courses/pytorch/code/99_toy.py"
COMMAND = [sys.executable, LAB, "--start-method", "forkserver"]


def test_the_lab_proves_what_it_says():
    done = subprocess.run(COMMAND, capture_output=True, text=True, check=False, timeout=600)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == ("ok: the sum is that of the formula: 3 (world size 2)")


if __name__ == "__main__":
    test_the_lab_proves_what_it_says()
