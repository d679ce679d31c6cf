"""Purgatory of a partition: operations that wait for one of its offsets to rise.

offset          rises when                                         awaited by
--------------  -------------------------------------------------  ------------------------------------------
LOG_END         records are appended                               fetches of followers
SYNCED          records that `flush.messages` wants on the disk    produce
                are there
HIGH_WATERMARK  all of its conditions allow it                     fetches of consumers, produce with acks=all
LOW_WATERMARK   every replica has deleted its first records        DeleteRecords
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, auto
from typing import Final, Protocol

import attrs

from pylogbroker.errors import KafkaError


class Mark(IntEnum):
    LOG_END = auto()
    SYNCED = auto()
    HIGH_WATERMARK = auto()
    LOW_WATERMARK = auto()


class DelayedOperation(Protocol):
    def try_complete(self, size: int) -> bool:
        """Return whether the wait ends: the offset is reached; `size` more bytes lie below it.

        The purgatory forgets a complete operation, and calls an incomplete one at the next rise.
        """

    def fail(self, error: KafkaError) -> None:
        """End the wait: the offset will not be reached."""


_NOTHING: Final[Mapping[DelayedOperation, int]] = {}
_UNUSED: Final[dict[Mark, dict[DelayedOperation, int]]] = {}
"""Of all partitions that no operation has waited for; never changed."""


@attrs.define(eq=False, repr=False)
class Purgatory:
    """Delayed operations of one partition, by mark."""

    delayed: dict[Mark, dict[DelayedOperation, int]] = attrs.field(default=_UNUSED, init=False)
    _closed: KafkaError | None = attrs.field(default=None, init=False)
    _unsynced: tuple[int, KafkaError] | None = attrs.field(default=None, init=False)

    def __len__(self) -> int:
        return sum(map(len, self.delayed.values()))

    def add(self, operation: DelayedOperation, mark: Mark, offset: int) -> None:
        """Let an operation wait until a mark reaches an offset; fail it at once if that cannot happen."""
        if self._closed is not None:
            operation.fail(self._closed)
        elif mark is Mark.SYNCED and self._unsynced is not None and offset <= self._unsynced[0]:
            operation.fail(self._unsynced[1])
        else:
            if self.delayed is _UNUSED:
                self.delayed = {}
            self.delayed.setdefault(mark, {})[operation] = offset

    def remove(self, operation: DelayedOperation, mark: Mark) -> None:
        waiting = self.delayed.get(mark)
        if waiting is not None:
            waiting.pop(operation, None)
            if not waiting:
                del self.delayed[mark]

    def reached(self, mark: Mark, offset: int, size: int = 0) -> None:
        """Try to complete operations that wait for `offset` or less."""
        if mark is Mark.SYNCED and self._unsynced is not None and offset >= self._unsynced[0]:
            self._unsynced = None
        for operation, target in tuple(self.delayed.get(mark, _NOTHING).items()):
            if target <= offset and operation.try_complete(size):
                self.remove(operation, mark)

    def sync_failed(self, upto: int, error: KafkaError) -> None:
        """Fail operations that wait for the sync of records below `upto`."""
        self._unsynced = upto, error
        waiting = self.delayed.get(Mark.SYNCED, _NOTHING)
        for operation, offset in tuple(waiting.items()):
            if offset <= upto and operation in waiting:
                self.remove(operation, Mark.SYNCED)
                operation.fail(error)

    def close(self, error: KafkaError) -> None:
        self._closed = error
        self.fail_all(error)

    def fail_all(self, error: KafkaError) -> None:
        delayed, self.delayed = self.delayed, {}
        for waiting in delayed.values():
            for operation in waiting:
                operation.fail(error)
