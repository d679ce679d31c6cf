"""A cluster as a client sees it, against brokers in memory and a clock."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.coordinator_requests import CoordinatorType, broker_of, coordinator_node
from pylogbroker.client.errors import Closed, ConnectionLost, NeverReached, NoBrokers, NotConnected, RequestTimedOut
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.settings import Address
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.client.cluster_fakes import FakeNetwork


class ClusterTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.network = FakeNetwork()
        self.one = self.network.broker(1)
        self.two = self.network.broker(2)
        self.one.leads("t", 0)
        self.two.leads("t", 1)
        self.cluster = self.network.cluster()

    def tearDown(self) -> None:
        closing = ensureDeferred(self.cluster.close())
        self.network.run()
        self.successResultOf(closing)
        self.assertEqual([broker.connections for broker in self.network.brokers.values() if broker.connections], [])
        self.assertEqual(self.network.clock.getDelayedCalls(), [])

    def use(self, cluster: Cluster) -> None:
        """Another cluster in the place of the one of setUp."""
        closing = ensureDeferred(self.cluster.close())
        self.network.run()
        self.successResultOf(closing)
        self.cluster = cluster

    def now(self, work: Any, seconds: float = 0) -> Any:
        """The result of a coroutine after so long."""
        return self.successResultOf(self.after(work, seconds))

    def after(self, work: Any, seconds: float = 0) -> Deferred[Any]:
        started = ensureDeferred(work)
        self.network.run(seconds)
        return started

    def beat(self, node: int, **options: Any) -> Deferred[Any]:
        return self.cluster.send(node, HeartbeatRequest(group_id="g"), **options)


class TestTopics(ClusterTests):
    def test_an_unqueried_topic_is_unknown(self) -> None:
        self.assertIsNone(self.cluster.leader_of("t", 0))
        self.assertIsNone(self.cluster.partitions_of("t"))
        self.assertEqual(self.one.asked, [])

    def test_a_leader_is_found_and_remembered(self) -> None:
        self.assertEqual(self.now(self.cluster.find_leader("t", 1)), 2)
        self.assertEqual([self.cluster.leader_of("t", number) for number in (0, 1, 2)], [1, 2, None])
        self.assertEqual(self.cluster.partitions_of("t"), 2)
        self.assertEqual(self.now(self.cluster.find_leader("t", 0)), 1)
        self.assertEqual(len(self.one.asked_for(MetadataRequest)), 1)

    def test_a_topic(self) -> None:
        topic = self.now(self.cluster.find_topic("t"))
        self.assertEqual([partition.leader for partition in topic.partitions], [1, 2])

    def test_a_topic_that_comes_later(self) -> None:
        finding = self.after(self.cluster.find_leader("new", 0), 3)
        self.assertNoResult(finding)
        self.two.leads("new", 0)
        self.network.run(1.5)
        self.assertEqual(self.successResultOf(finding), 2)

    def test_a_topic_that_never_comes(self) -> None:
        self.use(self.network.cluster(default_api_timeout_ms=5000))
        finding = self.after(self.cluster.find_leader("new", 0), 4.5)
        self.assertNoResult(finding)
        self.network.run(1)
        self.assertEqual(self.failureResultOf(finding, KafkaError).value.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_an_unknown_topic_is_known_after_its_propagation(self) -> None:
        finding = self.after(self.cluster.find_topic("new"), 1.9)
        self.assertNoResult(finding)
        self.network.run(1.2)
        self.assertEqual(self.failureResultOf(finding, KafkaError).value.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.use(self.network.cluster(topic_metadata_propagation_max_ms=5000))
        finding = self.after(self.cluster.find_topic("new"), 4)
        self.two.leads("new", 0)
        self.network.run(1.5)
        self.assertEqual(len(self.successResultOf(finding).partitions), 1)

    def test_the_propagation_of_an_unknown_topic_begins_with_the_first_answer(self) -> None:
        self.one.answer_seconds = 3  # also for the versions, before the first request for metadata
        finding = self.after(self.cluster.find_topic("new"), 8.5)
        self.assertNoResult(finding)
        self.assertEqual(len(self.one.asked_for(MetadataRequest)), 2)  # the second was sent within the propagation
        self.two.leads("new", 0)
        self.network.run(5)
        self.assertEqual(len(self.successResultOf(finding).partitions), 1)

    def test_a_topic_that_may_not_be_read_is_not_waited_for(self) -> None:
        def reject(request: MetadataRequest) -> Any:
            response = self.network.metadata(request)
            response.topics[0].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return response

        self.one.answers[MetadataRequest] = reject
        error = self.failureResultOf(self.after(self.cluster.find_topic("t")), KafkaError).value
        self.assertEqual(error.code, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def test_after_all_topics_every_topic_is_refreshed(self) -> None:
        self.assertEqual(set(self.now(self.cluster.all_topics())), {"t"})
        self.one.leads("later", 0)
        self.now(self.cluster.refresh())
        self.assertEqual(self.cluster.leader_of("later", 0), 1)
        del self.network.leaders["later", 0]
        self.now(self.cluster.refresh())
        self.assertIsNone(self.cluster.partitions_of("later"))

    def test_topics_that_are_looked_up_are_not_remembered(self) -> None:
        for asked in (["t"], None):
            found = self.now(self.cluster.look_up(asked))
            self.assertEqual((set(found.topics), found.leader("t", 0)), ({"t"}, 1))
            self.assertEqual(self.cluster.brokers(), found.brokers)
        with self.assertRaises(KafkaError):
            self.now(self.cluster.look_up(["no"])).topic("no")
        self.now(self.cluster.refresh())
        self.assertEqual(self.cluster.topics(), {})
        self.assertEqual(self.one.asked_for(MetadataRequest)[-1].topics, [])

    def test_asking_for_a_topic_creates_it_asking_for_all_does_not(self) -> None:
        self.now(self.cluster.all_topics())
        self.after(self.cluster.find_topic("new")).addErrback(lambda _: None)
        allowed = [(r.topics is None, r.allow_auto_topic_creation) for r in self.one.asked_for(MetadataRequest)]
        self.assertEqual(set(allowed), {(True, False), (False, True)})

    def test_missing_topics_are_not_queried_for_ever(self) -> None:
        self.use(
            self.network.cluster(default_api_timeout_ms=1000, metadata_max_idle_ms=10_000, metadata_max_age_ms=6000)
        )
        self.now(self.cluster.find_topic("t"))
        self.failureResultOf(self.after(self.cluster.find_topic("no"), 2), KafkaError)
        self.network.run(20)
        (last,) = self.one.asked_for(MetadataRequest)[-1:]
        self.assertEqual([topic.name for topic in last.topics], ["t"])

    def test_missing_wanted_topics_are_queried_for_ever(self) -> None:
        self.use(self.network.cluster(metadata_max_idle_ms=10_000, metadata_max_age_ms=6000))
        self.cluster.want(["no"])
        self.now(self.cluster.find_topic("t"))
        self.network.run(20)
        (last,) = self.one.asked_for(MetadataRequest)[-1:]
        self.assertEqual([topic.name for topic in last.topics], ["no", "t"])

    def test_a_wanted_topic_that_the_first_broker_has_not_heard_of(self) -> None:
        self.cluster.want(["new"])
        self.now(self.cluster.refresh())
        self.network.broker(2).leads("new", 0)
        self.network.run(1.5)
        self.assertEqual(self.cluster.leader_of("new", 0), 2)

    def test_a_missing_topic_is_queried_with_backoff(self) -> None:
        self.cluster.want(["no"])
        self.now(self.cluster.refresh())
        before = len(self.one.asked_for(MetadataRequest))
        self.network.run(30)
        asked = len(self.one.asked_for(MetadataRequest)) - before
        self.assertTrue(25 <= asked <= 45, asked)

    def test_a_wanted_topic_that_stays_away_is_named_once(self) -> None:
        self.cluster.want(["misspelt"])
        with capturedLogs() as events:
            self.now(self.cluster.refresh())
            self.assertEqual(events, [])
            self.network.run(5)
        self.assertEqual([event["topic"] for event in events], ["misspelt"])
        self.one.leads("misspelt", 0)
        self.network.run(5)
        del self.network.leaders["misspelt", 0]
        with capturedLogs() as events:
            self.now(self.cluster.refresh())
            self.network.run(5)
        self.assertEqual([event["topic"] for event in events], ["misspelt"])

    def test_a_topic_that_is_being_made_is_not_complained_of(self) -> None:
        self.cluster.want(["new"])
        with capturedLogs() as events:
            self.now(self.cluster.refresh())
            self.one.leads("new", 0)
            self.network.run(5)
        self.assertEqual(events, [])

    def test_why_a_topic_will_not_be_known(self) -> None:
        answers = [
            MetadataResponseTopic(name="t", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            MetadataResponseTopic(name="no", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        self.one.answers[MetadataRequest] = lambda request: MetadataResponse(topics=answers)
        self.cluster.want(["t", "no"])
        self.now(self.cluster.refresh())
        kafka_error = self.cluster.error_of_topic("t")
        self.assertIsNotNone(kafka_error)
        self.assertIs(getattr(kafka_error, "code", None), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self.assertIsNone(self.cluster.error_of_topic("no"))
        self.assertIsNone(self.cluster.error_of_topic("nobody asked"))

    def test_missing_topics_are_trouble_until_they_exist(self) -> None:
        self.after(self.cluster.find_topic("new")).addErrback(lambda _: None)
        self.assertEqual(self.cluster.trouble, "topic new: this broker has no such topic or partition")
        self.one.leads("new", 0)
        self.network.run(1.5)
        self.assertEqual(self.cluster.trouble, "")

    def test_many_missing_topics_are_counted(self) -> None:
        self.cluster.want([f"no{number}" for number in range(5)])
        self.now(self.cluster.refresh())
        self.assertRegex(self.cluster.trouble, "^topic no0: .*topic no2: .*; and 2 more topics$")
        self.assertNotIn("no3", self.cluster.trouble)

    def test_an_unauthorized_topic_is_not_queried_again_at_once(self) -> None:
        denied = MetadataResponseTopic(name="t", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self.one.answers[MetadataRequest] = lambda request: MetadataResponse(topics=[denied])
        self.cluster.want(["t"])
        self.now(self.cluster.refresh())
        self.network.run(30)
        self.assertEqual(len(self.one.asked_for(MetadataRequest)), 1)


class TestRefreshing(ClusterTests):
    def setUp(self) -> None:
        super().setUp()
        self.now(self.cluster.find_leader("t", 0))
        self.one.asked.clear()

    def asked(self) -> int:
        return len(self.one.asked_for(MetadataRequest)) + len(self.two.asked_for(MetadataRequest))

    def test_a_stale_leader_is_not_given_again(self) -> None:
        self.network.leaders["t", 0] = 2
        self.cluster.leader_is_stale("t", 0)
        self.assertIsNone(self.cluster.leader_of("t", 0))
        self.network.run(0.2)
        self.assertEqual(self.cluster.leader_of("t", 0), 2)

    def test_many_stale_leaders_are_one_question(self) -> None:
        for _ in range(100):
            self.cluster.leader_is_stale("t", 0)
            self.cluster.leader_is_stale("t", 1)
        self.network.run(1)
        self.assertEqual(self.asked(), 1)

    def test_repeated_refreshes_are_rate_limited(self) -> None:
        for _ in range(20):
            self.cluster.leader_is_stale("t", 0)
            self.network.run(0.05)
        self.assertLessEqual(self.asked(), 11)
        self.assertGreaterEqual(self.asked(), 5)

    def test_refreshes_during_a_request_share_the_next_one(self) -> None:
        first = self.cluster.refresh()
        others = [self.cluster.refresh() for _ in range(10)]
        self.network.run()
        for each in [first, *others]:
            self.successResultOf(each)
        self.assertEqual(self.asked(), 2)

    def test_metadata_is_refreshed_at_its_maximum_age(self) -> None:
        self.use(self.network.cluster(metadata_max_age_ms=10_000))
        self.now(self.cluster.find_leader("t", 0))
        self.one.asked.clear()
        self.network.run(35)
        self.assertEqual(self.asked(), 3)

    def test_a_failed_refresh_is_retried_without_a_waiting_caller(self) -> None:
        self.network.kill(1)
        self.network.kill(2)
        self.cluster.refresh_soon()
        self.network.run(3)
        self.network.leaders["t", 0] = 2
        self.network.revive(1)
        self.network.revive(2)
        self.network.run(3)
        self.assertEqual(self.cluster.leader_of("t", 0), 2)

    def test_watchers_are_notified(self) -> None:
        reported: list[int | None] = []
        stop = self.cluster.watch(lambda: reported.append(self.cluster.leader_of("t", 0)))
        self.network.leaders["t", 0] = 2
        self.now(self.cluster.refresh())
        stop()
        self.now(self.cluster.refresh())
        self.assertEqual(reported, [2])

    def test_a_failing_watcher_does_not_stop_the_others(self) -> None:
        reported: list[int] = []
        self.cluster.watch(lambda: 1 // 0)
        self.cluster.watch(lambda: reported.append(1))
        self.now(self.cluster.refresh())
        self.assertEqual(reported, [1])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class TestBrokers(ClusterTests):
    def test_a_broker_is_connected_to_when_it_is_needed(self) -> None:
        self.now(self.cluster.find_leader("t", 0))
        self.assertEqual((self.one.connections, self.two.connections), (1, 0))
        self.now(self.beat(2))
        self.assertEqual((self.one.connections, self.two.connections), (1, 1))

    def test_requests_keep_their_order_while_the_connection_is_made(self) -> None:
        self.now(self.cluster.find_leader("t", 0))

        def another(answer: Any) -> Any:
            self.cluster.send(2, HeartbeatRequest(group_id="late"))
            return answer

        for number in range(5):
            self.cluster.send(2, HeartbeatRequest(group_id=str(number))).addCallback(another)
        self.network.run()
        groups = [request.group_id for request in self.two.asked_for(HeartbeatRequest)]
        self.assertEqual(groups, ["0", "1", "2", "3", "4", *["late"] * 5])

    def test_a_send_on_connection_does_not_overtake_earlier_requests(self) -> None:
        self.now(self.cluster.find_leader("t", 0))
        node_two = self.cluster._pool.connection(2)
        node_two.addCallback(lambda _: self.cluster.send(2, HeartbeatRequest(group_id="second")))
        self.cluster.send(2, HeartbeatRequest(group_id="first"))
        self.network.run()
        groups = [request.group_id for request in self.two.asked_for(HeartbeatRequest)]
        self.assertEqual(groups, ["first", "second"])

    def test_the_version_is_known_once_there_is_a_connection(self) -> None:
        self.now(self.cluster.find_leader("t", 0))
        self.assertIsNone(self.cluster.version_at(2, HeartbeatRequest))
        self.assertEqual(self.now(self.cluster.find_version(2, HeartbeatRequest)), HeartbeatRequest.versions.last)
        self.assertEqual(self.cluster.version_at(2, HeartbeatRequest), HeartbeatRequest.versions.last)

    def test_a_broker_that_is_gone(self) -> None:
        self.now(self.cluster.find_leader("t", 1))
        self.now(self.beat(2))
        self.two.answers[HeartbeatRequest] = lambda _: None
        waiting = self.beat(2)
        self.network.kill(2)
        self.failureResultOf(waiting, ConnectionLost)
        next_one = self.beat(2)
        self.network.run(0.2)
        self.failureResultOf(next_one, NotConnected)
        self.now(self.cluster.refresh())
        self.failureResultOf(self.beat(2), NotConnected)
        self.assertIsNone(self.cluster.leader_of("t", 1))
        finding = self.after(self.cluster.find_leader("t", 1), 1)
        self.assertNoResult(finding)
        self.network.revive(2)
        self.network.run(1.5)
        self.assertEqual(self.successResultOf(finding), 2)

    def test_a_broker_that_comes_back(self) -> None:
        self.now(self.cluster.find_leader("t", 1))
        self.now(self.beat(2))
        self.network.kill(2)
        self.network.run(0.5)
        self.network.revive(2)
        self.network.run(1.5)
        self.now(self.beat(2))

    def test_a_broker_that_moved(self) -> None:
        self.now(self.cluster.find_leader("t", 1))
        self.two.answers[HeartbeatRequest] = lambda _: None
        waiting = self.beat(2)
        self.network.run()
        self.two.address = Address("elsewhere", 9099)
        self.now(self.cluster.refresh())
        self.failureResultOf(waiting, ConnectionLost)
        self.assertEqual(self.two.connections, 0)
        del self.two.answers[HeartbeatRequest]
        self.now(self.beat(2))

    def test_a_broker_that_does_not_answer(self) -> None:
        self.now(self.cluster.find_leader("t", 1))
        self.two.answers[HeartbeatRequest] = lambda _: None
        waiting = self.beat(2, timeout=3)
        self.network.run(3.1)
        self.failureResultOf(waiting, RequestTimedOut)
        del self.two.answers[HeartbeatRequest]
        self.now(self.beat(2), 0.2)

    def test_a_request_right_after_a_timeout_gets_a_new_connection(self) -> None:
        self.now(self.cluster.find_leader("t", 1))
        self.two.answers[HeartbeatRequest] = lambda _: None
        again: list[Deferred[Any]] = []

        def ask_again(_: Any) -> None:
            del self.two.answers[HeartbeatRequest]
            again.append(self.beat(2))

        self.beat(2, timeout=3).addErrback(ask_again)
        self.network.run(3.5)
        self.successResultOf(again[0])
        self.assertEqual(self.two.dialled, 2)

    def test_a_first_broker_is_not_looked_for_longer_than_configured(self) -> None:
        self.use(self.network.cluster("b1:9092,b2:9092", bootstrap_connect_max_ms=2000))
        self.network.kill(1)
        self.network.kill(2)
        finding = self.after(self.cluster.find_leader("t", 0), 1.9)
        self.assertNoResult(finding)
        self.network.run(30)
        error = self.failureResultOf(finding, NeverReached).getErrorMessage()
        self.assertIn("cannot connect to b1:9092: refused", error)
        self.assertIn("no broker answered for 2 s (bootstrap.connect.max.ms)", error)

    def test_brokers_that_were_reached_may_come_back(self) -> None:
        self.use(self.network.cluster("b1:9092,b2:9092", bootstrap_connect_max_ms=2000))
        self.now(self.cluster.refresh())
        self.network.kill(1)
        self.network.kill(2)
        self.network.run(1)
        self.cluster.leader_is_stale("t", 0)
        finding = self.after(self.cluster.find_leader("t", 0), 10)
        self.assertNoResult(finding)
        self.network.revive(1)
        self.network.revive(2)
        self.network.run(5)
        self.assertEqual(self.successResultOf(finding), 1)

    def test_nobody_is_there(self) -> None:
        self.use(self.network.cluster("b1:9092,b2:9092", default_api_timeout_ms=2000))
        self.network.kill(1)
        self.network.kill(2)
        finding = self.after(self.cluster.find_leader("t", 0), 1.5)
        self.assertNoResult(finding)
        self.network.run(1)
        error = self.failureResultOf(finding, NoBrokers)
        self.assertIn("cannot connect to b1:9092: refused", error.getErrorMessage())
        self.assertIn("cannot connect to b2:9092: refused", error.getErrorMessage())
        self.assertLess(self.one.dialled, 20)

    def test_one_bootstrap_server_is_enough(self) -> None:
        self.use(self.network.cluster("b9:9092,b2:9092,b8:9092"))
        self.assertEqual(self.now(self.cluster.find_leader("t", 0), 1), 1)

    def test_all_known_brokers_are_gone_but_the_first_ones_are_not(self) -> None:
        self.now(self.cluster.find_leader("t", 0))
        self.network.kill(1)
        self.network.kill(2)
        three = self.network.broker(3)
        three.leads("t", 0)
        three.address = Address("b1", 9092)
        self.one.address = Address("nowhere", 1)
        self.cluster.leader_is_stale("t", 0)
        self.assertEqual(self.now(self.cluster.find_leader("t", 0), 3), 3)

    def test_the_first_connection_becomes_the_brokers(self) -> None:
        self.now(self.cluster.find_leader("t", 0))
        self.now(self.beat(1))
        self.assertEqual(self.one.dialled, 1)

    def test_a_connection_that_is_not_used_is_closed(self) -> None:
        self.use(self.network.cluster(connections_max_idle_ms=20_000))
        self.now(self.cluster.find_leader("t", 0))
        self.now(self.beat(2))
        for _ in range(6):
            self.network.run(5)
            self.now(self.beat(1))
        self.assertEqual((self.one.connections, self.two.connections), (1, 0))
        self.now(self.beat(2))

    def test_a_connection_that_waits_for_its_answer_is_in_use(self) -> None:
        self.use(self.network.cluster(connections_max_idle_ms=20_000))
        self.now(self.cluster.find_leader("t", 0))
        self.two.answers[HeartbeatRequest] = lambda _: None
        waiting = self.beat(2, timeout=300)
        self.network.run(60)
        self.assertNoResult(waiting)
        waiting.addErrback(lambda _: None)

    def test_a_broker_that_nobody_uses_any_more_is_not_dialled_for_ever(self) -> None:
        self.now(self.cluster.find_leader("t", 1))
        self.now(self.beat(2))
        self.network.kill(2)
        self.network.run(25)
        dialled = self.two.dialled
        self.network.run(60)
        self.assertEqual(self.two.dialled, dialled)

    def test_an_unknown_node_id_is_not_connected(self) -> None:
        self.now(self.cluster.find_leader("t", 1))
        self.failureResultOf(self.beat(77), NotConnected)

    def test_a_request_to_any_broker_goes_to_a_live_one(self) -> None:
        self.now(self.cluster.find_leader("t", 0))
        self.now(self.cluster.send_anywhere(HeartbeatRequest()))
        self.network.kill(1)
        self.now(self.cluster.refresh(), 1)
        self.now(self.cluster.send_anywhere(HeartbeatRequest()))
        self.assertEqual(len(self.two.asked_for(HeartbeatRequest)), 1)

    def test_the_idlest_is_asked(self) -> None:
        self.now(self.cluster.find_leader("t", 0))
        self.now(self.beat(2))
        self.one.answers[HeartbeatRequest] = lambda _: None
        busy = self.beat(1)
        self.now(self.cluster.send_anywhere(HeartbeatRequest(group_id="any")))
        self.assertEqual([r.group_id for r in self.two.asked_for(HeartbeatRequest)], ["g", "any"])
        busy.addErrback(lambda _: None)


class TestThrottling(ClusterTests):
    """Duties of clients by KIP-219."""

    def setUp(self) -> None:
        super().setUp()
        self.now(self.cluster.find_leader("t", 0))
        self.throttle(1, 2000)
        self.successResultOf(self.after(self.beat(1)))
        self.throttle(1, 0)

    def throttle(self, node: int, milliseconds: int) -> None:
        answer = HeartbeatResponse(throttle_time_ms=milliseconds)
        self.network.broker(node).answers[HeartbeatRequest] = lambda request: answer

    def beats(self, node: int) -> int:
        return len(self.network.broker(node).asked_for(HeartbeatRequest))

    def test_a_throttling_broker_gets_no_requests(self) -> None:
        answers = [self.beat(1), self.beat(1)]
        self.network.run(1.9)
        self.assertEqual(self.beats(1), 1)
        self.network.run(0.2)
        self.assertEqual(self.beats(1), 3)
        for answer in answers:
            self.successResultOf(answer)
        self.assertEqual(self.one.dialled, 1)

    def test_requests_keep_their_order(self) -> None:
        waiting = [self.cluster.send(1, HeartbeatRequest(group_id=str(number))) for number in range(3)]
        self.network.run(2.1)
        waiting.append(self.cluster.send(1, HeartbeatRequest(group_id="3")))
        self.network.run()
        self.assertEqual([each.group_id for each in self.one.asked_for(HeartbeatRequest)][1:], ["0", "1", "2", "3"])
        for each in waiting:
            self.successResultOf(each)

    def test_a_throttle_ends_without_waiting_requests(self) -> None:
        self.network.run(2.1)
        self.successResultOf(self.after(self.beat(1)))
        self.assertEqual((self.beats(1), self.one.dialled), (2, 1))

    def test_other_brokers_are_asked_during_a_throttle(self) -> None:
        self.successResultOf(self.after(self.beat(2)))
        self.now(self.cluster.refresh())
        self.assertEqual(len(self.two.asked_for(MetadataRequest)), 1)

    def test_a_broker_may_throttle_again(self) -> None:
        self.network.run(2.1)
        self.throttle(1, 3000)
        self.beat(1)
        self.network.run()
        self.assertEqual(self.beats(1), 2)
        waiting = self.beat(1)
        self.network.run(2.9)
        self.assertEqual(self.beats(1), 2)
        self.network.run(0.2)
        self.assertEqual(self.beats(1), 3)
        self.successResultOf(waiting)

    def test_a_metadata_answer_can_throttle_too(self) -> None:
        self.one.answers[MetadataRequest] = lambda request: attrs.evolve(
            self.network.metadata(request), throttle_time_ms=2000
        )
        self.network.run(2.1)
        self.now(self.cluster.refresh())
        waiting = self.beat(1)
        self.network.run(1.9)
        self.assertEqual(self.beats(1), 1)
        self.network.run(0.2)
        self.successResultOf(waiting)

    def test_a_connection_that_is_lost_meanwhile(self) -> None:
        waiting = self.beat(1)
        self.network.kill(1)
        self.network.revive(1)
        self.network.run(2.1)
        self.successResultOf(waiting)
        self.assertEqual(self.one.dialled, 2)

    def test_closing_meanwhile(self) -> None:
        waiting = self.beat(1)
        self.now(self.cluster.close())
        self.failureResultOf(waiting, Closed)


class TestCoordinators(ClusterTests):
    def test_a_coordinator_is_found_and_remembered(self) -> None:
        node = self.now(self.cluster.coordinator("g", CoordinatorType.GROUP))
        self.assertEqual(self.now(self.cluster.coordinator("g", CoordinatorType.GROUP)), node)
        (asked,) = self.one.asked_for(FindCoordinatorRequest)
        self.assertEqual((asked.coordinator_keys, asked.key_type), (["g"], 0))
        self.cluster.forget_coordinator("g", CoordinatorType.GROUP)
        self.now(self.cluster.coordinator("g", CoordinatorType.GROUP))
        self.assertEqual(len(self.one.asked_for(FindCoordinatorRequest)), 2)

    def test_concurrent_lookups_share_one_request(self) -> None:
        finding = [ensureDeferred(self.cluster.coordinator("g", CoordinatorType.GROUP)) for _ in range(3)]
        finding[1].cancel()
        self.failureResultOf(finding[1], CancelledError)
        self.network.run(1)
        self.assertEqual([broker_of(self.successResultOf(finding[place])) for place in (0, 2)], [1, 1])
        self.assertEqual(len(self.one.asked_for(FindCoordinatorRequest)), 1)

    def test_groups_and_transactions_are_kept_apart(self) -> None:
        self.now(self.cluster.coordinator("x", CoordinatorType.GROUP))
        self.assertEqual(self.now(self.cluster.coordinator("x", CoordinatorType.TRANSACTION)), 1)
        self.assertEqual([r.key_type for r in self.one.asked_for(FindCoordinatorRequest)], [0, 1])

    def test_a_group_has_a_connection_of_its_own(self) -> None:
        node = self.now(self.cluster.coordinator("g", CoordinatorType.GROUP))
        self.assertEqual((node, broker_of(node), coordinator_node(1)), (2**31 - 2, 1, node))
        self.now(self.cluster.refresh())
        held: list[Any] = []

        def answer(request: HeartbeatRequest) -> HeartbeatResponse | None:
            held.append(request)
            return None if request.group_id == "slow" else HeartbeatResponse()

        self.one.answers[HeartbeatRequest] = answer
        slow = self.cluster.send(1, HeartbeatRequest(group_id="slow"))
        self.now(self.cluster.send(node, HeartbeatRequest(group_id="quick")))
        self.assertNoResult(slow)
        self.assertEqual(self.one.connections, 2)
        slow.addErrback(lambda _: None)

    def test_a_loading_coordinator_is_waited_for(self) -> None:
        tries: list[int] = []

        def load(request: FindCoordinatorRequest) -> Any:
            tries.append(1)
            codes = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]
            return self.network.coordinator_is(request, 2, codes[min(len(tries), 3) - 1])

        self.one.answers[FindCoordinatorRequest] = load
        finding = self.after(self.cluster.coordinator("g", CoordinatorType.GROUP), 0.05)
        self.assertNoResult(finding)
        self.network.run(1)
        self.assertEqual(broker_of(self.successResultOf(finding)), 2)
        self.assertEqual(len(tries), 3)

    def test_a_group_that_may_not_be_used(self) -> None:
        self.one.answers[FindCoordinatorRequest] = lambda request: self.network.coordinator_is(
            request, 1, ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
        error = self.failureResultOf(self.after(self.cluster.coordinator("g", CoordinatorType.GROUP)), KafkaError).value
        self.assertEqual(error.code, ErrorCode.GROUP_AUTHORIZATION_FAILED)


class TestClosing(ClusterTests):
    def test_close_fails_waiting_requests(self) -> None:
        self.now(self.cluster.find_leader("t", 0))
        self.two.answers[HeartbeatRequest] = lambda _: None
        answer = self.beat(2)
        finding = self.after(self.cluster.find_leader("no", 0), 1)
        dialling = self.beat(coordinator_node(1))
        closing = self.after(self.cluster.close())
        self.successResultOf(closing)
        for each in (answer, finding, dialling):
            self.failureResultOf(each, Closed)

    def test_a_closed_cluster_rejects_requests(self) -> None:
        self.now(self.cluster.find_leader("t", 0))
        self.now(self.cluster.close())
        self.failureResultOf(self.beat(1), Closed)
        self.failureResultOf(self.cluster.refresh(), Closed)
        self.failureResultOf(self.after(self.cluster.find_leader("no", 0)), Closed)
        self.failureResultOf(self.cluster.send_anywhere(HeartbeatRequest()), Closed)

    def test_closing_while_nothing_was_ever_asked(self) -> None:
        self.now(self.cluster.close())

    def test_closing_while_nobody_can_be_reached(self) -> None:
        self.network.kill(1)
        finding = self.after(self.cluster.find_leader("t", 0), 1)
        self.now(self.cluster.close())
        self.failureResultOf(finding, Closed)
