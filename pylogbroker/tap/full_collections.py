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

BLOCKS_CHANGED_MIN: Final = 20_000
"""Blocks that were allocated or freed since the last full collection, after which another one may find garbage.

Frozen objects are a sign of garbage only if they stay: most of what the web UI's pages freeze are the temporary objects
of a page that is being made. Reference counts free them, so that a full collection finds nothing.
"""

QUIET_CHECKS_MIN: Final = 12
"""Checks without newly frozen objects, after which a full collection delays nobody, however little it finds."""

BLOCKS_FREED_MIN: Final = 50_000
"""Freed blocks, mostly small objects, after which an idle broker returns memory. 1,000 partitions have as many."""


@attrs.define(eq=False, repr=False)
class FullCollections:
    """Runs a full collection when the broker has been idle since the last check, and there may be much garbage.

    With 10,000 partitions it holds the reactor for 50 ms or more. A broker that is never idle runs one when its process
    has grown by `MEMORY_GROWTH_MAX` since the last one. Neither interrupts a request. Little garbage waits until the
    broker has been quiet for a minute.

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
    _blocks_collected: int = attrs.field(default=0, init=False)  # after the last full collection
    _freezes_checked: int = attrs.field(default=0, init=False)
    _quiet_checks: int = attrs.field(default=0, init=False)
    _blocks_most: int = attrs.field(default=0, init=False)  # since memory was returned
    _checked_at: float = attrs.field(default=0.0, init=False)
    _cpu_checked: float = attrs.field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self._checks = PeriodicCall(self._clock, self._check)

    def start(self) -> None:
        self._note_collection()
        self._note_time()
        self._checks.start(CHECK_SECONDS, now=False)

    def stop(self) -> None:
        if self._checks.running:
            self._checks.stop()

    def _check(self) -> None:
        is_idle = self._is_idle
        self._quiet_checks = self._quiet_checks + 1 if self._objects.freezes == self._freezes_checked else 0
        self._freezes_checked = self._objects.freezes
        if self._objects.may_hold_garbage and (self._has_grown or (is_idle and self._is_worth_it)):
            self._objects.collect()
            self._note_collection()
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
    def _is_worth_it(self) -> bool:
        has_changed = abs(self._blocks() - self._blocks_collected) >= BLOCKS_CHANGED_MIN
        return has_changed or self._quiet_checks >= QUIET_CHECKS_MIN

    @property
    def _has_grown(self) -> bool:
        return self._memory() - self._memory_collected >= MEMORY_GROWTH_MAX

    def _note_collection(self) -> None:
        self._memory_collected, self._blocks_collected = self._memory(), self._blocks()

    def _note_time(self) -> None:
        self._checked_at, self._cpu_checked = self._clock.seconds(), self._cpu_seconds()
