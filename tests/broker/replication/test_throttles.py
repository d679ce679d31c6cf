"""Throttled replicas: records come at a rate, the rest of the replication goes on."""

from __future__ import annotations

from pylogbroker.config import ConfigSource
from pylogbroker.metadata.delta import ConfigChanged, Delta
from pylogbroker.metadata.image import topic_resource
from tests.broker.replication.cluster import TOPIC, ClusterTests
from tests.broker.trees import now

RATE = 50_000
SECONDS = 40
BATCH_BYTES = 10_000


class ThrottleTests(ClusterTests):
    """Broker 2 lags far behind, and is not in sync."""

    brokers = (1, 2)

    def throttle(self, broker: int, role: str, replicas: str, rate: int = RATE) -> None:
        """Set what kafka-reassign-partitions sets, on all brokers and on one."""
        changed = ConfigChanged(topic_resource(TOPIC), {f"{role}.replication.throttled.replicas": replicas})
        for node in self.cluster.nodes.values():
            now(node.broker.metadata.publish(Delta.of(changed)))
        settings = {f"{role}.replication.throttled.rate": str(rate)}
        self.cluster.nodes[broker].broker.config.set_dynamic(ConfigSource.DYNAMIC_BROKER_CONFIG, settings)

    def lag_behind(self, isr: tuple[int, ...] = (1,)) -> None:
        self.cluster.cut.add((2, 1))
        self.create(isr=isr)
        for _ in range(2 * RATE * SECONDS // BATCH_BYTES):
            self.cluster.append(1, b"v" * BATCH_BYTES)

    def copied(self, seconds: float = SECONDS) -> int:
        """Return the bytes that the follower gets in some time."""
        self.cluster.cut.clear()
        before = self.cluster.partition(2).log.size
        self.cluster.settle(seconds)
        return self.cluster.partition(2).log.size - before

    def assertIsRate(self, copied: int) -> None:
        self.assertLess(abs(copied / (RATE * SECONDS) - 1), 0.1)

    def test_a_leader_sends_at_its_rate(self) -> None:
        self.lag_behind()
        self.throttle(1, "leader", "0:1")
        self.assertIsRate(self.copied())

    def test_a_follower_fetches_at_its_rate(self) -> None:
        self.lag_behind()
        self.throttle(2, "follower", "0:2")
        self.assertIsRate(self.copied())

    def test_other_replicas_are_not_throttled(self) -> None:
        self.lag_behind()
        self.throttle(1, "leader", "0:2,1:1")
        self.throttle(2, "follower", "0:1,1:2")
        self.copied(5)
        self.assertEqual(self.cluster.ends()[2], self.cluster.ends()[1])

    def test_a_leader_does_not_throttle_a_follower_in_sync(self) -> None:
        self.lag_behind(isr=(1, 2))
        self.throttle(1, "leader", "*")
        self.copied(5)
        self.assertEqual(self.cluster.ends()[2], self.cluster.ends()[1])

    def test_a_follower_that_has_caught_up_is_not_throttled(self) -> None:
        self.create()
        self.cluster.append(1, b"a")
        self.cluster.settle(1.2)
        self.throttle(2, "follower", "*", rate=0)
        self.cluster.append(1, b"b")
        self.cluster.settle(1.2)
        self.assertEqual(self.cluster.ends(), {1: 2, 2: 2})

    def test_appends_do_not_answer_a_fetch_that_is_held_back(self) -> None:
        self.lag_behind()
        self.throttle(1, "leader", "*", rate=0)
        self.copied(2)
        self.cluster.requests.clear()
        for _ in range(20):
            self.cluster.append(1, b"more")
            self.cluster.settle(0.1)
        self.assertLessEqual(len(self.cluster.requests), 2 / 0.5 + 1)
