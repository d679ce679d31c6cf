"""The garbage collector during the start: it would look through all that is made again and again, and find nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (20_000, 10, 10)  # requests leave little garbage that is not freed at once: look for it seldom


@contextmanager
def nothing_is_garbage() -> Iterator[None]:
    """What is made here stays: the collector neither runs meanwhile nor looks at it afterwards."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        gc.enable()
