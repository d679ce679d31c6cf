"""Purgatory of a partition: operations that wait until one of its offsets has risen far enough.

offset          rises when                                         awaited by
--------------  -------------------------------------------------  ------------------------------------------
LOG_END         records are appended                               fetches of followers
SYNCED          records that `flush.messages` wants on the disk    produce
                are there
HIGH_WATERMARK  all of its conditions allow it                     fetches of consumers, produce with acks=all
LOW_WATERMARK   every replica has deleted its first records        DeleteRecords
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Protocol

import attrs

from pylogbroker.errors import KafkaError


class Mark(IntEnum):
    """An offset of a partition that operations wait for."""

    LOG_END = auto()
    SYNCED = auto()
    HIGH_WATERMARK = auto()
    LOW_WATERMARK = auto()


class DelayedOperation(Protocol):
    """Operation that waits for an offset of a partition."""

    def try_complete(self, size: int) -> bool:
        """Return whether the wait ends, now that the offset is reached; `size` more bytes lie below it.

        The purgatory forgets a complete operation, and calls an incomplete one at the next rise.
        """

    def fail(self, error: KafkaError) -> None:
        """End the wait: the offset will not be reached."""


@attrs.define(eq=False)
class Purgatory:
    """Delayed operations of one partition, each with the offset that it waits for."""

    delayed: dict[Mark, dict[DelayedOperation, int]] = attrs.field(factory=dict, init=False)
    _closed: KafkaError | None = attrs.field(default=None, init=False)
    _unsynced: tuple[int, KafkaError] | None = attrs.field(default=None, init=False)

    def __len__(self) -> int:
        return sum(map(len, self.delayed.values()))

    def add(self, operation: DelayedOperation, mark: Mark, offset: int) -> None:
        """Let an operation wait until a mark reaches an offset; it fails at once if that is known never to happen."""
        if self._closed is not None:
            operation.fail(self._closed)
        elif mark is Mark.SYNCED and self._unsynced is not None and offset <= self._unsynced[0]:
            operation.fail(self._unsynced[1])
        else:
            self.delayed.setdefault(mark, {})[operation] = offset

    def remove(self, operation: DelayedOperation, mark: Mark) -> None:
        """Forget that an operation waits for a mark; it may be complete already."""
        self.delayed.get(mark, {}).pop(operation, None)

    def reached(self, mark: Mark, offset: int, size: int = 0) -> None:
        """Try to complete the operations that wait for `offset` or a smaller one."""
        if mark is Mark.SYNCED and self._unsynced is not None and offset >= self._unsynced[0]:
            self._unsynced = None
        waiting = self.delayed.get(mark)
        if waiting:
            for operation, wanted in tuple(waiting.items()):
                if wanted <= offset and operation.try_complete(size):
                    waiting.pop(operation, None)

    def sync_failed(self, upto: int, error: KafkaError) -> None:
        """Fail the operations that wait for the sync of records below `upto`."""
        self._unsynced = upto, error
        waiting = self.delayed.get(Mark.SYNCED, {})
        for operation, offset in tuple(waiting.items()):
            if offset <= upto and waiting.pop(operation, None) is not None:
                operation.fail(error)

    def close(self, error: KafkaError) -> None:
        """Fail all operations, and those that come later."""
        self._closed = error
        for waiting in self.delayed.values():
            while waiting:
                waiting.popitem()[0].fail(error)
