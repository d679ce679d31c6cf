"""Streams and fetch buffers: order, fairness, position of the reader, and timeouts. Without a broker."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from pylogbroker.client.consumer.fetch_buffer import Chunk, FetchBuffer
from pylogbroker.client.consumer.streams import ConsumerTimeout, Stream
from pylogbroker.client.errors import PluginFailed
from pylogbroker.client.messages import Message, MessageSet
from pylogbroker.errors import CorruptRecords
from pylogbroker.records import Record, TimestampType, build


def messages(topic: str, *offsets: int) -> list[Message]:
    return [Message(topic, 0, each, 0, TimestampType.CREATE_TIME, None, b"", (), each + 1) for each in offsets]


class Harness:
    """A stream and its clock."""

    def __init__(self, **how: Any) -> None:
        self.clock = Clock()
        self.stream = Stream(self.clock, **how)  # type: ignore[arg-type]

    def buffer(self, topic: str, *chunks: list[int]) -> FetchBuffer:
        buffer = FetchBuffer(topic, 0, 1000)
        buffer.begin(0)
        self.stream.attach(buffer)
        for chunk in chunks:
            self.add(buffer, iter(messages(topic, *chunk)), chunk[-1] + 1)
        return buffer

    def add(self, buffer: FetchBuffer, found: Iterator[Message], end: int) -> None:
        was_empty = not buffer.chunks
        buffer.add(Chunk(iter([found]), 10, end))
        if was_empty:
            self.stream.filled(buffer)

    def take(self, count: int) -> list[tuple[str, int]]:
        return [(each.topic, each.offset) for each in self.stream.take(count)]


def now(deferred: Deferred[Any]) -> Any:
    """Return the result of a fired Deferred."""
    found: list[Any] = []
    deferred.addCallback(found.append)
    [value] = found
    return value


def following(stream: Stream) -> Any:
    return now(ensureDeferred(stream.__anext__()))


def test_buffers_alternate_chunk_by_chunk() -> None:
    harness = Harness()
    harness.buffer("a", [0, 1], [2, 3])
    harness.buffer("b", [0], [1])
    assert harness.take(3) == [("a", 0), ("a", 1), ("b", 0)]
    assert harness.take(10) == [("a", 2), ("a", 3), ("b", 1)]
    assert harness.take(10) == []


def test_how_far_the_reader_is() -> None:
    harness = Harness()
    buffer = harness.buffer("a", [0, 1, 2], [5, 6])
    assert harness.take(2) == [("a", 0), ("a", 1)]
    assert (buffer.delivered, buffer.done, buffer.is_processing) == (2, 0, True)
    assert harness.take(2) == [("a", 2), ("a", 5)]
    assert (buffer.delivered, buffer.done) == (6, 2)
    assert harness.take(9) == [("a", 6)]
    assert harness.take(9) == []
    assert (buffer.delivered, buffer.done, buffer.is_processing, buffer.buffered) == (7, 7, False, 0)


def test_offsets_behind_the_last_message_count_as_read() -> None:
    harness = Harness()
    buffer = harness.buffer("a")
    harness.add(buffer, iter(messages("a", 0, 1)), 9)  # a marker, or what was aborted
    harness.take(10)
    assert buffer.delivered == 9


def test_messages_are_iterated_one_by_one() -> None:
    harness = Harness()
    buffer = harness.buffer("a", [0, 1])
    other = harness.buffer("b", [0])
    assert following(harness.stream).offset == 0
    assert (buffer.delivered, buffer.done) == (1, 0)
    assert following(harness.stream).offset == 1
    assert (buffer.delivered, buffer.done) == (2, 1)
    assert following(harness.stream).topic == "b"
    assert (buffer.done, other.done) == (2, 0)


def test_iteration_and_batches_can_be_mixed() -> None:
    harness = Harness()
    buffer = harness.buffer("a", [0, 1, 2, 3])
    assert following(harness.stream).offset == 0
    assert harness.take(2) == [("a", 1), ("a", 2)]
    assert (buffer.delivered, buffer.done) == (3, 1)
    assert following(harness.stream).offset == 3
    assert (buffer.delivered, buffer.done) == (4, 3)
    assert harness.take(1) == []
    assert buffer.done == 4


def test_messages_of_a_revoked_partition_are_not_delivered() -> None:
    harness = Harness()
    gone, other = harness.buffer("a", [0, 1, 2]), harness.buffer("b", [0])
    assert following(harness.stream).offset == 0
    harness.stream.detach(gone)
    gone.close()
    assert gone.is_processing
    assert following(harness.stream).topic == "b"
    assert (gone.delivered, gone.done, gone.is_processing) == (1, 1, False)
    assert other.delivered == 1


def test_new_messages_wake_waiting_readers() -> None:
    harness = Harness()
    buffer = harness.buffer("a")
    many, one = harness.stream.get_many(5), ensureDeferred(harness.stream.__anext__())
    harness.add(buffer, iter(messages("a", 0)), 1)
    assert [each.offset for each in now(many)] == [0]
    assert not one.called
    harness.add(buffer, iter(messages("a", 1)), 2)
    assert now(one).offset == 1


def test_timeouts() -> None:
    harness = Harness(timeout=3)
    many, one = harness.stream.get_many(5, timeout=2), ensureDeferred(harness.stream.__anext__())
    harness.clock.advance(2)
    assert now(many) == []
    harness.clock.advance(1)
    one.addErrback(lambda failure: failure.trap(ConsumerTimeout))
    assert now(one) is ConsumerTimeout
    assert harness.clock.getDelayedCalls() == []


def test_the_end_stops_the_iteration() -> None:
    harness = Harness()
    waiting = ensureDeferred(harness.stream.__anext__())
    harness.stream.end()
    waiting.addErrback(lambda failure: failure.trap(StopAsyncIteration))
    assert now(waiting) is StopAsyncIteration
    assert now(harness.stream.get_many()) == []


def test_an_error_is_reported_after_buffered_messages() -> None:
    harness = Harness()
    harness.buffer("a", [0])
    harness.stream.fail(LookupError("so"))
    assert now(harness.stream.get_many())[0].offset == 0
    failed = harness.stream.get_many()
    failed.addErrback(lambda failure: failure.trap(LookupError))
    assert now(failed) is LookupError


class Stumbling:
    """Messages, some of which are errors."""

    def __init__(self, *what: Message | Exception) -> None:
        self._what = iter(what)

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        found = next(self._what)
        if isinstance(found, Exception):
            raise found
        return found


def test_a_message_that_its_decoder_rejects_is_reported_and_skipped() -> None:
    harness = Harness()
    first, _, third = messages("b", 0, 1, 2)
    harness.buffer("a", [0])
    buffer = harness.buffer("b")
    harness.add(buffer, Stumbling(first, PluginFailed("json", "so"), third), 3)
    assert harness.take(9) == [("a", 0), ("b", 0)]
    assert buffer.delivered == 1
    with pytest.raises(PluginFailed):
        harness.take(9)
    assert harness.take(9) == [("b", 2)]


def test_damaged_bytes_are_not_passed_over() -> None:
    harness = Harness()
    buffer = harness.buffer("a")
    harness.add(buffer, Stumbling(*messages("a", 0), CorruptRecords("so"), *messages("a", 2)), 3)
    assert harness.take(9) == [("a", 0)]
    for _ in range(3):
        with pytest.raises(CorruptRecords):
            harness.take(9)
    assert buffer.delivered == 1


def test_messages_that_are_taken_are_made_when_they_are_read() -> None:
    harness = Harness()
    buffer = harness.buffer("a")
    data = build([Record(each, 5, None, b"%d" % each) for each in range(300)])
    buffer.add(Chunk(MessageSet("a", 0, data).pieces(), len(data), 300))
    harness.stream.filled(buffer)
    first, rest = harness.stream.take(250), harness.stream.take(250)
    gc.collect()
    assert not [thing for thing in gc.get_objects() if isinstance(thing, Message) and thing.topic == "a"]
    assert [message.offset for message in first] == list(range(250))
    assert [message.value for message in rest] == [b"%d" % each for each in range(250, 300)]
    assert (buffer.delivered, buffer.done) == (300, 250)


def test_seeking_drops_buffered_messages() -> None:
    harness = Harness()
    buffer = harness.buffer("a", [0, 1, 2], [3])
    assert following(harness.stream).offset == 0
    buffer.begin(40)
    harness.stream.forget(buffer)
    harness.add(buffer, iter(messages("a", 40)), 41)
    assert following(harness.stream).offset == 40
    assert (buffer.delivered, buffer.done) == (41, 40)


def test_messages_that_are_not_to_be_seen_do_not_prolong_the_wait() -> None:
    harness = Harness()
    buffer = harness.buffer("a")
    waiting = harness.stream.get_many(timeout=1.0)
    for offset in (1, 2):
        harness.clock.advance(0.6)
        harness.add(buffer, iter(()), offset)  # a marker, or what was aborted
    assert now(waiting) == []
    harness = Harness(timeout=1.0)
    buffer = harness.buffer("a")
    following = ensureDeferred(harness.stream.__anext__())
    for offset in (1, 2):
        harness.clock.advance(0.6)
        harness.add(buffer, iter(()), offset)
    found: list[Any] = []
    following.addErrback(found.append)
    assert found[0].check(ConsumerTimeout)


def test_every_error_is_reported() -> None:
    harness = Harness()
    for name in ("one", "two"):
        harness.stream.fail(RuntimeError(name))
    for name in ("one", "two"):
        found: list[Any] = []
        harness.stream.get_many().addErrback(found.append)
        assert str(found[0].value) == name
