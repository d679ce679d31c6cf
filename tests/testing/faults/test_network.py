"""The network between clients and broker, and chaos."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from confluent_kafka import Consumer, Producer
from twisted.internet.task import Clock

from pylogbroker.records import Record, build
from pylogbroker.testing import Broker
from pylogbroker.testing.faults.chaos import Chaos
from pylogbroker.testing.faults.network import Conditions, Flow
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.waiting import wait_until
from tests.testing.faults.raw import RawClient


@attrs.define
class Line:
    """A flow, and what has come out of it."""

    clock: Clock = attrs.field(factory=Clock)
    arrived: list[tuple[float, bytes]] = attrs.field(factory=list)
    resets: int = 0

    def flow(self, **conditions: Any) -> Flow:
        """Return the flow."""
        return Flow(self.clock, self._deliver, self._reset, Conditions(**conditions))

    def _deliver(self, data: bytes) -> None:
        self.arrived.append((round(self.clock.seconds(), 3), data))

    def _reset(self) -> None:
        self.resets += 1

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.pump([0.001] * round(seconds * 1000))


def test_bytes_arrive_late_and_in_order() -> None:
    line = Line()
    flow = line.flow(latency=0.05, jitter=0.02, seed=3)
    for byte in (b"a", b"b", b"c"):
        flow.put(byte)
        line.run(0.002)
    line.run(0.1)
    assert [data for _, data in line.arrived] == [b"a", b"b", b"c"]
    assert all(0.05 <= at <= 0.08 for at, _ in line.arrived)


def test_bytes_arrive_in_pieces_at_a_rate() -> None:
    line = Line()
    line.flow(piece_bytes=2, bytes_per_second=100).put(b"abcde")
    line.run(0.1)
    assert line.arrived == [(0.02, b"ab"), (0.04, b"cd"), (0.05, b"e")]


def test_a_reset_comes_after_some_bytes() -> None:
    line = Line()
    flow = line.flow(reset_after_bytes=3)
    flow.put(b"ab")
    line.run(0.01)
    assert line.resets == 0
    flow.put(b"cd")
    line.run(0.01)
    assert (b"".join(data for _, data in line.arrived), line.resets) == (b"abc", 1)


def test_a_stall_ends() -> None:
    line = Line()
    flow = line.flow(stalled=True)
    flow.put(b"a")
    line.run(10)
    assert line.arrived == []
    flow.shape(Conditions())
    assert flow.is_shaped  # until what waits has arrived
    line.run(0.01)
    assert [data for _, data in line.arrived] == [b"a"]
    assert not flow.is_shaped


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker of the test's own."""
    with Broker(broker_id=0) as broker:
        yield broker


def test_clients_read_answers_sent_in_pieces(broker: Broker) -> None:
    broker.faults.network.shape(piece_bytes=7)
    with RawClient(broker.bootstrap) as client:
        client.create_topic("t")
        assert [client.produce("t").base_offset for _ in range(2)] == [0, 1]
        assert client.fetch("t").responses[0].partitions[0].high_watermark == 2


def test_one_direction_stalls(broker: Broker) -> None:
    with RawClient(broker.bootstrap) as client:
        watch = broker.faults.watch("Heartbeat")
        broker.faults.network.stall("down")
        client.send(HeartbeatRequest("g"))
        watch.wait(1, timeout=120)
        broker.faults.network.stall("up")
        client.send(HeartbeatRequest("g"))
        broker.faults.network.heal()
        watch.wait(2, timeout=120)
        assert client.receive() == client.receive()


def test_connections_are_reset(broker: Broker) -> None:
    with RawClient(broker.bootstrap) as client:
        client.heartbeat("g")
        broker.faults.network.reset()
        with pytest.raises(ConnectionError):
            client.heartbeat("g")
    broker.faults.network.shape("down", reset_after_bytes=10)
    with RawClient(broker.bootstrap) as client, pytest.raises(ConnectionError):
        client.heartbeat("g")


def run_through(broker: Broker) -> list[bytes | None]:
    """Produce a hundred records and consume them in a group."""
    common = {"bootstrap.servers": broker.bootstrap, "retry.backoff.ms": 10, "reconnect.backoff.ms": 10}
    producer = Producer({**common, "enable.idempotence": True, "client.id": "p", "batch.num.messages": 5})
    for number in range(100):
        producer.produce("t", str(number), partition=0)
        producer.poll(0)
    assert producer.flush(120) == 0
    consumer = Consumer({**common, "group.id": "g", "client.id": "c", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    values: dict[bytes | None, None] = {}  # a member that joins again may read records twice

    def consume() -> None:
        values.update({message.value(): None for message in consumer.consume(100, 1) if message.error() is None})

    wait_until(lambda: len(values) >= 100, what=lambda: values, meanwhile=consume)
    consumer.close()
    return list(values)


def test_librdkafka_survives_chaos(broker: Broker) -> None:
    broker.create_topic("t")
    chaos = broker.faults.chaos(seed=7, rate=0.15)
    assert run_through(broker) == [str(number).encode() for number in range(100)]
    assert "Produce" in {api for _, api, _ in chaos.chosen}
    chaos.remove()
    assert len(broker.records("t")) == 100


def test_chaos_repeats_itself(broker: Broker) -> None:
    found = []
    for _ in range(2):
        chaos = broker.faults.chaos(seed=5, rate=0.5)
        for _ in range(20):
            with RawClient(broker.bootstrap) as client:
                client.heartbeat("g")
        found.append([action.delay for _, _, action in chaos.chosen])
        chaos.remove()
    assert found[0] == found[1]
    assert len(found[0]) > 3


@pytest.mark.parametrize(
    ("magic", "producer_id", "is_only_delayed"), [(0, -1, True), (1, -1, True), (2, -1, True), (2, 7, False)]
)
def test_chaos_lets_no_client_repeat_records(magic: int, producer_id: int, is_only_delayed: bool) -> None:
    """A request whose connection is closed is sent again, which only idempotent producers may do."""
    numbers = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0} if producer_id >= 0 else {}
    records = build([Record(0, -1 if magic == 0 else 1, None, b"a value that is long enough")], magic=magic, **numbers)
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData("t", [PartitionProduceData(0, records)])])
    call: Any = SimpleNamespace(
        api=SimpleNamespace(key=ProduceRequest.api_key, name="Produce"),
        context=SimpleNamespace(client_id="c"),
        request=request,
    )
    chaos = Chaos(3, 1.0, lambda _: None)
    found = [action for _ in range(60) if (action := chaos.choose(call)) is not None]
    assert len(found) == 30
    assert all(action.close is None and not action.errors for action in found) is is_only_delayed
