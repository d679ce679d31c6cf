"""Values that clients write and read: which ones a read may find, although the outcome of some writes is unknown."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from math import inf
from typing import Any, Final

import attrs

from tests.replication.invariants import Violation

_WRITES_SHOWN: Final = 5


@attrs.define(eq=False)
class Write:
    value: Any
    began: int
    ended: float = inf
    """When it was acknowledged, or first seen; the outcome of others is unknown, and they may still take effect."""


class Registers:
    """Registers by key. Each found value must be of a write that no later one has replaced."""

    def __init__(self, invariant: str, initial: object) -> None:
        self._invariant = invariant
        self._initial = initial
        self._writes: dict[Hashable, list[Write]] = {}
        self._time = 0

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._writes)

    @property
    def acknowledged(self) -> int:
        return sum(each.ended < inf for writes in self._writes.values() for each in writes)

    def now(self) -> int:
        self._time += 1
        return self._time

    def begin(self, key: Hashable, value: object) -> Write:
        write = Write(value, self.now())
        self._writes.setdefault(key, []).append(write)
        return write

    def acknowledge(self, write: Write) -> None:
        write.ended = min(write.ended, self.now())

    def withdraw(self, key: Hashable, write: Write) -> None:
        """Forget a write that certainly had no effect."""
        self._writes[key].remove(write)

    def check_read(self, key: Hashable, value: object, began: int) -> None:
        """Check that a value that was asked for at `began` is not older than an acknowledged one."""
        writes = self._writes.get(key, [])
        possible = [each for each in writes if each.value == value and not _is_replaced(each, writes, began)]
        is_initial = value == self._initial and not any(each.ended < began for each in writes)
        if not possible and not is_initial:
            raise Violation(f"{self._invariant}: {key} has {value}, after {writes[-_WRITES_SHOWN:]}")
        if len(possible) == 1 and not is_initial:
            self.acknowledge(possible[0])


def _is_replaced(write: Write, writes: Iterable[Write], began: int) -> bool:
    return any(write.ended < later.began and later.ended < began for later in writes)
