"""Fetcher: the rounds' errors, and its stop while a round is under way."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, cast
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.replication.fetcher import ReplicaFetcher
from pylogbroker.broker.replication.leader_requests import FetcherSettings
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.metrics import families
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.metrics.replicas import FetchRates
from pylogbroker.replication import FetchFrom, FindEpochEnd, FollowerReplica, FollowerRequest, LeaderOffset, ListOffset
from pylogbroker.replication.settings import ReplicationSettings
from pylogbroker.rpc.client_protocol import PreparedRequest
from pylogbroker.wire import Request
from pylogbroker.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pylogbroker.wire.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.broker.nodes import Threads
from tests.broker.prepared_requests import decoded
from tests.replication.model_log import ModelLog

TOPIC_ID = UUID(int=3)


@attrs.define(eq=False)
class Replica:
    """Stands for `Followership`: notes what it hears."""

    index: int
    wanted: list[FollowerRequest]
    topic: str = "t"
    topic_id: UUID = TOPIC_ID
    heard: list[Any] = attrs.field(factory=list)
    is_syncing: bool = False
    on_ready: Any = None
    on_asked: Callable[[], None] | None = None
    follower: FollowerReplica = attrs.field(
        factory=lambda: FollowerReplica(ModelLog(), 1, ReplicationSettings(), 0), init=False
    )

    def next_request(self) -> FollowerRequest | None:
        if self.on_asked is not None:
            call, self.on_asked = self.on_asked, None
            call()
        return self.wanted.pop(0) if self.wanted else None

    def fetched(self, request: FollowerRequest, answer: Any) -> None:
        self.heard.append("fetched")

    def not_answered(self, request: FollowerRequest) -> None:
        self.heard.append("not answered")

    def offset_listed(self, request: FollowerRequest, offset: int) -> None:
        self.heard.append(offset)

    def request_failed(self, request: FollowerRequest, error: ErrorCode) -> None:
        self.heard.append(error)

    def connection_lost(self) -> None:
        self.heard.append("lost")


@attrs.define(eq=False)
class Channel:
    sent: list[tuple[Request, Deferred[Any]]] = attrs.field(factory=list)
    is_closed: bool = False
    prepared: int = 0

    def request(self, request: Request | PreparedRequest, version: int | None = None) -> Deferred[Any]:
        response: Deferred[Any] = Deferred()
        self.sent.append((decoded(request), response))
        self.prepared += isinstance(request, PreparedRequest)
        return response

    def close(self) -> None:
        self.is_closed = True

    def answer(self, response: Any) -> Any:
        """Answer the oldest request; return it."""
        request, waiting = self.sent.pop(0)
        waiting.callback(response)
        return request


@attrs.define(eq=False)
class CountedFetcher:
    """Stands for `ReplicaFetcher` in metrics."""

    requests: int
    started: float = 0.0


def fetch_from(offset: int) -> FetchFrom:
    return FetchFrom(1, offset, 1, 0)


def fetched(*indexes: int, session: int = 0) -> FetchResponse:
    partitions = [PartitionData(index, records=b"") for index in indexes]
    topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)] if indexes else []
    return FetchResponse(session_id=session, responses=topics)


def partitions_of(request: Any) -> list[int]:
    return [each.partition for topic in request.topics for each in topic.partitions]


def forgotten_of(request: Any) -> list[int]:
    return [index for topic in request.forgotten_topics_data for index in topic.partitions]


class FetcherTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.runtime = Runtime.on(self.clock, Threads(), Threads())
        self.runtime.slices.seconds = inf  # the test's clock does not go on by itself
        self.channel = Channel()
        settings = FetcherSettings(2, InterBrokerProtocol.parse("3.9"))
        self.fetcher = ReplicaFetcher(1, self.channel, settings, self.runtime)

    def add(self, *wanted: list[FollowerRequest]) -> list[Replica]:
        replicas = [Replica(index, requests) for index, requests in enumerate(wanted)]
        for replica in replicas:
            self.fetcher.add(replica)  # type: ignore[arg-type]
        self.fetcher.start()
        return replicas

    def test_fetches_are_counted(self) -> None:
        self.add([fetch_from(0), fetch_from(1)])
        self.assertEqual(self.fetcher.requests, 1)
        self.channel.answer(fetched(0))
        self.assertEqual(self.fetcher.requests, 2)

    def test_topics_that_are_gone_are_forgotten(self) -> None:
        [replica] = self.add([fetch_from(0)])
        for number in range(100, 200):
            other: Any = Replica(0, [], f"t{number}", UUID(int=number))
            self.fetcher.add(other)
            self.fetcher.remove((other.topic, 0))
        self.assertEqual(self.fetcher.replicas.topic_ids, [TOPIC_ID])
        self.channel.answer(fetched(0))
        self.assertEqual(replica.heard, ["fetched"])

    def test_the_slowest_fetchers_rate_is_scraped(self) -> None:
        one, other = CountedFetcher(30), CountedFetcher(20)
        rates = FetchRates()
        for seconds, fetchers, expected in ((10.0, [], 0.0), (10.0, [one, other], 2.0), (10.0, [one], 3.0)):
            out = Exposition()
            rates.collect(out, cast(list[ReplicaFetcher], fetchers), seconds)
            (sample,) = out.lines(families.MIN_FETCH_RATE)[1:]
            self.assertEqual(sample.split()[-1], str(expected))

    def test_a_fetch_waits_briefly_while_another_replica_syncs(self) -> None:
        waiting, syncing = self.add([fetch_from(0)], [fetch_from(0)])
        self.channel.answer(fetched(0, 1, session=7))
        self.assertEqual(self.channel.sent, [])
        waiting.wanted, syncing.is_syncing = [fetch_from(1)], True
        waiting.on_ready()
        request: Any = self.channel.answer(fetched(session=7))
        self.assertEqual((partitions_of(request), request.max_wait_ms), ([0], 5))
        syncing.wanted, syncing.is_syncing = [fetch_from(1)], False
        request = self.channel.answer(fetched(session=7))
        self.assertEqual(request.max_wait_ms, 5)
        request = self.channel.answer(fetched(session=7))
        self.assertEqual((partitions_of(request), request.max_wait_ms), ([1], 500))

    def test_requests_that_name_the_same_partition_are_prepared(self) -> None:
        self.add([fetch_from(offset) for offset in range(8)], [fetch_from(0), fetch_from(1)])
        self.channel.answer(fetched(0, 1, session=7))
        sent: list[Any] = [self.channel.answer(fetched(0, session=7)) for _ in range(6)]
        self.assertEqual([partitions_of(request) for request in sent], [[0, 1], [0], [0], [0], [0], [0]])
        self.assertEqual(self.channel.prepared, 4)
        for number, request in enumerate(sent, 1):
            partition = request.topics[0].partitions[0]
            self.assertEqual((request.session_id, request.session_epoch), (7, number))
            self.assertEqual(request.topics[0].topic_id, TOPIC_ID)
            self.assertEqual((partition.partition, partition.fetch_offset), (0, number))
            self.assertEqual((request.max_wait_ms, request.forgotten_topics_data), (500, []))
            self.assertEqual((request.replica_state.replica_id, request.replica_state.replica_epoch), (2, -1))

    def test_a_request_is_not_prepared_for_another_session_or_broker_epoch(self) -> None:
        (replica,) = self.add([fetch_from(offset) for offset in range(10)])
        for _ in range(4):
            self.channel.answer(fetched(0, session=7))
        self.assertEqual(self.channel.prepared, 2)
        self.fetcher.set_broker_epoch(5)
        self.channel.answer(fetched(0, session=7))
        self.assertEqual(self.channel.prepared, 2)
        request: Any = self.channel.answer(fetched(0, session=7))
        self.assertEqual((self.channel.prepared, request.replica_state.replica_epoch), (3, 5))
        self.channel.answer(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        self.channel.answer(fetched(0, session=8))
        self.assertEqual(self.channel.prepared, 3)
        request = self.channel.answer(fetched(0, session=8))
        self.assertEqual((self.channel.prepared, request.session_id), (4, 8))
        self.assertEqual(replica.heard.count("not answered"), 1)

    def test_a_partition_that_is_asked_for_as_before_is_not_named(self) -> None:
        self.add([fetch_from(0), fetch_from(1), fetch_from(2), fetch_from(2), fetch_from(3)], [fetch_from(0)])
        sent: list[Any] = [self.channel.answer(fetched(0, session=7)) for _ in range(5)]
        self.assertEqual([partitions_of(request) for request in sent], [[0, 1], [0], [0], [], [0]])

    def test_a_stop_while_answers_are_looked_at(self) -> None:
        first, second = self.add([fetch_from(0)], [fetch_from(0)])
        self.runtime.slices.seconds = 0
        self.channel.answer(fetched(0, 1))
        self.assertEqual((first.heard, second.heard), (["fetched"], []))
        self.fetcher.stop()
        self.clock.advance(0)
        self.assertEqual((first.heard, second.heard), (["fetched", "lost"], ["lost"]))
        self.assertEqual((self.channel.is_closed, self.clock.getDelayedCalls()), (True, []))

    def test_a_replica_that_is_removed_while_the_next_request_is_made_is_not_asked_for(self) -> None:
        _, second, _ = self.add(*[[fetch_from(0), fetch_from(1)] for _ in range(3)])

        def remove_the_others() -> None:  # the first one has said what to fetch, the last one has not
            self.fetcher.remove(("t", 0))
            self.fetcher.remove(("t", 2))

        second.on_asked = remove_the_others
        self.channel.answer(fetched(0, 1, 2, session=5))
        request = self.channel.answer(fetched(session=5))
        self.assertEqual((partitions_of(request), sorted(forgotten_of(request))), ([1], [0, 2]))

    def test_a_replica_that_is_added_while_the_next_request_is_made_is_asked_at_once(self) -> None:
        (first,) = self.add([])
        second = Replica(1, [fetch_from(0)])
        first.on_asked = lambda: self.fetcher.add(second)  # type: ignore[arg-type]
        first.on_ready()
        self.assertEqual([partitions_of(request) for request, _ in self.channel.sent], [[1]])

    def test_a_stop_while_the_next_request_is_made(self) -> None:
        self.runtime.slices.seconds = 0
        first, second = self.add([fetch_from(0)], [fetch_from(0)])
        self.fetcher.stop()  # after the first one
        self.clock.advance(0)
        self.assertEqual((self.channel.sent, first.heard, second.heard), ([], ["lost"], ["lost"]))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_stop_while_nothing_is_asked_leaves_no_timer(self) -> None:
        self.add([])
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.fetcher.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_replica_that_is_removed_hears_nothing(self) -> None:
        (replica,) = self.add([fetch_from(0)])
        self.fetcher.remove(("t", 0))
        self.channel.answer(fetched(0))
        self.assertEqual(replica.heard, [])

    def test_partitions_missing_from_a_full_answer_fail(self) -> None:
        (replica,) = self.add([fetch_from(0)])
        self.channel.answer(fetched())
        self.assertEqual(replica.heard, [ErrorCode.UNKNOWN_SERVER_ERROR])

    def test_partitions_missing_from_an_incremental_answer_stay_requested(self) -> None:
        first, second = self.add([fetch_from(0), fetch_from(5), fetch_from(6)], [fetch_from(0), fetch_from(7)])
        self.assertEqual(partitions_of(self.channel.answer(fetched(0, 1, session=5))), [0, 1])
        self.assertEqual(partitions_of(self.channel.answer(fetched(0, session=5))), [0, 1])
        self.assertEqual(partitions_of(self.channel.answer(fetched(session=5))), [0])
        self.assertEqual(partitions_of(self.channel.answer(fetched(1, session=5))), [])
        self.assertEqual((first.heard, second.heard), (["fetched"] * 2, ["fetched"] * 2))

    def test_a_replica_that_is_added_again_keeps_its_fetch(self) -> None:
        (replica,) = self.add([fetch_from(0)])
        self.fetcher.add(replica)  # type: ignore[arg-type]
        self.channel.answer(fetched(0))
        self.assertEqual(replica.heard, ["fetched"])

    def test_removed_partitions_are_sent_as_forgotten(self) -> None:
        self.add([fetch_from(0)], [fetch_from(0), fetch_from(1)], [fetch_from(0), fetch_from(1)])
        self.channel.answer(fetched(0, 1, 2, session=5))
        self.fetcher.remove(("t", 2))
        self.assertEqual(forgotten_of(self.channel.answer(fetched(session=5))), [0])
        self.assertEqual(forgotten_of(self.channel.answer(fetched(session=5))), [2])
        self.assertEqual(forgotten_of(self.channel.answer(fetched(session=5))), [])

    def test_a_lost_connection_fails_pending_fetches_and_ends_the_session(self) -> None:
        (replica,) = self.add([fetch_from(0), fetch_from(1), fetch_from(2)])
        self.channel.answer(fetched(0, session=5))
        self.channel.answer(fetched(session=5))
        _, waiting = self.channel.sent.pop()
        waiting.errback(ConnectionError("lost"))
        self.assertEqual(replica.heard, ["fetched", ErrorCode.NETWORK_EXCEPTION])
        request = self.channel.answer(fetched(0))
        self.assertEqual((request.session_id, partitions_of(request)), (0, [0]))

    def test_a_lost_session_is_no_failure(self) -> None:
        (replica,) = self.add([fetch_from(0)] * 3)
        self.channel.answer(fetched(0, session=5))
        lost = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        request = self.channel.answer(lost)
        self.assertEqual((request.session_id, request.session_epoch), (5, 1))
        request = self.channel.answer(lost)
        self.assertEqual((request.session_id, request.session_epoch), (0, 0))
        self.assertEqual(replica.heard, ["fetched", "not answered", ErrorCode.FETCH_SESSION_ID_NOT_FOUND])

    def test_offsets_are_listed_before_fetches(self) -> None:
        latest, earliest, failing, other = self.add(
            [ListOffset(1, LeaderOffset.LOG_END)],
            [ListOffset(1, LeaderOffset.LOG_START)],
            [ListOffset(1, LeaderOffset.LOG_START)],
            [fetch_from(0)],
        )
        answers = [
            ListOffsetsPartitionResponse(0, offset=5),
            ListOffsetsPartitionResponse(1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ]
        request = self.channel.answer(ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", answers)]))
        self.assertEqual([each.timestamp for each in request.topics[0].partitions], [LATEST, EARLIEST, EARLIEST])
        self.assertEqual((latest.heard, earliest.heard), ([5], [ErrorCode.NOT_LEADER_OR_FOLLOWER]))
        self.assertEqual(failing.heard, [ErrorCode.UNKNOWN_SERVER_ERROR])  # without an answer
        self.channel.answer(fetched(3))
        self.assertEqual(other.heard, ["fetched"])

    def test_an_error_fails_the_round(self) -> None:
        first, second = self.add([FindEpochEnd(1, 1)], [fetch_from(0)])
        _, waiting = self.channel.sent.pop()
        waiting.errback(ConnectionError("lost"))
        self.assertEqual((first.heard, second.heard), ([ErrorCode.NETWORK_EXCEPTION],) * 2)
