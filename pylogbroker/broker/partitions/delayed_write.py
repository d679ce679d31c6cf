"""Produce and DeleteRecords requests that wait until their partitions have reached offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.errors import ErrorCode, KafkaError

ACKS_LEADER = (Mark.SYNCED,)
ACKS_ALL = (Mark.SYNCED, Mark.HIGH_WATERMARK)
"""Offsets to pass before an acknowledgement; the sync comes first, as it may fail."""

_OF_REPLICAS = frozenset({Mark.HIGH_WATERMARK, Mark.LOW_WATERMARK})
"""Offsets that depend on other replicas."""


def timed_out() -> KafkaError:
    """Return the error of a wait for other replicas that has lasted too long."""
    return KafkaError("the replicas did not follow in time", ErrorCode.REQUEST_TIMED_OUT)


@attrs.define(eq=False, repr=False)
class DelayedWrite:
    """Wait of one request. Waits for other replicas end with REQUEST_TIMED_OUT after its timeout."""

    _clock: IReactorTime
    is_expired: bool = attrs.field(default=False, init=False)
    _parts: dict[_Part, None] = attrs.field(factory=dict, init=False)
    _deadline: IDelayedCall | None = attrs.field(default=None, init=False)
    _done: Deferred[None] | None = attrs.field(default=None, init=False)

    def __len__(self) -> int:
        return len(self._parts)

    def add(
        self, partition: Partition, offset: int, marks: Sequence[Mark], on_error: Callable[[KafkaError], None]
    ) -> None:
        """Wait until one mark after the other has reached the offset."""
        part = _Part(self, partition, offset, marks, on_error)
        self._parts[part] = None
        part.try_complete()

    def wait(self, timeout_ms: int | None = None) -> Deferred[None]:
        """Fire when each partition has reached its offset, or failed."""
        if not self._parts:
            return succeed(None)
        if timeout_ms is not None:
            self._deadline = self._clock.callLater(max(timeout_ms, 0) / 1000, self.expire)
        self._done = Deferred()
        return self._done

    def expire(self) -> None:
        """Fail waits for other replicas, now and later."""
        self.is_expired = True
        for part in tuple(self._parts):
            part.expire()

    def end(self, part: _Part) -> None:
        self._parts.pop(part, None)
        if self._parts or self._done is None:
            return
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        done, self._done = self._done, None
        done.callback(None)


@attrs.define(eq=False, repr=False)
class _Part:
    _write: DelayedWrite
    _partition: Partition
    _offset: int
    _marks: Sequence[Mark]
    _on_error: Callable[[KafkaError], None]
    _awaited: Mark | None = attrs.field(default=None, init=False)

    def try_complete(self, size: int = 0) -> bool:
        for mark in self._marks:
            if self._partition.offset(mark) < self._offset:
                self._wait_for(mark)
                return False
        replication = self._partition.replication
        if replication is not None and Mark.HIGH_WATERMARK in self._marks:
            try:
                replication.check_replicated()
            except KafkaError as error:
                self._on_error(error)
        self._write.end(self)
        return True

    def _wait_for(self, mark: Mark) -> None:
        self._leave()
        self._awaited = mark
        if self._write.is_expired and mark in _OF_REPLICAS:
            self.expire()
        else:
            self._partition.purgatory.add(self, mark, self._offset)

    def expire(self) -> None:
        if self._awaited in _OF_REPLICAS:
            self._leave()
            self.fail(timed_out())

    def _leave(self) -> None:
        if self._awaited is not None:
            self._partition.purgatory.remove(self, self._awaited)

    def fail(self, error: KafkaError) -> None:
        self._on_error(error)
        self._write.end(self)
