"""The simple consumer at a broker that speaks the protocol of 0.7: both of its protocols see the same messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pylogbroker.client.errors import OutOfRange
from pylogbroker.client.simple_consumer import EARLIEST, LATEST, SimpleConsumer
from tests.legacy07 import message_sets
from tests.legacy07.conftest import SimpleBroker


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleBroker]:
    running = SimpleBroker(tmp_path_factory.mktemp("served"))
    running.start()
    yield running
    running.kill()
    assert running.unexpected_errors() == []


def produce(served: SimpleBroker, topic: str, *messages: bytes) -> None:
    """Sent as clients of 0.7 do, who get no answer; one to a question shows that they are in."""
    with served.connect() as connection:
        for data in messages:
            connection.sendall(message_sets.produce(topic.encode(), 0, data))
        connection.sendall(message_sets.offsets(topic.encode(), 0, -1, 1))
        assert connection.recv(100)


async def test_both_protocols(served: SimpleBroker, topic: str) -> None:
    big = message_sets.message(b"x" * 50_000)
    produce(served, topic, message_sets.ONE + message_sets.ZIPPED, big, message_sets.TWO)
    values = [b"one", b"g1", b"g2", b"x" * 50_000, b"two"]
    starts = [0, 13, 14, 64, 64 + len(big)]
    host, port = served.bootstrap.rsplit(":", 1)
    by_simple = SimpleConsumer(*served.address, protocol="simple")
    by_kafka = SimpleConsumer(host, int(port))
    for consumer in (by_simple, by_kafka):
        assert await consumer.get_offsets_before(topic, 0, EARLIEST) == [0]
        assert await consumer.get_offsets_before(topic, 0, LATEST) == [64 + len(big) + 13]
        found = await consumer.fetch(topic, 0, 0)
        assert [(each.offset, each.value) for each in found] == list(zip(starts, values, strict=True))
        assert found.next_offset == 64 + len(big) + 13
        assert list(await consumer.fetch(topic, 0, found.next_offset)) == []
        with pytest.raises(OutOfRange) as caught:
            await consumer.fetch(topic, 0, 1_000_000)
        assert (caught.value.first, caught.value.end) == (0, 64 + len(big) + 13)
    await by_kafka.close()
    await by_simple.close()


async def test_a_message_at_a_time(served: SimpleBroker, topic: str) -> None:
    """Each is larger than what is asked for first."""
    produce(served, topic, *[message_sets.message(b"%d" % number * 3000) for number in range(5)])
    consumer = SimpleConsumer(*served.address, protocol="simple")
    offset, found = 0, []
    while messages := list(await consumer.fetch(topic, 0, offset, 100)):
        found += messages
        offset = messages[-1].next_offset
    assert [each.value for each in found] == [b"%d" % number * 3000 for number in range(5)]
    first, second = await consumer.multifetch([(topic, 0, 0, 100), (topic, 0, 3010, 4000)])
    assert [next(iter(each)).value[:1] for each in (first, second)] == [b"0", b"1"]
    await consumer.close()


async def test_decoders(served: SimpleBroker, fresh_name: Callable[[], str]) -> None:
    name = fresh_name()
    produce(served, name, message_sets.message(b"[1]"))
    consumer = SimpleConsumer(*served.address, protocol="simple", decoder="json")
    assert [each.value for each in await consumer.fetch(name, 0, 0)] == [[1]]
    await consumer.close()
