"""Fetch sessions, and fetching: what is asked of whom, when, and what comes of the answers. Without a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock

from pylogbroker.client.consumer.assigned_partitions import NoListener
from pylogbroker.client.consumer.fetch_buffer import Chunk, FetchBuffer
from pylogbroker.client.consumer.fetch_session import ClientFetchSession, SessionPartition
from pylogbroker.client.consumer.fetcher import Fetcher, FetchSettings
from pylogbroker.client.consumer.offset_stores import BrokerOffsets
from pylogbroker.client.consumer.wiring import make_assigned_partitions
from pylogbroker.client.errors import ConnectionLost, NotConnected, TopicRecreated
from pylogbroker.client.metadata import PartitionInfo, TopicInfo
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.retries import Pauses
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

ONE, TWO = UUID(int=1), UUID(int=2)
A, B = ("a", 0), ("b", 0)


def asked(request: FetchRequest) -> dict[TopicPartition, int]:
    return {(topic.topic, each.partition): each.fetch_offset for topic in request.topics for each in topic.partitions}


def forgotten(request: FetchRequest) -> set[TopicPartition]:
    return {(topic.topic, each) for topic in request.forgotten_topics_data for each in topic.partitions}


def sent(session: ClientFetchSession, changes: dict[TopicPartition, SessionPartition | None]) -> FetchRequest:
    request = FetchRequest()
    session.fill(request, changes)
    return request


def test_a_session_sends_only_changes() -> None:
    session = ClientFetchSession()
    first = sent(session, {A: SessionPartition(5, 100, ONE), B: SessionPartition(7, 100, TWO)})
    assert (first.session_id, first.session_epoch, asked(first)) == (0, 0, {A: 5, B: 7})
    session.answered(99)
    second = sent(session, {A: SessionPartition(6, 100, ONE), B: SessionPartition(7, 100, TWO)})
    assert (second.session_id, second.session_epoch, asked(second), forgotten(second)) == (99, 1, {A: 6}, set())
    session.answered(99)
    third = sent(session, {B: None})
    assert (third.session_epoch, asked(third), forgotten(third)) == (2, {}, {B})
    session.answered(99)
    fourth = sent(session, {A: SessionPartition(6, 100, ONE), B: SessionPartition(7, 100, TWO)})
    assert (fourth.session_epoch, asked(fourth), forgotten(fourth)) == (3, {B: 7}, set())


def test_a_topic_that_was_recreated() -> None:
    session = ClientFetchSession()
    sent(session, {A: SessionPartition(5, 100, ONE)})
    session.answered(99)
    request = sent(session, {A: SessionPartition(5, 100, TWO)})
    assert (asked(request), forgotten(request)) == ({A: 5}, {A})
    assert request.forgotten_topics_data[0].topic_id == ONE
    assert request.topics[0].topic_id == TWO


def test_a_broker_without_sessions() -> None:
    session = ClientFetchSession()
    for changes in ({A: SessionPartition(5, 100)}, {}):
        request = sent(session, changes)
        assert (request.session_id, request.session_epoch, asked(request)) == (0, 0, {A: 5})
        session.answered(0)


def test_a_session_that_broke_is_closed_by_the_next() -> None:
    session = ClientFetchSession()
    sent(session, {A: SessionPartition(5, 100)})
    session.answered(99)
    session.broken()
    request = sent(session, {A: SessionPartition(5, 100)})
    assert (request.session_id, request.session_epoch, asked(request)) == (99, 0, {A: 5})
    session.answered(100)
    session.broken(lost=True)
    assert sent(session, {A: SessionPartition(5, 100)}).session_id == 0


def test_epochs_go_round() -> None:
    session = ClientFetchSession(99, 0x7FFFFFFF)
    session.answered(99)
    assert session.epoch == 1


class Brokers:
    """A cluster that answers when the test lets it."""

    def __init__(self, **leaders: int) -> None:
        self.leaders: dict[str, int | None] = dict(leaders)
        self.stale: list[TopicPartition] = []
        self.requests: list[tuple[int, FetchRequest, Deferred[FetchResponse]]] = []
        self.down = False
        self.ids = {name: UUID(bytes=name.encode() * 16) for name in leaders}

    def topics(self) -> dict[str, TopicInfo]:
        info = (PartitionInfo(1, 4, (), ()),)
        return {name: TopicInfo(name, self.ids[name], info) for name in self.leaders}

    def leader_of(self, topic: str, partition: int) -> int | None:
        return self.leaders[topic]

    def leader_is_stale(self, topic: str, partition: int) -> None:
        self.stale.append((topic, partition))

    def version_at(self, node: int, kind: type[Any]) -> int:
        return 17

    def send(
        self, node: int, request: FetchRequest, *, timeout: float, version: int | None, decode_in_thread: bool = False
    ) -> Deferred[FetchResponse]:
        if self.down:
            return fail(NotConnected("down"))
        waiting: Deferred[FetchResponse] = Deferred()
        self.requests.append((node, request, waiting))
        return waiting


class Harness:
    """A fetcher, its clock and its brokers."""

    def __init__(self, **leaders: int) -> None:
        self.clock = Clock()
        self.brokers = Brokers(**leaders)
        self.reported: list[Any] = []
        self.seen = 0
        self.when_fed: Callable[[], object] = lambda: None
        self.fetcher = Fetcher(
            self.brokers,  # type: ignore[arg-type]
            self.clock,  # type: ignore[arg-type]
            FetchSettings(backoff=0.1),
            lambda buffer, data: Chunk(iter(()), len(data.records), buffer.position + 10) if data.records else None,  # type: ignore[arg-type]
            self.filled,
            lambda buffer: self.reported.append(("out of range", buffer.topic)),
            lambda buffer, error: self.reported.append((buffer.topic, error)),
            lambda buffer, end: self.reported.append(("truncated", buffer.topic, end)),
            self.recreated,
        )

    def filled(self, buffer: FetchBuffer) -> None:
        self.reported.append(("fed", buffer.topic))
        self.when_fed()

    def recreated(self, buffer: FetchBuffer, error: TopicRecreated) -> None:
        buffer.forget_topic()
        self.reported.append(("recreated", error.topic, error.before, error.now))

    def buffer(self, topic: str, position: int = 0) -> FetchBuffer:
        buffer = FetchBuffer(topic, 0, 100)
        if position >= 0:
            buffer.begin(position)
        self.fetcher.add(buffer)
        return buffer

    def iterate(self, seconds: float = 0) -> list[tuple[int, dict[TopicPartition, int]]]:
        """Let time pass; whom was asked for what since the last time."""
        self.clock.advance(seconds)
        self.clock.advance(0)
        seen, self.seen = self.seen, len(self.brokers.requests)
        return [(node, asked(request)) for node, request, _ in self.brokers.requests[seen:]]

    def answer(self, code: ErrorCode = ErrorCode.NONE, session: int = 0, **records: bytes | ErrorCode) -> None:
        """Answer the last request."""
        topics = [
            FetchableTopicResponse(
                topic_id=self.brokers.ids[topic],
                partitions=[
                    PartitionData(0, error_code=said) if isinstance(said, ErrorCode) else PartitionData(0, records=said)
                ],
            )
            for topic, said in records.items()
        ]
        self.brokers.requests[-1][2].callback(FetchResponse(error_code=code, session_id=session, responses=topics))


def test_each_leader_is_asked_once_at_a_time() -> None:
    harness = Harness(a=1, b=1, c=2)
    for topic in "abc":
        harness.buffer(topic)
    assert harness.iterate() == [(1, {("a", 0): 0, ("b", 0): 0}), (2, {("c", 0): 0})]
    harness.fetcher.wake()
    assert harness.iterate() == []
    harness.answer(c=b"x" * 10)
    assert harness.iterate() == [(2, {("c", 0): 10})]
    assert harness.reported == [("fed", "c")]


def test_a_position_is_dropped_when_its_topic_is_created_again() -> None:
    harness = Harness(a=1, b=1)
    buffer = harness.buffer("a", 5)
    harness.iterate()
    harness.answer(a=b"")
    assert harness.iterate() == [(1, {A: 5})]
    before, harness.brokers.ids["a"] = harness.brokers.ids["a"], ONE
    harness.brokers.requests[-1][2].callback(FetchResponse(error_code=ErrorCode.UNKNOWN_TOPIC_ID))
    assert harness.iterate(0.2) == []
    assert harness.reported == [("recreated", "a", before, ONE)]
    buffer.begin(0)
    harness.fetcher.wake()
    assert harness.iterate() == [(1, {A: 0})]
    harness.answer(a=b"xyz")
    assert harness.iterate() == [(1, {A: 10})]


def test_a_position_is_of_the_topic_that_answers_it() -> None:
    """A program may seek in the new topic before metadata shows it; brokers without ids have none that differ."""
    harness = Harness(a=1)
    buffer = harness.buffer("a", 5)
    harness.iterate()
    harness.answer(a=ErrorCode.UNKNOWN_TOPIC_ID)
    harness.brokers.ids["a"] = ONE
    assert harness.iterate(0.2) == [(1, {A: 5})]
    harness.answer(a=b"")
    harness.brokers.ids["a"] = NO_ID
    assert harness.iterate() == [(1, {A: 5})]
    harness.answer(a=b"")
    harness.brokers.ids["a"] = TWO
    assert harness.iterate() == [(1, {A: 5})]
    assert (harness.reported, buffer.position) == ([], 5)


def test_more_is_asked_for_before_the_reader_gets_to_work() -> None:
    harness = Harness(a=1)
    harness.buffer("a")
    harness.iterate()
    at_work: list[int] = []
    harness.when_fed = lambda: at_work.append(len(harness.brokers.requests))
    harness.answer(a=b"x")
    assert at_work == [2]
    assert harness.iterate() == [(1, {("a", 0): 10})]


def test_a_buffer_removed_during_an_answer_gets_nothing() -> None:
    harness = Harness(a=1, b=1)
    harness.buffer("a")
    other = harness.buffer("b")
    harness.iterate()
    harness.when_fed = lambda: harness.fetcher.remove(other)
    harness.answer(a=b"x", b=b"x")
    assert harness.reported == [("fed", "a")]


def test_a_broker_that_fails_at_once_is_asked_again() -> None:
    harness = Harness(a=1)
    harness.buffer("a")
    harness.brokers.down = True
    harness.iterate()
    harness.brokers.down = False
    assert harness.iterate(0.05) == []
    assert harness.iterate(0.1) == [(1, {("a", 0): 0})]
    harness.answer(a=b"x")
    assert harness.reported == [("fed", "a")]


def test_a_full_buffer_is_skipped_and_shortens_the_wait() -> None:
    harness = Harness(a=1, b=1)
    full, other = harness.buffer("a"), harness.buffer("b")
    harness.iterate()
    assert harness.brokers.requests[-1][1].max_wait_ms == 500
    harness.answer(a=b"x" * 100)
    assert harness.iterate() == [(1, {("b", 0): 0})]
    assert harness.brokers.requests[-1][1].max_wait_ms == 5
    harness.clock.advance(0.2)
    harness.answer()
    harness.iterate()
    assert harness.brokers.requests[-1][1].max_wait_ms == 200
    assert full.draw(1)[0] == []  # the reader takes what there is
    harness.answer()
    assert harness.iterate() == [(1, {("a", 0): 10, ("b", 0): 0})]
    assert harness.brokers.requests[-1][1].max_wait_ms == 500
    assert other.position == 0


def test_nobody_is_asked_when_all_are_full_or_nowhere() -> None:
    harness = Harness(a=1, b=1)
    buffer, nowhere = harness.buffer("a"), harness.buffer("b", -1)
    harness.iterate()
    harness.answer(a=b"x" * 100)
    assert harness.iterate(10) == []
    buffer.draw(1)
    assert harness.iterate() == [(1, {("a", 0): 10})]
    nowhere.begin(3)
    harness.answer()
    assert harness.iterate() == [(1, {("a", 0): 10, ("b", 0): 3})]


def test_answers_for_removed_or_moved_buffers_are_dropped() -> None:
    harness = Harness(a=1, b=1)
    gone, moved = harness.buffer("a"), harness.buffer("b")
    harness.iterate()
    harness.fetcher.remove(gone)
    moved.begin(50)
    harness.answer(a=b"x", b=b"x")
    assert (gone.buffered, moved.buffered, harness.reported) == (0, 0, [])
    assert harness.iterate() == [(1, {("b", 0): 50})]


def test_a_lost_connection() -> None:
    harness = Harness(a=1)
    harness.buffer("a")
    harness.iterate()
    harness.answer(session=9)
    harness.iterate()
    harness.brokers.requests[-1][2].errback(ConnectionLost("gone"))
    assert harness.iterate() == []
    assert harness.brokers.stale == [("a", 0)]
    assert harness.iterate(0.1) == [(1, {("a", 0): 0})]
    assert harness.brokers.requests[-1][1].session_id == 0


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_a_leader_that_has_moved(code: ErrorCode) -> None:
    harness = Harness(a=1, b=1)
    harness.buffer("a")
    harness.buffer("b")
    harness.iterate()
    harness.answer(a=code)
    assert harness.brokers.stale == [("a", 0)]
    assert harness.iterate() == [(1, {("b", 0): 0})]
    harness.brokers.leaders["a"] = 2
    assert harness.iterate(0.1) == [(2, {("a", 0): 0})]


def test_a_leader_that_is_not_known() -> None:
    harness = Harness(a=1)
    harness.brokers.leaders["a"] = None
    harness.buffer("a")
    assert harness.iterate() == []
    assert harness.brokers.stale == [("a", 0)]
    harness.brokers.leaders["a"] = 1
    assert harness.iterate(0.1) == [(1, {("a", 0): 0})]


@pytest.mark.parametrize(
    ("code", "kept"), [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9)]
)
def test_a_session_that_the_broker_rejects(code: ErrorCode, kept: int) -> None:
    harness = Harness(a=1)
    harness.buffer("a")
    harness.iterate()
    harness.answer(session=9)
    harness.iterate()
    harness.answer(code)
    assert harness.iterate(0.1) == [(1, {("a", 0): 0})]
    request = harness.brokers.requests[-1][1]
    assert (request.session_id, request.session_epoch) == (kept, 0)


def test_fatal_fetch_errors_remove_the_buffer() -> None:
    harness = Harness(a=1, b=1)
    harness.buffer("a")
    harness.buffer("b")
    harness.iterate()
    harness.answer(a=ErrorCode.TOPIC_AUTHORIZATION_FAILED, b=ErrorCode.OFFSET_OUT_OF_RANGE)
    [(topic, error), out] = harness.reported
    assert (topic, out) == ("a", ("out of range", "b"))
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "a" not in {buffer.topic for buffer in harness.fetcher.buffers.values()}


def test_the_leader_epoch_is_answered() -> None:
    harness = Harness(a=1)
    harness.buffer("a")
    harness.iterate()
    assert harness.brokers.requests[0][1].topics[0].partitions[0].current_leader_epoch == 4


def test_close_leaves_no_timers() -> None:
    harness = Harness(a=1)
    harness.buffer("a")
    harness.iterate()
    harness.fetcher.wake()
    harness.fetcher.close()
    assert harness.clock.getDelayedCalls() == []


def test_the_rack_is_not_answered() -> None:
    """Else a broker may answer with the number of a nearer replica, and without records."""
    cluster: Any = Brokers(a=1)
    settings = read(CONSUMER, client_rack="here")
    nothing: Any = None
    store = BrokerOffsets(cluster, "g")
    reading: Any = make_assigned_partitions(
        cluster, Pauses(Clock()), settings, nothing, store, nothing, lambda topic: [], NoListener()
    )
    buffer = FetchBuffer("a", 0, 100)
    buffer.begin(0)
    reading.fetcher.add(buffer)
    reading._clock.advance(0)
    [(_, request, _)] = cluster.requests
    assert request.rack_id == ""


def test_partition_that_is_left_out_during_a_request_is_not_fetched_again() -> None:
    harness = Harness(a=1, b=1)
    paused = harness.buffer("a")
    harness.buffer("b")
    harness.iterate()
    harness.fetcher.leave_out(paused)
    harness.answer(a=b"x", b=b"x")
    assert harness.iterate() == [(1, {B: 10})]


class ManyPartitions:
    """A fetcher of one topic with thousands of partitions."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.looked_up = 0
        self.harness = Harness(a=1)
        brokers = self.harness.brokers
        info = {"a": TopicInfo("a", brokers.ids["a"], (PartitionInfo(1, 4, (), ()),) * count)}
        brokers.topics = lambda: info  # type: ignore[method-assign]
        brokers.leader_of = self.leader_of  # type: ignore[method-assign]
        for partition in range(count):
            buffer = FetchBuffer("a", partition, 100)
            buffer.begin(0)
            self.harness.fetcher.add(buffer)

    def leader_of(self, topic: str, partition: int) -> int:
        self.looked_up += 1
        return 1

    def answer(self, *partitions: int, session: int = 7) -> list[int]:
        """Answer the last request with a record of these partitions; return those that the next request names."""
        data = [PartitionData(partition, records=b"x") for partition in partitions]
        topics = [FetchableTopicResponse(topic_id=self.harness.brokers.ids["a"], partitions=data)]
        self.harness.brokers.requests[-1][2].callback(FetchResponse(session_id=session, responses=topics))
        return self.next_request()

    def next_request(self) -> list[int]:
        for _ in range(self.count // 50):
            self.harness.clock.advance(0)
        requests = self.harness.iterate()
        assert len(requests) <= 1
        return sorted(partition for _, asked_for in requests for _, partition in asked_for)


def test_session_of_many_partitions_begins_in_parts_that_do_not_wait() -> None:
    many = ManyPartitions(1700)
    parts = [many.next_request()]
    while many.harness.brokers.requests[-1][1].max_wait_ms == 0:
        parts.append(many.answer())
    assert [len(part) for part in parts] == [500, 500, 500, 200]
    assert sorted(partition for part in parts for partition in part) == list(range(1700))
    assert many.harness.brokers.requests[-1][1].max_wait_ms == 500


def test_request_without_a_session_has_all_partitions() -> None:
    many = ManyPartitions(1700)
    many.next_request()
    assert many.answer(3, session=0) == list(range(1700))
    assert many.answer(4, session=0) == list(range(1700))


def test_requests_and_looks_are_for_the_partitions_that_changed() -> None:
    many = ManyPartitions(1700)
    many.next_request()
    while many.harness.brokers.requests[-1][1].max_wait_ms == 0:
        many.answer()
    many.looked_up = 0
    assert many.answer(5, 900) == [5, 900]
    many.harness.fetcher.wake()
    assert many.next_request() == []
    assert many.looked_up == 2
    assert many.answer() == []


def test_answer_of_many_partitions_lets_other_work_run() -> None:
    many = ManyPartitions(1000)
    many.next_request()
    many.answer()
    other_work: list[int] = []
    many.harness.clock.callLater(0, lambda: other_work.append(len(many.harness.reported)))
    assert many.answer(*range(1000)) == list(range(1000))
    assert other_work == [0]
    assert len(many.harness.reported) == 1000


def test_partition_that_leaves_while_a_request_is_made_is_not_in_it() -> None:
    many = ManyPartitions(400)
    fetcher = many.harness.fetcher
    many.harness.clock.callLater(0, lambda: fetcher.remove(fetcher.buffers["a", 399]))  # between parts of the request
    assert many.next_request() == list(range(399))
    fetcher.remove(fetcher.buffers["a", 5])
    many.answer()
    assert forgotten(many.harness.brokers.requests[-1][1]) == {("a", 5)}
