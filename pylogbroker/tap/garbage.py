"""Garbage collection is off during the start, which creates many objects and no garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (20_000, 10, 10)  # requests leave few cycles, so collections may be rare


@contextmanager
def nothing_is_garbage() -> Iterator[None]:
    """Disable the collector within the block, and exclude the objects created there from later collections."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        gc.enable()
