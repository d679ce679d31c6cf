"""Full garbage collections, at moments when no request waits for them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time
from typing import Final

import attrs
from twisted.internet.interfaces import IReactorTime

from pylogbroker.broker.runtime.resources import PeriodicCall
from pylogbroker.system import resident_bytes, return_free_memory
from pylogbroker.tap.garbage_collection import FrozenObjects

CHECK_SECONDS: Final = 5.0

IDLE_CPU_MAX: Final = 0.05
"""Share of a processor that the process of an idle broker uses at most.

The periodic jobs of 10,000 partitions use 0.02; long polls and heartbeats may come on top.
"""

MEMORY_GROWTH_MAX: Final = 256 * 1024 * 1024
"""Growth of the process after which even a busy broker runs a full collection, in bytes.

Uncollected garbage takes no more. 10,000 new partitions take 50 MB.
"""

BLOCKS_FREED_MIN: Final = 50_000
"""Freed blocks, mostly small objects, after which an idle broker returns memory. 1,000 partitions have as many."""


@attrs.define(eq=False, repr=False)
class FullCollections:
    """Runs a full collection when the broker has been idle since the last check.

    With 10,000 partitions it holds the reactor for 50 ms or more. A broker that is never idle runs one when its process
    has grown by `MEMORY_GROWTH_MAX` since the last one. Neither interrupts a request.

    An idle broker that has freed many objects, such as those of deleted partitions, returns memory to the system.
    """

    _clock: IReactorTime
    _objects: FrozenObjects
    _cpu_seconds: Callable[[], float] = process_time
    _memory: Callable[[], int] = resident_bytes
    _blocks: Callable[[], int] = sys.getallocatedblocks
    _return_memory: Callable[[], None] = return_free_memory
    _checks: PeriodicCall = attrs.field(init=False)
    _memory_collected: int = attrs.field(default=0, init=False)  # after the last full collection
    _blocks_most: int = attrs.field(default=0, init=False)  # since memory was returned
    _checked_at: float = attrs.field(default=0.0, init=False)
    _cpu_checked: float = attrs.field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self._checks = PeriodicCall(self._clock, self._check)

    def start(self) -> None:
        self._memory_collected = self._memory()
        self._note_time()
        self._checks.start(CHECK_SECONDS, now=False)

    def stop(self) -> None:
        if self._checks.running:
            self._checks.stop()

    def _check(self) -> None:
        is_idle = self._is_idle
        if self._objects.may_hold_garbage and (is_idle or self._has_grown):
            self._objects.collect()
            self._memory_collected = self._memory()
        blocks = self._blocks()
        self._blocks_most = max(self._blocks_most, blocks)
        if is_idle and self._blocks_most - blocks >= BLOCKS_FREED_MIN:
            self._return_memory()
            self._blocks_most = blocks
        self._note_time()

    @property
    def _is_idle(self) -> bool:
        elapsed = self._clock.seconds() - self._checked_at
        return self._cpu_seconds() - self._cpu_checked <= elapsed * IDLE_CPU_MAX

    @property
    def _has_grown(self) -> bool:
        return self._memory() - self._memory_collected >= MEMORY_GROWTH_MAX

    def _note_time(self) -> None:
        self._checked_at, self._cpu_checked = self._clock.seconds(), self._cpu_seconds()
