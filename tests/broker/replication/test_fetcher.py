"""Fetcher: the rounds' errors, and its stop while a round is under way."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import attrs

from pylogbroker.broker.replication.fetcher import ReplicaFetcher
from pylogbroker.errors import ErrorCode
from pylogbroker.metrics import families
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.metrics.replicas import FetchRates
from pylogbroker.replication import FindEpochEnd, LeaderOffset, ListOffset
from pylogbroker.wire.messages.fetch import FetchResponse
from pylogbroker.wire.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.broker.replication.fetcher_case import (
    TOPIC_ID,
    FetcherCase,
    Replica,
    fetch_from,
    fetched,
    forgotten_of,
    partitions_of,
)


@attrs.define(eq=False)
class CountedFetcher:
    """Stands for `ReplicaFetcher` in metrics."""

    requests: int
    started: float = 0.0


class FetcherTests(FetcherCase):
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
        self.clock.advance(0)
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
        self.clock.advance(0)
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
        self.clock.advance(0)
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
