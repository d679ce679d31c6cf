"""Plugins of every kind in a running producer: what they do reaches the broker, and what they fail fails alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic
from twisted.internet.defer import Deferred
from zope.interface import implementer

from pylogbroker.client import ConsumerConnector, Producer
from pylogbroker.client.errors import PluginFailed
from pylogbroker.interfaces import (
    CallbackHandler,
    Event,
    IAssignor,
    IDecoder,
    IEncoder,
    IEventHandler,
    IForwardingEventHandler,
    IPartitioner,
    Subscription,
    TopicPartition,
)
from pylogbroker.plugins.callback_handlers import MetricsHandler
from tests.support.brokers import Broker

Record = tuple[int, bytes | None, bytes | None]
Create = Callable[[int], str]


@pytest.fixture
def create(broker: Broker, fresh_name: Callable[[], str]) -> Create:
    """Makes a topic with so many partitions."""

    def make(partitions: int) -> str:
        name = fresh_name()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
        return name

    return make


def stored(broker: Broker, topic: str, partitions: int = 1) -> list[Record]:
    """Return partition, key and value of each record that librdkafka reads, partition by partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "nobody", "enable.auto.commit": False})
    places = [Place(topic, number, 0) for number in range(partitions)]
    total = sum(consumer.get_watermark_offsets(place, 10)[1] for place in places)
    consumer.assign(places)
    records = consumer.consume(total, 10)
    consumer.close()
    records.sort(key=lambda record: (record.partition(), record.offset()))
    return [(record.partition(), record.key(), record.value()) for record in records]


async def outcome(sent: Deferred[Any]) -> Any:
    """Return the offset of a record, or its error."""
    try:
        return (await sent).offset
    except Exception as error:
        return error


@implementer(IEncoder, IDecoder)
class Choosy:
    """Takes numbers, but not 13."""

    def to_message(self, data: Any) -> bytes | None:
        if data == 13:
            raise ValueError("unlucky")
        return b"%d" % data

    def from_message(self, data: bytes | None) -> Any:
        return int(data or b"0")


async def test_an_encoder_fails_its_record_alone(broker: Broker, create: Create) -> None:
    topic = create(1)
    producer = Producer(broker.bootstrap, encoder=Choosy(), key_encoder="json")
    sent = [producer.send(topic, number, {"n": number}) for number in (12, 13, 14)]
    sent.append(producer.send(topic, 15, object()))
    found = [await outcome(each) for each in sent]
    await producer.close()
    assert [found[0], found[2]] == [0, 1]
    assert isinstance(found[1], PluginFailed)
    assert (found[1].plugin, str(found[1].__cause__)) == ("Choosy", "unlucky")
    assert isinstance(found[3], PluginFailed)
    assert found[3].plugin == "json"
    assert stored(broker, topic) == [(0, b'{"n":12}', b"12"), (0, b'{"n":14}', b"14")]


@implementer(IPartitioner)
class Length:
    """Partitioner by the length of the key."""

    def partition(self, key: bytes | None, num_partitions: int) -> int:
        return len(key or b"")


async def test_a_partitioner_chooses(broker: Broker, create: Create) -> None:
    topic = create(3)
    producer = Producer(broker.bootstrap, partitioner=Length())
    sent = [producer.send(topic, b"v%d" % size, b"k" * size if size else None) for size in (2, 0, 3, 1, 2)]
    found = [await outcome(each) for each in sent]
    by_hand = await producer.send(topic, b"by hand", b"kkk", partition=1)
    await producer.close()
    assert [found[0], found[1], found[3], found[4]] == [0, 0, 0, 1]
    assert isinstance(found[2], PluginFailed)
    assert (found[2].plugin, by_hand.partition) == ("Length", 1)
    assert stored(broker, topic, 3) == [
        (0, None, b"v0"),
        (1, b"k", b"v1"),
        (1, b"kkk", b"by hand"),
        (2, b"kk", b"v2"),
        (2, b"kk", b"v2"),
    ]


async def test_round_robin_takes_all_partitions_in_order(broker: Broker, create: Create) -> None:
    one, other = create(3), create(3)
    producer = Producer(broker.bootstrap, partitioner_class="round-robin")
    sent = [producer.send(topic, b"%d" % number, b"same") for number in range(6) for topic in (one, other)]
    assert [each for each in [await outcome(each) for each in sent] if isinstance(each, Exception)] == []
    await producer.close()
    for topic in one, other:
        assert [partition for partition, *_ in stored(broker, topic, 3)] == [0, 0, 1, 1, 2, 2]


