"""Appends a coordinator's records; translates errors for its clients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import attrs

from pylogbroker.coordinators.event_queue import EventQueue
from pylogbroker.coordinators.log_port import AppendCallback, LogPort, ProducerIdAndEpoch
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record
from pylogbroker.wire import EncodingError

RECORDS_INLINE_MAX = 500
"""Records, or members of a group's record, encoded at once, in about 1 ms; a thread encodes more."""

APPEND_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""Errors of a client's request by the append's error; others stay."""


def record(key: bytes, value: bytes | None, now_ms: int) -> Record:
    return Record(offset=0, timestamp=now_ms, key=key, value=value)


@attrs.frozen
class LazyRecords(Collection[Record]):
    """`count` records, or `elements` in them, that `encode` yields on each iteration, in any thread."""

    _count: int
    _encode: Callable[[], Iterator[Record]]
    _elements: int = 0

    @property
    def is_long(self) -> bool:
        return max(self._count, self._elements) > RECORDS_INLINE_MAX

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Record]:
        return self._encode()

    def __contains__(self, record: object) -> bool:
        return any(record == other for other in self)


@attrs.frozen
class RecordWriter:
    """Appends records; callbacks run as events."""

    _log: LogPort
    _events: EventQueue

    def append(
        self,
        partition: int,
        records: Collection[Record],
        now_ms: int,
        done: AppendCallback,
        errors: Mapping[ErrorCode, ErrorCode] = APPEND_ERRORS,
        producer: ProducerIdAndEpoch | None = None,
        on_disk: bool = False,
    ) -> None:
        """Append all records or none; `done` gets the translated error.

        MESSAGE_TOO_LARGE for a string or list beyond the record schema.
        """
        report = self._events.as_event(lambda error, done_ms: done(errors.get(error, error), done_ms))
        try:
            encoded = records if isinstance(records, LazyRecords) and records.is_long else list(records)
        except EncodingError:
            report(ErrorCode.MESSAGE_TOO_LARGE, now_ms)
        else:
            self._log.append(partition, encoded, report, producer, on_disk)

    def append_unreplicated(self, partition: int, records: LazyRecords) -> None:
        self._log.append_unreplicated(partition, records if records.is_long else list(records))
