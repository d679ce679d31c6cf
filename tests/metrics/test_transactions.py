"""Metrics of coordinators' loads, and of transactions that do not come to their end."""

from __future__ import annotations

from unittest.mock import patch

from prometheus_client.parser import text_string_to_metric_families

from pylogbroker.broker.assembly import Broker
from pylogbroker.broker.coordinators.internal_topic import InternalTopic
from pylogbroker.broker.coordinators.recent_loads import RecentLoads
from pylogbroker.coordinators import AppendCallback
from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import at_once
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.metrics.transactions import collect_loads, collect_transactions
from tests.broker.member_transactions import MemberTests
from tests.broker.transactions import TransactionTests

MANAGER = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
OPEN_MAX = "kafka_server_transaction_coordinator_metrics_active_transaction_open_time_max"
REQUESTS = "pylogbroker_transaction_marker_requests_total"
LOAD_TIMES = "kafka_server_{}_coordinator_metrics_partition_load_time_{}"


def samples(broker: Broker) -> dict[str, float]:
    out = Exposition()
    collect_loads(out, broker)
    at_once(collect_transactions(out, broker))
    text = b"".join(at_once(out.encode())).decode()
    return {each.name: each.value for family in text_string_to_metric_families(text) for each in family.samples}


def waiting(broker: Broker) -> tuple[float, float]:
    found = samples(broker)
    return found[f"{MANAGER}unknowndestinationqueuesize"], found[f"{MANAGER}logappendretryqueuesize"]


def failing_append(
    topic: InternalTopic, partition: int, records: object, done: AppendCallback, *more: object, **options: object
) -> None:
    done(ErrorCode.NOT_ENOUGH_REPLICAS, topic._services.runtime.now_ms())


class OneBrokerTests(TransactionTests):
    def test_the_age_of_the_oldest_open_transaction(self) -> None:
        self.assertEqual(samples(self.node.broker)[OPEN_MAX], 0)
        one = self.begun(b"x")
        self.node.clock.advance(5)
        self.begun(b"x", transactional_id="later")
        self.node.clock.advance(2)
        self.assertEqual(samples(self.node.broker)[OPEN_MAX], 7000)
        one.end(True)
        self.assertEqual(samples(self.node.broker)[OPEN_MAX], 2000)

    def test_an_end_whose_record_is_not_appended_waits(self) -> None:
        one = self.begun(b"x")
        with patch.object(InternalTopic, "append", failing_append_after(1)):
            one.end(True)
            self.assertEqual(waiting(self.node.broker), (0, 1))
        self.node.clock.advance(1)
        self.assertEqual(waiting(self.node.broker), (0, 0))
        self.assertEqual(self.state().transaction_state, "CompleteCommit")


def failing_append_after(count: int) -> object:
    """Return a method that appends `count` times, and fails then."""
    real, left = InternalTopic.append, [count]

    def append(topic: InternalTopic, *arguments: object, **options: object) -> None:
        left[0] -= 1
        (real if left[0] >= 0 else failing_append)(topic, *arguments, **options)  # type: ignore[arg-type]

    return append


class TwoBrokersTests(MemberTests):
    settings = {"transaction.partition.verification.enable": "false"}

    def test_markers_that_a_broker_does_not_take_wait(self) -> None:
        one, _ = self.begun()
        broker = self.cluster[1].broker
        self.assertEqual((waiting(broker), samples(broker)[REQUESTS]), ((0, 0), 0))
        self.cluster.down.add(2)
        one.end(True)
        self.cluster.run()
        self.assertEqual(waiting(broker), (1, 0))
        self.cluster.down.clear()
        self.cluster.update()
        self.cluster.run(3)
        self.assertEqual(waiting(broker), (0, 0))
        self.assertGreaterEqual(samples(broker)[REQUESTS], 1)

    def test_times_of_loads(self) -> None:
        broker = self.cluster[1].broker
        for driver in (broker.group_service.driver, broker.transaction_service.driver):
            driver.loads = RecentLoads()
        found = samples(broker)
        assert found[LOAD_TIMES.format("group", "max")] != found[LOAD_TIMES.format("group", "max")]  # NaN
        now = broker.runtime.clock.seconds()
        broker.transaction_service.driver.loads.add(now - 3, now)
        broker.transaction_service.driver.loads.add(now - 1, now)
        found = samples(broker)
        assert [found[LOAD_TIMES.format("transaction", name)] for name in ("max", "avg")] == [3000, 2000]


class LoadTests(TransactionTests):
    def test_each_load_is_timed(self) -> None:
        self.begun(b"x")
        driver, clock = self.node.broker.transaction_service.driver, self.node.clock
        driver.loads = RecentLoads()
        transactions = self.node.broker.transactions
        index = transactions.partition_for("p")
        transactions.runtime.unload(index, int(clock.seconds() * 1000))
        self.node.threads.holding = True
        driver.on_led("__transaction_state", index, 0)
        clock.advance(4)
        self.assertEqual(driver.loads.durations(clock.seconds()), [])
        self.node.threads.run_one()
        self.assertEqual(driver.loads.durations(clock.seconds()), [4])

    def test_loads_are_forgotten_after_a_minute(self) -> None:
        loads = RecentLoads()
        loads.add(1, 3)
        loads.add(10, 11)
        assert loads.durations(63) == [2, 1]
        assert loads.durations(64) == [1]
        assert loads.durations(72) == []