class Steps(CallbackHandler):
    """Drops "drop", fails at "fail", and marks what passes, at one step."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.seen: list[Any] = []
        self.closed = 0

    def treat(self, step: str, event: Event) -> Event | None:
        if step != self.step:
            return event
        self.seen.append(event.value)
        if event.value == "fail":
            raise LookupError(step)
        return None if event.value == "drop" else attrs.evolve(event, value=f"{event.value} {step}")

    def before_enqueue(self, event: Event) -> Event | None:
        return self.treat("before_enqueue", event)

    def after_enqueue(self, event: Event, is_queued: bool) -> None:
        assert is_queued
        if self.step == "after_enqueue":
            event.value = (self.treat("after_enqueue", event) or event).value

    def after_dequeue(self, events: Sequence[Event]) -> Sequence[Event]:
        return [left for event in events if (left := self.treat("after_dequeue", event))]

    def before_send(self, events: Sequence[Event]) -> Sequence[Event]:
        assert all((event.topic, event.partition) == (events[0].topic, 0) for event in events)
        return [left for event in events if (left := self.treat("before_send", event))]

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("step", ["before_enqueue", "after_dequeue", "before_send"])
async def test_callback_handlers_change_and_drop(broker: Broker, create: Create, step: str) -> None:
    topic, steps = create(1), Steps(step)
    producer = Producer(broker.bootstrap, encoder="utf-8", callback_handlers=[steps, "metrics"], linger_ms=50)
    first, metrics = producer.callback_handlers
    assert first is steps
    assert isinstance(metrics, MetricsHandler)
    sent = [producer.send(topic, value) for value in ("one", "drop", "two")]
    assert [await outcome(each) for each in sent] == [0, -1, 1]
    await producer.close()
    assert (steps.seen, steps.closed) == (["one", "drop", "two"], 1)
    assert stored(broker, topic) == [(0, None, f"one {step}".encode()), (0, None, f"two {step}".encode())]
    assert metrics.counts.sent == 2


@pytest.mark.parametrize("step", ["before_enqueue", "after_enqueue", "after_dequeue", "before_send"])
async def test_a_callback_handler_fails_its_record_or_batch_alone(broker: Broker, create: Create, step: str) -> None:
    topic, steps = create(1), Steps(step)
    producer = Producer(broker.bootstrap, encoder="utf-8", callback_handlers=steps, linger_ms=0)
    found = [await outcome(producer.send(topic, value)) for value in ("one", "fail", "two")]
    await producer.close()
    assert [found[0], found[2]] == [0, 1]
    assert isinstance(found[1], PluginFailed)
    assert (found[1].plugin, found[1].__cause__.args, steps.closed) == ("Steps", (step,), 1)
    assert stored(broker, topic) == [(0, None, f"one {step}".encode()), (0, None, f"two {step}".encode())]


@implementer(IForwardingEventHandler)
class Unique:
    """Sends each value once, fails at "fail", and keeps "keep" to itself."""

    def __init__(self) -> None:
        self.kept: list[Event] = []

    def forward_to(self, handler: IEventHandler) -> None:
        self.built_in = handler

    def handle(self, events: Sequence[Event]) -> Any:
        if any(event.value == "fail" for event in events):
            raise LookupError("event")
        self.kept += [event for event in events if event.value == "keep"]
        return self.built_in.handle(list({event.value: event for event in events if event.value != "keep"}.values()))


async def test_an_event_handler_takes_batches(broker: Broker, create: Create) -> None:
    topic, handler = create(1), Unique()
    producer = Producer(broker.bootstrap, encoder="utf-8", event_handler=handler, linger_ms=100)
    sent = [producer.send(topic, value) for value in ("a", "b", "a", "keep")]
    assert [await outcome(each) for each in sent] == [-1, 1, 0, -1]
    failed = [await outcome(each) for each in [producer.send(topic, "c"), producer.send(topic, "fail")]]
    assert [(type(error), error.plugin) for error in failed] == [(PluginFailed, "Unique")] * 2
    assert await outcome(producer.send(topic, "d")) == 2
    await producer.close()
    assert [value for *_, value in stored(broker, topic)] == [b"a", b"b", b"d"]
    assert [event.value for event in handler.kept] == ["keep"]


@implementer(IAssignor)
class Backwards:
    """Gives everything to one member, and notes who asked."""

    name = "backwards"
    protocol = "eager"

    def __init__(self) -> None:
        self.asked: list[tuple[Mapping[str, int], list[Subscription]]] = []

    def subscription_user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes:
        return b"mine: " + ",".join(topics).encode()

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        self.asked.append((dict(partitions), list(members.values())))
        return {max(members): [(topic, number) for topic in partitions for number in range(partitions[topic])]}


async def test_decoders_and_assignors(broker: Broker, create: Create, fresh_name: Callable[[], str]) -> None:
    topic, assignor = create(1), Backwards()
    producer = Producer(broker.bootstrap)
    await producer.send_many([(topic, value) for value in (b"1", b"two", b"3")])
    await producer.close()
    connector = ConsumerConnector(
        broker.bootstrap,
        group=fresh_name(),
        auto_offset_reset="earliest",
        decoder=Choosy(),
        assignor=["range", assignor],
    )
    quick = {"heartbeat.interval.ms": 100, "enable.auto.commit": False}
    other = ConsumerConnector(broker.bootstrap, group=connector.group, assignor=assignor, settings=quick)
    await other.create_message_streams({topic: 1})
    [stream] = (await connector.create_message_streams({topic: 1}))[topic]
    await other.shutdown()
    found = []
    for _ in range(3):
        try:
            found.append((await anext(stream)).value)
        except PluginFailed as error:
            found.append(error.plugin)
    await connector.shutdown()
    assert found == [1, "Choosy", 3]
    partitions, members = assignor.asked[0]
    assert partitions == {topic: 1}
    assert {(tuple(each.topics), each.user_data) for each in members} == {((topic,), b"mine: " + topic.encode())}
