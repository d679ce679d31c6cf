"""The garbage of the processes in which Spark runs tasks.

After each task Spark looks for garbage in everything that the process has, and most of that is modules: 40 ms of
processor time, when a task of a micro-batch takes 10.  What is frozen is not looked at.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def freeze_what_is_there() -> None:
    """Take what there is, once for the process, as what will remain; call it when a task is done."""
    gc.collect()
    gc.freeze()
