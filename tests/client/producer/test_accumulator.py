"""The queue's core: what makes a batch, when it may leave, and how much fits in."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.client.partition_queue import PartitionQueue, ProducerIdentity
from pylogbroker.client.producer.accumulator import OVERHEAD, Accumulator, BufferLimits
from pylogbroker.client.producer.batch import Collector
from pylogbroker.client.producer.model import BatchMetadata, RecordMetadata

NODE = 3


class RecordCompletion:
    """Records its calls."""

    def __init__(self) -> None:
        self.reported: list[object] = []

    def callback(self, result: object) -> None:
        self.reported.append(result)

    def errback(self, fail: object) -> None:
        self.reported.append(fail)


def made(**limits: float) -> tuple[Accumulator, PartitionQueue]:
    accumulator = Accumulator(BufferLimits(**limits))  # type: ignore[arg-type]
    queue = accumulator.queue("topic", 0)
    queue.start_epoch(ProducerIdentity(1, 0))
    queue.is_known = True
    return accumulator, queue


def add(
    accumulator: Accumulator,
    queue: PartitionQueue,
    value: bytes,
    now: float = 0.0,
    key: bytes | None = None,
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> RecordCompletion:
    completion = RecordCompletion()
    size = OVERHEAD + len(value) + len(key or b"")
    accumulator.append(queue, key, value, int(now * 1000), headers, size, completion, now)
    return completion


def leaving(accumulator: Accumulator, now: float, window: int = 5) -> list[list[bytes | None]]:
    """The values of the batches that leave at that time."""
    batches = []
    queues = accumulator.collect(now)
    while queues:
        queue = queues.pop()
        batch = accumulator.next_batch(queue, now, window, NODE)
        if batch is not None:
            accumulator.take(queue, batch, NODE)
            batches.append(batch.values)
            queues.append(queue)
    return batches


def test_without_linger_a_batch_leaves_at_once() -> None:
    accumulator, queue = made()
    add(accumulator, queue, b"a")
    add(accumulator, queue, b"b")
    assert leaving(accumulator, 0.0) == [[b"a", b"b"]]
    assert leaving(accumulator, 9.0) == []


def test_a_batch_lingers_for_others() -> None:
    accumulator, queue = made(linger=0.5)
    add(accumulator, queue, b"a", 10.0)
    add(accumulator, queue, b"b", 10.4)
    assert leaving(accumulator, 10.4) == []
    assert accumulator.next_due() == 10.5
    assert leaving(accumulator, 10.5) == [[b"a", b"b"]]


def test_a_full_batch_does_not_linger() -> None:
    accumulator, queue = made(linger=0.5, batch_bytes=2 * (OVERHEAD + 10))
    for value in (b"a" * 10, b"b" * 10, b"c" * 10):
        add(accumulator, queue, value)
    assert leaving(accumulator, 0.0) == [[b"a" * 10, b"b" * 10]]
    assert leaving(accumulator, 0.5) == [[b"c" * 10]]


def test_a_record_that_does_not_fit_begins_a_batch() -> None:
    accumulator, queue = made(linger=0.5, batch_bytes=100)
    add(accumulator, queue, b"a" * 50)
    add(accumulator, queue, b"b" * 50)
    assert leaving(accumulator, 0.0) == [[b"a" * 50]]


def test_a_record_that_is_larger_than_a_batch_has_one_of_its_own() -> None:
    accumulator, queue = made(batch_bytes=100)
    add(accumulator, queue, b"a")
    add(accumulator, queue, b"b" * 1000)
    add(accumulator, queue, b"c")
    assert leaving(accumulator, 0.0) == [[b"a"], [b"b" * 1000], [b"c"]]


def test_batches_by_number() -> None:
    accumulator, queue = made(linger=0.5, batch_records=2)
    for value in (b"a", b"b", b"c"):
        add(accumulator, queue, value)
    assert leaving(accumulator, 0.0) == [[b"a", b"b"]]


def test_batches_do_not_linger_during_a_flush() -> None:
    accumulator, queue = made(linger=60.0)
    add(accumulator, queue, b"a")
    accumulator.stop_lingering()
    assert leaving(accumulator, 0.0) == [[b"a"]]
    add(accumulator, queue, b"b")
    assert leaving(accumulator, 0.0) == [[b"b"]]
    accumulator.flushers -= 1
    add(accumulator, queue, b"c")
    assert leaving(accumulator, 0.0) == []


def test_a_partition_queue_pauses_after_a_failure() -> None:
    accumulator, queue = made()
    add(accumulator, queue, b"a")
    leaving(accumulator, 0.0)
    queue.requeue(queue.in_flight[0])
    queue.resume_at = 2.0
    accumulator.ready[queue] = None
    assert leaving(accumulator, 1.0) == []
    assert accumulator.next_due() == 2.0
    assert leaving(accumulator, 2.0) == [[b"a"]]


def test_space_is_bounded_by_bytes() -> None:
    accumulator, queue = made(memory=100)
    assert accumulator.has_space(1000)
    add(accumulator, queue, b"a" * (60 - OVERHEAD))
    assert accumulator.has_space(40)
    assert not accumulator.has_space(41)
    [batch] = accumulator.batches()
    accumulator.release(batch)
    assert accumulator.has_space(41)


def test_space_is_bounded_by_records() -> None:
    accumulator, queue = made(records=2)
    add(accumulator, queue, b"a")
    assert accumulator.has_space(1)
    add(accumulator, queue, b"b")
    assert not accumulator.has_space(1)


def test_batches_expire_unless_they_are_in_flight() -> None:
    accumulator, queue = made(batch_records=1, delivery_timeout=5.0)
    for value in (b"flying", b"returned", b"waiting"):
        add(accumulator, queue, value)
    leaving(accumulator, 0.0, window=2)
    queue.requeue(queue.in_flight[1])
    assert accumulator.expire(4.9) == []
    assert [batch.values for _, batch in accumulator.expire(5.0)] == [[b"waiting"], [b"returned"]]
    assert [batch.values for batch in accumulator.batches()] == [[b"flying"]]


def test_keys_and_headers_begin_anywhere_in_a_batch() -> None:
    accumulator, queue = made()
    add(accumulator, queue, b"a")
    add(accumulator, queue, b"b", key=b"key")
    add(accumulator, queue, b"c", headers=(("name", b"data"),))
    [batch] = accumulator.batches()
    assert batch.keys == [None, b"key", None]
    assert batch.headers == [(), (), (("name", b"data"),)]


def collected(count: int) -> tuple[Collector, list[Sequence[object]]]:
    reported: list[Sequence[object]] = []
    return Collector([RecordMetadata("", -1, -1, -1)] * count, reported.append), reported


def extend(accumulator: Accumulator, queue: PartitionQueue, values: list[bytes], collector: Collector) -> list[int]:
    """Put them all in; how many each batch took."""
    taken, start = [], 0
    while start < len(values):
        rest = values[start:]
        sizes = [OVERHEAD + len(value) for value in rest]
        places = range(start, len(values))
        taken.append(accumulator.extend(queue, None, rest, 7, sizes, collector, places, 0.0))
        start += taken[-1]
    return taken


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"batch_bytes": 3 * (OVERHEAD + 4)}, [2, 3, 2]),
        ({"batch_bytes": 3 * (OVERHEAD + 4) + 1}, [2, 3, 2]),
        ({"batch_records": 4}, [3, 4]),
        ({"batch_bytes": 1}, [1] * 7),
    ],
)
def test_many_records_fill_one_batch_after_the_other(limits: dict[str, float], expected: list[int]) -> None:
    accumulator, queue = made(**limits)
    add(accumulator, queue, b"0000")
    collector, _ = collected(7)
    assert extend(accumulator, queue, [b"%04d" % number for number in range(1, 8)], collector) == expected
    values = [value for batch in accumulator.batches() for value in batch.values]
    assert values == [b"%04d" % number for number in range(8)]


def test_the_results_of_many_come_in_their_order_when_all_are_there() -> None:
    accumulator, queue = made(batch_records=3)
    collector, reported = collected(5)
    extend(accumulator, queue, [b"%d" % number for number in range(5)], collector)
    first, second = accumulator.batches()
    second.succeed(BatchMetadata("topic", 0, 40, second.timestamps, -1))
    assert reported == []
    first.succeed(BatchMetadata("topic", 0, 30, first.timestamps, -1))
    assert [result.offset for result in reported[0]] == [30, 31, 32, 40, 41]  # type: ignore[attr-defined]


def test_halves_report_to_their_own_senders() -> None:
    accumulator, queue = made()
    completion = add(accumulator, queue, b"x", key=b"key", headers=(("h", None),))
    collector, reported = collected(4)
    extend(accumulator, queue, [b"0", b"1", b"2", b"3"], collector)
    [batch] = accumulator.batches()
    batch.position = 10
    left, right = batch.halves()
    assert (left.values, right.values) == ([b"x", b"0"], [b"1", b"2", b"3"])
    assert (left.position, right.position) == (10, 12)
    assert (left.keys, left.headers) == ([b"key", None], [(("h", None),), ()])
    right.succeed(BatchMetadata("topic", 0, 8, right.timestamps, -1))
    error = ValueError("too large")
    left.fail(error)
    assert completion.reported == [error]
    assert reported == [[error, *BatchMetadata("topic", 0, 8, [7, 7, 7], -1)]]


def test_metadata_holds_known_offsets_and_times() -> None:
    assert list(BatchMetadata("t", 1, 5, [100, 200], -1)) == [
        RecordMetadata("t", 1, 5, 100),
        RecordMetadata("t", 1, 6, 200),
    ]
    assert list(BatchMetadata("t", 1, -1, [100, 200], -1)) == [RecordMetadata("t", 1, -1, time) for time in (100, 200)]
    assert list(BatchMetadata("t", 1, 5, [100, 200], 300)) == [RecordMetadata("t", 1, offset, 300) for offset in (5, 6)]


@given(st.integers(-1, 9), st.sampled_from([-1, 300]), st.integers(0, 6), st.integers(0, 6))
def test_a_slice_of_metadata_equals_its_single_rows(base_offset: int, append_time: int, start: int, stop: int) -> None:
    rows = BatchMetadata("t", 1, base_offset, range(100, 105), append_time)
    assert rows[start:stop] == list(rows)[start:stop]


def test_a_full_batch_is_reported_once() -> None:
    closed: list[PartitionQueue] = []
    accumulator, queue = made(batch_records=2)
    accumulator.on_closed = closed.append
    for value in (b"a", b"b", b"c"):
        add(accumulator, queue, value)
    assert closed == [queue]
    leaving(accumulator, 0.0)
    assert closed == [queue, queue]
