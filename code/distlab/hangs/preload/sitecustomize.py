"""Found by every interpreter that a watched script starts: its folder is on PYTHONPATH."""

import sys
from pathlib import Path

from distlab.hangs import watch

watch.arm_child()

# The environment may have a module of this name of its own, which ours has hidden.
sys.path[:] = [entry for entry in sys.path if Path(entry) != Path(__file__).parent]
ours = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # noqa: F401
except ImportError:
    sys.modules["sitecustomize"] = ours
