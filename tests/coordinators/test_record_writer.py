"""Records of coordinators on their way to the log, and the errors that come back."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pylogbroker.coordinators import (
    RECORDS_INLINE_MAX,
    AppendCallback,
    EventQueue,
    LazyRecords,
    ProducerIdAndEpoch,
    RecordWriter,
    record,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record
from pylogbroker.wire import EncodingError

PRODUCER = ProducerIdAndEpoch(7, 1)


class Log:
    """Fails every append with `error`, at once."""

    def __init__(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.error = error
        self.appends: list[tuple[int, Collection[Record], ProducerIdAndEpoch | None, bool]] = []

    def append(
        self,
        partition: int,
        records: Collection[Record],
        done: AppendCallback,
        producer: ProducerIdAndEpoch | None = None,
        on_disk: bool = False,
    ) -> None:
        self.appends.append((partition, records, producer, on_disk))
        done(self.error, 20)


def records(count: int) -> LazyRecords:
    def encode() -> Iterator[Record]:
        for number in range(count):
            yield record(b"key", b"%d" % number, 10)

    return LazyRecords(count, encode)


def test_an_append_goes_to_the_log_as_it_is_asked_for() -> None:
    log, results = Log(), []
    writer = RecordWriter(log, EventQueue())
    writer.append(3, records(2), 10, lambda *result: results.append(result), producer=PRODUCER, on_disk=True)
    values = [Record(0, 10, b"key", value) for value in (b"0", b"1")]
    assert log.appends == [(3, values, PRODUCER, True)]
    assert results == [(ErrorCode.NONE, 20)]


def test_the_callback_runs_after_the_operation() -> None:
    events, results = EventQueue(), []
    with events:
        RecordWriter(Log(), events).append(0, records(1), 10, lambda *result: results.append(result))
        assert results == []
    assert results == [(ErrorCode.NONE, 20)]


def test_errors_are_translated_for_clients() -> None:
    for error, wanted in (
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        results: list[ErrorCode] = []
        writer = RecordWriter(Log(error), EventQueue())
        writer.append(0, records(1), 10, lambda error, now_ms, results=results: results.append(error))
        assert results == [wanted]


def test_many_records_are_encoded_by_the_log() -> None:
    log = Log()
    writer = RecordWriter(log, EventQueue())
    for count in (RECORDS_INLINE_MAX, RECORDS_INLINE_MAX + 1):
        writer.append(0, records(count), 10, lambda error, now_ms: None)
    (_, few, *_), (_, many, *_) = log.appends
    assert (type(few), type(many)) == (list, LazyRecords)
    assert list(many) == list(many) == list(records(RECORDS_INLINE_MAX + 1))
    assert few[0] in many


def test_a_record_of_many_elements_is_encoded_by_the_log() -> None:
    log = Log()
    large = LazyRecords(1, records(1)._encode, elements=RECORDS_INLINE_MAX + 1)
    RecordWriter(log, EventQueue()).append(0, large, 10, lambda error, now_ms: None)
    assert log.appends[0][1] is large


def test_records_that_cannot_be_encoded_are_too_large() -> None:
    def encode() -> Iterator[Record]:
        yield record(b"key", None, 10)
        raise EncodingError("a string of 40000 bytes")

    log, results = Log(), []
    RecordWriter(log, EventQueue()).append(0, LazyRecords(2, encode), 10, lambda *result: results.append(result))
    assert (log.appends, results) == ([], [(ErrorCode.MESSAGE_TOO_LARGE, 10)])
