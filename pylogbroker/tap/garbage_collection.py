"""Garbage collection in a process that is only a broker.

The collector is off during the start, which creates no garbage.  A full collection with 10,000 partitions would stop
the reactor for 50 ms, so its survivors are excluded from the next ones (`gc.freeze`).  Reference counts still free
them; cycles among them wait for an occasional collection of all objects.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import attrs

_THRESHOLDS: Final = (10_000, 1, 1)
"""Requests leave few cycles; a full collection of about 40,000 objects takes some ms."""

_OLDEST_GENERATION: Final = 2
_EXCLUDING_MAX: Final = 50
"""Full collections of which one looks at all objects.  To create 10,000 partitions takes 15.

Cycles excluded while in use stay until then: with 50, no more than 2 million objects.
"""


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disable the collector within the block; exclude the objects created there from later collections."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        _SURVIVORS.install()
        gc.enable()


@attrs.define
class _Survivors:
    _full_collections: int = 0

    def install(self) -> None:
        if self._follow not in gc.callbacks:
            gc.callbacks.append(self._follow)

    def _follow(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] != _OLDEST_GENERATION:
            return
        if phase == "stop":
            gc.freeze()
            return
        self._full_collections += 1
        if not self._full_collections % _EXCLUDING_MAX:
            gc.unfreeze()


_SURVIVORS: Final = _Survivors()
