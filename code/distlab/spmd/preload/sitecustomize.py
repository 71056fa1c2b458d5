"""Found by every interpreter that a watched program starts: its folder is on PYTHONPATH."""

import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "distlab.spmd.reads"

# Under its name but without its package, whose imports would cost each interpreter 30 ms.
spec = importlib.util.spec_from_file_location(NAME, f"{HERE}/../reads.py")
sys.modules[NAME] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[NAME])
sys.modules[NAME].begin_interpreter()

# The environment may have a module of this name of its own, which ours has hidden.
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != HERE]
ours = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # noqa: F401
except ImportError:
    sys.modules["sitecustomize"] = ours
