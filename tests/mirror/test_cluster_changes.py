"""Changes of the clusters while a mirror runs, on a broker in memory: it goes on, and copies each record once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from twisted.logger import capturedLogs, formatEvent

from pylogbroker.client.admin import AdminClient
from pylogbroker.mirror.mirror import Mirror
from pylogbroker.testing import MemoryBroker
from tests.mirror.test_faults import new_mirror


@attrs.define
class Running:
    """A mirror that has copied its first record."""

    broker: MemoryBroker
    mirror: Mirror
    ended: Any
    written: list[str] = attrs.field(factory=lambda: ["first"])

    def start(self, **settings: Any) -> None:
        self.mirror = new_mirror(self.broker, transaction_timeout=5.0, **settings)
        self.ended = self.mirror.run()

    def stop(self) -> None:
        self.broker.run(self.mirror.stop())
        self.broker.run(self.ended)

    def write(self, *values: str) -> None:
        self.broker.produce("orders", *values, partition=0)
        self.written += values

    def catch_up(self, seconds: float = 60.0) -> None:
        """Let time pass until the copy has as many records as were written."""
        passed = 0.0
        while self.mirror.status.lag or not self.mirror.status.is_caught_up or passed < 2:
            self.broker.clock.advance(0.5)
            passed += 0.5
            assert passed < seconds, self.mirror.status

    def copied(self) -> list[str]:
        records = self.broker.records("east.orders", isolation_level="read_committed")
        return [record.value.decode() for record in records]


@pytest.fixture(params=[False, True], ids=["transactions v2", "transactions v1"])
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    with MemoryBroker(now=1_000_000.0, latency=0.001) as broker:
        if request.param:
            broker.faults.cap_versions(Produce=11, EndTxn=4)
        broker.create_topic("orders", 1)
        mirror = new_mirror(broker, transaction_timeout=5.0)
        running = Running(broker, mirror, mirror.run())
        broker.produce("orders", "first", partition=0)
        running.catch_up()
        yield running
        running.stop()


def test_leaders_of_source_and_target_move(running: Running) -> None:
    cluster = running.broker.faults.cluster
    for to, topic in ((7, "orders"), (8, "east.orders"), (7, "mm2-offsets.east.internal"), (8, "orders")):
        cluster.move_leader(topic, 0, to=to)
        running.write(*(f"{topic} {number}" for number in range(3)))
        running.catch_up()
    assert running.copied() == running.written


def test_coordinator_moves(running: Running) -> None:
    name = "pylogbroker-mirror.east.offline"
    running.broker.faults.cluster.move_coordinator(transactional_id=name, to=7)
    running.write("tea", "milk")
    running.catch_up()
    assert running.copied() == running.written


def test_transaction_takes_longer_than_its_timeout(running: Running) -> None:
    fault = running.broker.faults.add("Produce", topic="mm2-offsets.east.internal", delay=20.0)
    running.write("tea", "milk")
    running.broker.clock.advance(25)
    running.write("rice")
    running.catch_up()
    assert fault.hits == 1
    assert running.copied() == running.written


def test_mirror_of_the_same_name_takes_over(running: Running) -> None:
    other = new_mirror(running.broker, transaction_timeout=5.0)
    ended = other.run()
    for number in range(5):
        running.write(f"both {number}")
        running.broker.clock.advance(0.7)
    running.stop()
    running.mirror, running.ended = other, ended
    running.catch_up()
    assert running.copied() == running.written


def test_retention_overtakes_the_mirror(running: Running) -> None:
    broker = running.broker
    held = broker.faults.add("Fetch", topic="orders", hold=True, times=None)
    broker.clock.advance(2)
    running.write(*(f"lost {number}" for number in range(5)))
    running.write("kept")
    admin = AdminClient(broker.bootstrap, reactor=broker.clock)
    broker.run(admin.records.delete({("orders", 0): 6}))
    with capturedLogs() as lines:
        held.remove()
        running.catch_up()
    assert running.copied() == ["first", "kept"]
    [lost] = [text for text in shown(lines) if "records were lost" in text]
    assert "orders-0 of the source begins at offset 6 now, and 5 offsets before it were deleted" in lost
    assert running.mirror.status.lost == {"orders": 5}
    broker.run(admin.close())


@pytest.mark.parametrize("is_down", [False, True])
def test_unclean_election_of_the_source(running: Running, is_down: bool) -> None:
    """A leader without the last records writes others at the same offsets: all of them are copied."""
    broker = running.broker
    for number in range(5):
        running.write(f"old {number}")  # a batch of its own
    running.catch_up()
    if is_down:
        running.stop()
    broker.faults.logs.truncate("orders", 0, to=3)
    with capturedLogs() as lines:
        running.write(*(f"new {number}" for number in range(6)))
        if is_down:
            running.start()
        running.catch_up()
    assert running.copied() == running.written
    [lost] = [text for text in shown(lines) if "has lost records" in text]
    assert "records of orders-0 that are mirrored: offsets 3 to 6 were truncated; the mirror goes on at 3" in lost


@pytest.mark.parametrize("restarts", [False, True])
def test_topic_without_an_id_is_created_again_while_the_mirror_is_down(running: Running, restarts: bool) -> None:
    broker = running.broker
    running.write(*(f"old {number}" for number in range(5)))
    running.catch_up()
    running.stop()
    broker.faults.cap_versions(Metadata=9, Fetch=12)  # Kafka before 2.8
    broker.delete_topic("orders")
    broker.create_topic("orders", 1)
    broker.produce("orders", "other", partition=0)
    running.start(restart_recreated=restarts)
    if restarts:
        running.catch_up()
        assert running.copied() == [*running.written, "other"]
    else:
        broker.clock.advance(10)
        assert "the topic was deleted and created again, or has lost records" in running.mirror.status.stopped["orders"]
        assert running.copied() == running.written


def shown(lines: list[Any]) -> list[str]:
    return [formatEvent(line) for line in lines if line["log_level"].name == "warn"]


def test_topic_is_deleted_and_created_again_while_the_mirror_runs(running: Running) -> None:
    broker = running.broker
    broker.delete_topic("orders")
    broker.clock.advance(2)
    broker.create_topic("orders", 1)
    broker.produce("orders", "other", partition=0)
    broker.clock.advance(10)
    assert "deleted and created again" in running.mirror.status.stopped["orders"]
    assert running.copied() == ["first"]
