"""A follower's fetches for one partition that follow each other at once, and what ends their row."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pylogbroker.errors import ErrorCode
from pylogbroker.rpc.errors import ConnectionLost
from pylogbroker.wire.messages.fetch import FetchResponse, PartitionData
from tests.broker.replication.fetcher_case import (
    FetcherCase,
    Replica,
    fetch_from,
    fetched,
    forgotten_of,
    partitions_of,
)

SESSION = 7


class RepeatedFetchTests(FetcherCase):
    """Each test begins when the fifth request, a fetch for one of two replicas, is at the leader, prepared."""

    def begin(self) -> Replica:
        fetches: list[Any] = [fetch_from(offset) for offset in range(20)]
        replica, self.other = self.add(fetches, [fetch_from(offset) for offset in (0, 1, 2)])
        self.channel.answer(fetched(0, 1, session=SESSION))
        for _ in range(3):
            self.answer_records()
        self.assertEqual((self.channel.prepared, self.channel.followed_up), (1, 0))
        return replica

    def answer_records(self, session: int = SESSION) -> Any:
        return self.channel.answer(fetched(0, session=session, records=b"r"))

    def test_requests_are_those_of_rounds(self) -> None:
        replica = self.begin()
        requests = [self.answer_records() for _ in range(5)]
        self.assertEqual(self.channel.followed_up, 5)
        self.assertEqual([request.session_epoch for request in requests], [4, 5, 6, 7, 8])
        self.assertEqual([request.topics[0].partitions[0].fetch_offset for request in requests], [4, 5, 6, 7, 8])
        self.assertEqual([partitions_of(request) for request in requests], [[0]] * 5)
        self.assertEqual(self.fetcher.requests, 5 + 5)
        self.assertEqual(replica.heard, ["fetched"] * 9)

    def test_a_response_without_records_begins_a_round(self) -> None:
        self.begin()
        self.channel.answer(fetched(0, session=SESSION))
        self.assertEqual(self.channel.followed_up, 0)
        self.answer_records()
        self.assertEqual(self.channel.followed_up, 1)

    def test_another_replica_that_has_become_ready_is_fetched_next(self) -> None:
        self.begin()
        self.answer_records()
        another = Replica(2, [fetch_from(0)], "u", UUID(int=9))
        self.fetcher.add(another)  # type: ignore[arg-type]
        self.fetcher.remove(("t", 1))
        self.answer_records()
        self.assertEqual(self.channel.followed_up, 1)
        request = self.answer_records()
        self.assertEqual((partitions_of(request), forgotten_of(request)), ([2, 0], [1]))

    def test_news_of_two_replicas_begin_a_round(self) -> None:
        self.begin()
        self.channel.answer(fetched(0, 1, session=SESSION, records=b"r"))
        self.assertEqual(self.channel.followed_up, 0)
        self.assertEqual(partitions_of(self.channel.sent[0][0]), [0, 1])
        self.assertEqual(self.other.heard, ["fetched", "fetched"])

    def test_a_replica_that_is_removed_is_forgotten(self) -> None:
        replica = self.begin()
        self.answer_records()
        self.fetcher.remove(("t", 0))
        self.answer_records()
        self.assertEqual((replica.heard, self.channel.followed_up), (["fetched"] * 5, 1))
        self.assertEqual(forgotten_of(self.channel.sent[0][0]), [0])

    def test_a_replica_that_is_removed_by_its_records_is_not_asked(self) -> None:
        replica = self.begin()
        wanted = list(replica.wanted)
        replica.on_fetched = lambda: self.fetcher.remove(("t", 0))
        self.answer_records()
        self.assertEqual((replica.wanted, self.channel.followed_up), (wanted, 0))
        self.assertEqual(forgotten_of(self.channel.sent[0][0]), [0])

    def test_a_replica_that_does_not_fetch_ends_the_row_and_is_asked_in_the_next_round(self) -> None:
        replica = self.begin()
        replica.is_fetching, offset = False, replica.wanted[0]
        self.answer_records()
        self.assertEqual((replica.heard, self.channel.followed_up), (["fetched"] * 5, 0))
        self.assertNotIn(offset, replica.wanted)
        self.assertEqual(partitions_of(self.channel.sent[0][0]), [0])

    def test_an_offset_that_the_session_has_is_not_named_again(self) -> None:
        replica = self.begin()
        replica.wanted.insert(0, fetch_from(4))
        self.answer_records()
        request: Any = self.channel.sent[0][0]
        self.assertEqual((self.channel.followed_up, partitions_of(request), request.session_epoch), (0, [], 5))

    def test_errors_end_the_row(self) -> None:
        replica = self.begin()
        self.answer_records()
        self.channel.answer(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        self.assertEqual(replica.heard[-1], "not answered")
        self.assertEqual(sorted(partitions_of(self.channel.sent[0][0])), [0, 1])
        response = fetched(0, session=8, records=b"r")
        response.responses[0].partitions[0] = PartitionData(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, records=b"r")
        self.channel.answer(response)
        self.assertEqual(replica.heard[-1], ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_another_session_or_broker_epoch_ends_the_row(self) -> None:
        self.begin()
        self.answer_records(session=8)
        self.assertEqual(self.channel.followed_up, 0)
        self.answer_records(session=8)
        self.answer_records(session=8)
        self.assertEqual(self.channel.followed_up, 1)
        self.fetcher.set_broker_epoch(5)
        self.answer_records(session=8)
        self.assertEqual(self.channel.followed_up, 1)

    def test_a_lost_connection_ends_the_row(self) -> None:
        replica = self.begin()
        self.answer_records()
        _, waiting = self.channel.sent.pop()
        waiting.errback(ConnectionLost("gone"))
        self.assertEqual(replica.heard[-1], ErrorCode.NETWORK_EXCEPTION)

    def test_the_wait_begins_again_with_each_fetch(self) -> None:
        """So a replica that becomes ready gets the second connection: the first one's fetch may wait for long."""
        self.begin()
        self.clock.advance(0.49)
        self.answer_records()
        self.clock.advance(0.49)
        another = Replica(2, [fetch_from(0)], "u", UUID(int=9))
        self.fetcher.add(another)  # type: ignore[arg-type]
        self.clock.advance(0)
        self.assertEqual(len(self.seconds), 1)
