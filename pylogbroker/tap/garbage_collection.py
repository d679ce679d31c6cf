"""Garbage collection in a process that is only a broker.

The collector is off during the start, which creates no garbage. Later, each automatic collection examines the new
objects and freezes its survivors (`gc.freeze`). Reference counts still free frozen objects; cycles among them wait for
a full collection.

    created --automatic collection--> frozen --full collection (`full_collections`)--> frozen again
       |                                |                       |
       +------ freed, by reference count or collection ---------+

CPython counts allocations less deallocations: where new objects replace old ones, many more than the threshold may
exist when a collection is due. To examine 10,000 takes about 1 ms, so more than `_EXAMINED_MAX` are frozen unexamined.

The code suits Python 3.14.0 to 3.14.4, which collect incrementally, and the generations of all others.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import attrs

_THRESHOLDS: Final = (2_000, 10, 10)
"""Automatic collections are of the youngest generation, since `gc.freeze` resets the counters of the older ones.

A collection of 2,000 objects takes 0.2 ms, for which requests wait. Each object is examined once, so that more but
shorter collections take no more time in all.
"""

_EXAMINED_MAX: Final = 20_000
_OLDEST_GENERATION: Final = 2


@contextmanager
def collector_disabled() -> Iterator[None]:
    """Disable the collector within the block, also in a process that is not only a broker: for imports."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disable the collector within the block; freeze the objects created there."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        FROZEN_OBJECTS.install()
        gc.enable()


@attrs.define(eq=False, repr=False)
class FrozenObjects:
    """Freezes the survivors of each collection.

    `may_hold_garbage` is True if objects were frozen since the last full collection; `freezes` counts how often.
    """

    may_hold_garbage: bool = False
    freezes: int = 0

    def install(self) -> None:
        if self._follow not in gc.callbacks:
            gc.callbacks.append(self._follow)

    def collect(self) -> None:
        """Run a full collection: about 0.1 ms for each 1,000 objects."""
        gc.unfreeze()
        gc.collect()
        self.may_hold_garbage = False

    def _follow(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "stop":
            self._freeze()
        elif info["generation"] < _OLDEST_GENERATION and _young_objects() > _EXAMINED_MAX:
            self._freeze()  # leaves nothing to examine

    def _freeze(self) -> None:
        gc.freeze()
        self.may_hold_garbage = True
        self.freezes += 1


def _young_objects() -> int:
    """Count the objects of the youngest generation.

    A list of them refers also to tuples that other threads are building, and CPython cannot resize a tuple with two
    references: `tuple(generator)` raises SystemError there. Inside one call of C code, no other thread sees the list.
    """
    [count] = map(len, map(gc.get_objects, (0,)))
    return count


FROZEN_OBJECTS: Final = FrozenObjects()
