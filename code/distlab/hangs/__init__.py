"""The hang clinic: which rank is stuck, where, and which one it waits for.

    python -m distlab.hangs DUMP_DIR
    python -m distlab.hangs --run SCRIPT --nproc 4 --after 10 [-- ARGS]

`dumps` reads what ranks left behind, `compare` finds where they differ, `report` says it in
sentences, `start` runs a script whose ranks are watched, and `watch` is what runs inside them.
This module imports none of them: every interpreter of a watched script passes through it.
"""
