"""Fetches on a second connection, while those of other replicas wait at the leader."""

from __future__ import annotations

from typing import Any

from pylogbroker.errors import ErrorCode
from pylogbroker.replication import FollowerRequest
from tests.broker.replication.fetcher_case import (
    TOPIC_ID,
    FetcherCase,
    Replica,
    fetch_from,
    fetched,
    partitions_of,
)


class SecondConnectionTests(FetcherCase):
    """A fetch of partition 0 waits on the first connection, for 500 ms at most."""

    def setUp(self) -> None:
        super().setUp()
        (self.first,) = self.add([fetch_from(0), fetch_from(1)])

    def add_later(self, index: int, *requests: FollowerRequest) -> Replica:
        replica = Replica(index, list(requests))
        self.fetcher.add(replica)  # type: ignore[arg-type]
        return replica

    def test_a_replica_that_is_added_meanwhile_is_fetched_without_a_session(self) -> None:
        self.add_later(1, fetch_from(7))
        self.add_later(2, fetch_from(8))
        self.clock.advance(0)
        [second] = self.seconds
        [(request, _)] = second.sent
        self.assertEqual((partitions_of(request), request.session_id, request.session_epoch), ([1, 2], 0, -1))
        self.assertEqual((request.topics[0].topic_id, request.forgotten_topics_data), (TOPIC_ID, []))
        self.assertEqual((request.replica_state.replica_id, len(self.channel.sent)), (2, 1))

    def test_a_replica_gets_its_answer_from_the_second_connection(self) -> None:
        added = self.add_later(1, fetch_from(7))
        self.clock.advance(0)
        self.seconds[0].answer(fetched(1, session=9))  # a session that nobody wants
        self.assertEqual((added.heard, self.first.heard), (["fetched"], []))
        self.assertTrue(self.seconds[0].is_closed)  # the replica has nothing to ask

    def test_waits_become_longer_up_to_the_time_of_the_first_connections_answer(self) -> None:
        self.add_later(1, *map(fetch_from, range(8)))
        self.clock.advance(0)
        waits = []
        while self.seconds[0].sent:
            request: Any = self.seconds[0].sent[0][0]
            self.assertEqual((request.session_id, request.session_epoch), (0, -1))
            waits.append(request.max_wait_ms)
            self.clock.advance(request.max_wait_ms / 1000)
            self.seconds[0].answer(fetched(1))
        self.assertEqual(waits, [5, 10, 20, 40, 80, 160, 185])
        self.assertTrue(self.seconds[0].is_closed)
        self.channel.answer(fetched(0, session=5))
        request = self.channel.sent[0][0]
        self.assertEqual((sorted(partitions_of(request)), request.max_wait_ms), ([0, 1], 500))

    def test_another_replica_makes_the_waits_short_again(self) -> None:
        self.add_later(1, *map(fetch_from, range(9)))
        self.clock.advance(0)
        for _ in range(4):
            self.seconds[0].answer(fetched(1))
        self.add_later(2, *map(fetch_from, range(9)))
        requests: list[Any] = [self.seconds[0].answer(fetched(1, 2)) for _ in range(3)]
        self.assertEqual(
            [(sorted(partitions_of(request)), request.max_wait_ms) for request in requests],
            [([1], 80), ([1, 2], 5), ([1, 2], 10)],
        )

    def test_many_replicas_wait_longer(self) -> None:
        for index in range(1, 301):
            self.add_later(index, fetch_from(0))
        self.clock.advance(0)
        request: Any = self.seconds[0].sent[0][0]
        self.assertEqual((len(partitions_of(request)), request.max_wait_ms), (300, 30))

    def test_the_first_connections_next_fetch_waits_for_the_second_ones_answer(self) -> None:
        self.add_later(1, *map(fetch_from, range(9)))
        self.clock.advance(0)
        for _ in range(4):
            self.seconds[0].answer(fetched(1))
        self.clock.advance(0.03)
        self.channel.answer(fetched(0, session=5))
        request: Any = self.channel.sent[0][0]
        self.assertEqual((partitions_of(request), request.max_wait_ms), ([0], 51))
        self.clock.advance(0.05)
        self.seconds[0].answer(fetched(1))
        self.assertTrue(self.seconds[0].is_closed)
        self.channel.answer(fetched(session=5))
        request = self.channel.sent[0][0]
        self.assertEqual((partitions_of(request), request.max_wait_ms), ([1], 500))

    def test_a_replica_that_is_removed_hears_nothing(self) -> None:
        removed, kept = self.add_later(1, fetch_from(0)), self.add_later(2, fetch_from(0))
        self.clock.advance(0)
        self.fetcher.remove(("t", 1))
        self.seconds[0].answer(fetched(1, 2))
        self.assertEqual((removed.heard, kept.heard), ([], ["fetched"]))

    def test_a_stop_closes_both(self) -> None:
        added = self.add_later(1, fetch_from(0))
        self.clock.advance(0)
        self.fetcher.stop()
        self.assertEqual((self.first.heard, added.heard), (["lost"], ["lost"]))
        self.assertEqual((self.channel.is_closed, self.seconds[0].is_closed), (True, True))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_stop_before_it_is_used(self) -> None:
        self.add_later(1, fetch_from(0))
        self.fetcher.stop()
        self.clock.advance(0)
        self.assertEqual((self.seconds[0].sent, self.seconds[0].is_closed), ([], True))

    def test_a_lost_connection_fails_its_fetches_alone(self) -> None:
        added = self.add_later(1, fetch_from(0))
        self.clock.advance(0)
        _, waiting = self.seconds[0].sent.pop()
        waiting.errback(ConnectionError("lost"))
        self.assertEqual((added.heard, self.first.heard), ([ErrorCode.NETWORK_EXCEPTION], []))

    def test_a_leader_that_is_not_alive_any_more_is_not_asked(self) -> None:
        self.is_alive = False
        added = self.add_later(1, fetch_from(0))
        self.clock.advance(0)
        self.assertEqual((self.seconds, added.heard), ([], []))
        self.channel.answer(fetched(0))
        self.assertEqual(sorted(partitions_of(self.channel.sent[0][0])), [0, 1])

    def test_a_fetch_that_ends_soon_is_waited_for(self) -> None:
        self.clock.advance(0.4951)
        self.add_later(1, fetch_from(0))
        self.clock.advance(0)
        self.assertEqual(self.seconds, [])

    def test_a_retry_that_is_due_soon_is_made(self) -> None:
        added = self.add_later(1, fetch_from(0))
        self.clock.advance(0)
        added.follower.retry_at_ms = 40
        self.seconds[0].answer(fetched(1))
        self.clock.advance(0.039)
        self.assertEqual(self.seconds[0].sent, [])
        added.wanted, added.follower.retry_at_ms = [fetch_from(0)], None
        self.clock.advance(0.001)
        self.assertEqual(partitions_of(self.seconds[0].sent[0][0]), [1])

    def test_a_retry_that_is_due_late_is_left_to_the_first_connection(self) -> None:
        added = self.add_later(1, fetch_from(0))
        self.clock.advance(0)
        added.follower.retry_at_ms = 1_000
        self.seconds[0].answer(fetched(1))
        self.assertTrue(self.seconds[0].is_closed)
        self.clock.advance(0.6)
        self.channel.answer(fetched(0, session=5))
        request: Any = self.channel.sent[0][0]
        self.assertEqual((partitions_of(request), request.max_wait_ms), ([0], 400))  # until the retry

    def test_a_new_broker_epoch_is_sent(self) -> None:
        self.add_later(1, fetch_from(0), fetch_from(1))
        self.clock.advance(0)
        self.fetcher.set_broker_epoch(5)
        self.seconds[0].answer(fetched(1))
        self.channel.answer(fetched(0))
        sent: list[Any] = [channel.sent[0][0].replica_state.replica_epoch for channel in (self.channel, *self.seconds)]
        self.assertEqual(sent, [5, 5])
