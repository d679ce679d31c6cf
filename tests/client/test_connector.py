"""The connector against running brokers: what is read, from where on, and what is committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import Producer
from twisted.internet.defer import ensureDeferred

from pylogbroker.client import Blacklist, ConsumerConnector, Stream, Whitelist
from pylogbroker.client.consumer.connector import NotAssigned
from pylogbroker.client.consumer.positions import NoOffset
from pylogbroker.client.consumer.streams import ConsumerTimeout
from pylogbroker.client.errors import (
    ClientError,
    Closed,
    NoBrokers,
    OutOfRange,
    PluginFailed,
    RequestTimedOut,
    TopicRecreated,
)
from pylogbroker.errors import ConfigError, KafkaError
from tests.client.consumer_harness import Collector, committed, connector, create, delete, grow, write
from tests.support.brokers import Broker
from tests.support.reactor_run import sleep, wait_for


def numbered(count: int, start: int = 0) -> list[str]:
    return [f"value-{number}" for number in range(start, start + count)]


@pytest.mark.parametrize("many", [0, 50])
async def test_everything_is_read_in_order(broker: Broker, topic: str, group: str, many: int) -> None:
    create(broker.bootstrap, topic, 4)
    write(broker.bootstrap, topic, numbered(1000), 4)
    consumer = connector(broker.bootstrap, group)
    streams = await consumer.create_message_streams({topic: 3})
    assert [len(stream.buffers) for stream in streams[topic]] == [2, 1, 1]
    collector = Collector(*streams[topic], many=many)
    await wait_for(lambda: len(collector.messages) == 1000)
    for partition in range(4):
        found = [each for each in collector.messages if each.partition == partition]
        assert [each.offset for each in found] == list(range(250))
        assert [each.value.decode() for each in found] == numbered(1000)[partition::4]
    assert {each.topic for each in collector.messages} == {topic}
    await consumer.shutdown()
    assert all(done.called for done in collector.done)
    assert committed(broker.bootstrap, group, topic, 4) == [250] * 4


async def test_a_later_consumer_continues_at_the_committed_offset(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic, 2)
    write(broker.bootstrap, topic, numbered(100), 2)
    first = connector(broker.bootstrap, group)
    stream = await first.stream(topic)
    seen: list[str] = []
    async for message in stream:
        seen.append(message.value.decode())
        if len(seen) == 30:
            break
    await first.shutdown()
    second = connector(broker.bootstrap, group)
    collector = Collector(*(await second.create_message_streams({topic: 1}))[topic])
    write(broker.bootstrap, topic, ["last", "last"], 2)  # come behind repeated ones
    await wait_for(lambda: collector.values.count("last") == 2)
    assert sorted(seen + collector.values) == sorted([*numbered(100), "last", "last"])
    await second.shutdown()


async def test_a_topic_that_is_created_again_is_read_from_its_beginning(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, numbered(3))
    consumer = connector(broker.bootstrap, group)
    collector = Collector(*(await consumer.create_message_streams({topic: 1}))[topic])
    await wait_for(lambda: collector.values == numbered(3))
    await consumer.commit_offsets()
    recreate(broker.bootstrap, topic, numbered(7, 100))
    await wait_for(lambda: len(collector.values) >= 3 + 7)
    assert collector.values == [*numbered(3), *numbered(7, 100)]
    assert consumer.position(topic, 0) == 7
    await consumer.shutdown()
    assert committed(broker.bootstrap, group, topic, 1) == [7]


async def test_no_policy_for_a_topic_that_is_created_again(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, numbered(3))
    consumer = connector(broker.bootstrap, group, auto_offset_reset="none")
    streams = await consumer.create_message_streams({topic: 1})
    consumer.seek(topic, 0, 0)
    stream = streams[topic][0]
    seen: list[str] = []
    while len(seen) < 3:
        with suppress(NoOffset):
            seen += [each.value.decode() for each in await stream.get_many()]
    recreate(broker.bootstrap, topic, numbered(7, 100))
    with pytest.raises(TopicRecreated, match=f"topic {topic} was deleted and created again"):
        await stream.get_many()
    consumer.seek(topic, 0, 2)
    assert [each.value.decode() for each in await stream.get_many()] == numbered(5, 102)
    await consumer.shutdown()


def recreate(bootstrap: str, topic: str, values: list[str]) -> None:
    """Block the reactor meanwhile: a consumer that sees the topic missing would create it."""
    delete(bootstrap, topic)
    create(bootstrap, topic)
    write(bootstrap, topic, values)


async def test_interval_commits_cover_only_processed_messages(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, numbered(10))
    consumer = connector(broker.bootstrap, group, auto_commit_interval_ms=50)
    stream = (await consumer.create_message_streams({topic: 1}))[topic][0]
    assert len(await stream.get_many(4)) == 4
    await wait_for(lambda: consumer.position(topic, 0) == 4)
    await sleep(0.3)
    assert (await consumer.committed()) == {(topic, 0): 0}  # the reader may still be busy with the four
    assert len(await stream.get_many(3)) == 3
    while (found := await consumer.committed()) == {(topic, 0): 0}:
        pass  # each question is a request; the test's limit is the deadline
    assert found == {(topic, 0): 4}
    await consumer.commit_offsets()
    assert (await consumer.committed()) == {(topic, 0): 7}
    await consumer.commit_offsets({(topic, 0): 2})
    assert committed(broker.bootstrap, group, topic, 1) == [2]
    await consumer.shutdown()


async def test_without_auto_commit_nothing_is_committed(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, numbered(10))
    consumer = connector(broker.bootstrap, group, enable_auto_commit=False, auto_commit_interval_ms=50)
    stream = (await consumer.create_message_streams({topic: 1}))[topic][0]
    for _ in range(2):
        await stream.get_many(4)
    await sleep(0.2)
    await consumer.shutdown()
    assert committed(broker.bootstrap, group, topic, 1) == [-1001]


@pytest.mark.parametrize(("policy", "expected"), [("latest", 1), ("largest", 1), ("earliest", 6), ("smallest", 6)])
async def test_auto_offset_reset_decides_the_first_offset(
    broker: Broker, topic: str, group: str, policy: str, expected: int
) -> None:
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, numbered(5))
    consumer = connector(broker.bootstrap, group, auto_offset_reset=policy)
    collector = Collector(*(await consumer.create_message_streams({topic: 1}))[topic])
    await wait_for(lambda: consumer.position(topic, 0) is not None)
    write(broker.bootstrap, topic, ["one more"])
    await wait_for(lambda: len(collector.messages) == expected)
    assert collector.values[-1] == "one more"
    await consumer.shutdown()


async def test_no_offset_and_no_policy(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    consumer = connector(broker.bootstrap, group, auto_offset_reset="none")
    stream = (await consumer.create_message_streams({topic: 1}))[topic][0]
    with pytest.raises(NoOffset, match=topic):
        await stream.get_many()
    await consumer.shutdown()


async def test_an_offset_out_of_range(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, numbered(5))
    consumer = connector(broker.bootstrap, group)
    stream = (await consumer.create_message_streams({topic: 1}))[topic][0]
    await stream.get_many()
    consumer.seek(topic, 0, 77)
    assert [message.offset for message in await stream.get_many(2)] == [0, 1]
    await consumer.commit_offsets({(topic, 0): 99})
    await consumer.shutdown()
    strict = connector(broker.bootstrap, group, auto_offset_reset="none", enable_auto_commit=False)
    await strict.commit_offsets({(topic, 0): 99})
    stream = (await strict.create_message_streams({topic: 1}))[topic][0]
    with pytest.raises(OutOfRange) as caught:
        await stream.get_many()
    assert (caught.value.offset, caught.value.first, caught.value.end) == (99, 0, 5)
    await strict.shutdown()


async def test_seeking(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, numbered(50))
    consumer = connector(broker.bootstrap, group)
    stream = (await consumer.create_message_streams({topic: 1}))[topic][0]
    assert [(await anext(stream)).offset for _ in range(3)] == [0, 1, 2]
    consumer.seek(topic, 0, 40)
    assert consumer.position(topic, 0) == 40
    assert [(await anext(stream)).offset for _ in range(3)] == [40, 41, 42]
    assert consumer.lag(topic, 0) == 7
    consumer.seek(topic, 0, 10)
    assert (await stream.get_many(1))[0].offset == 10
    with pytest.raises(NotAssigned):
        consumer.seek(topic, 1, 10)
    await consumer.shutdown()


async def patient_next(stream: Stream) -> Any:
    """Return the next message of a stream that ends an iteration soon, also if it comes late."""
    while True:
        with suppress(ConsumerTimeout):
            return await anext(stream)


@pytest.mark.parametrize("many", [True, False])
async def test_a_partition_is_paused(broker: Broker, topic: str, group: str, many: bool) -> None:
    create(broker.bootstrap, topic, 2)
    write(broker.bootstrap, topic, numbered(40), 2)
    consumer = connector(broker.bootstrap, group, auto_commit_interval_ms=50, consumer_timeout_ms=300)
    stream = (await consumer.create_message_streams({topic: 1}))[topic][0]
    first = [await patient_next(stream) for _ in range(5)] if not many else await stream.get_many(5)
    held = first[0].partition
    assert [message.offset for message in first] == list(range(5))
    consumer.pause(topic, held)
    assert consumer.paused == {(topic, held)}
    rest = await stream.get_many(30)
    assert [(each.partition, each.offset) for each in rest] == [(1 - held, offset) for offset in range(20)]
    write(broker.bootstrap, topic, numbered(2), 2)
    assert [(each.partition, each.offset) for each in [await patient_next(stream)]] == [(1 - held, 20)]
    with pytest.raises(ConsumerTimeout):
        await anext(stream)
    assert consumer.position(topic, held) == 5
    consumer.resume(topic, held)
    assert consumer.paused == frozenset()
    after = [await patient_next(stream) for _ in range(16)] if not many else (await stream.get_many(50))
    assert [(each.partition, each.offset) for each in after] == [(held, offset) for offset in range(5, 5 + len(after))]
    with pytest.raises(NotAssigned):
        consumer.pause(topic, 2)
    await consumer.shutdown()


async def test_messages_of_a_paused_partition_are_not_processed(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, numbered(10))
    consumer = connector(broker.bootstrap, group, auto_commit_interval_ms=50)
    stream = (await consumer.create_message_streams({topic: 1}))[topic][0]
    await stream.get_many(4)
    consumer.pause(topic, 0)
    await sleep(0.3)
    assert (await consumer.committed()) == {(topic, 0): 0}  # the reader may still be busy with the four
    consumer.seek(topic, 0, 8)
    assert await stream.get_many(timeout=0.3) == []
    consumer.resume(topic, 0)
    assert [each.offset for each in await stream.get_many()] == [8, 9]
    await consumer.shutdown()


async def test_a_slow_stream_stops_its_own_partitions(
    broker: Broker, fresh_name: Callable[[], str], group: str
) -> None:
    slow, quick = fresh_name(), fresh_name()
    for name in (slow, quick):
        create(broker.bootstrap, name)
        write(broker.bootstrap, name, ["x" * 1000] * 2000, **{"batch.size": 20_000})
    consumer = connector(broker.bootstrap, group, max_partition_fetch_bytes=100_000)
    streams = await consumer.create_message_streams({slow: 1, quick: 1})
    collector = Collector(*streams[quick])
    await wait_for(lambda: len(collector.messages) == 2000)
    [stuck] = streams[slow][0].buffers
    assert 100_000 <= stuck.buffered <= 220_000
    late = Collector(*streams[slow])
    await wait_for(lambda: len(late.messages) == 2000)
    await consumer.shutdown()


async def test_a_batch_larger_than_the_fetch_size_is_read(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, ["x" * 300_000, "small"])
    consumer = connector(broker.bootstrap, group, max_partition_fetch_bytes=1000, fetch_max_bytes=1000)
    collector = Collector(*(await consumer.create_message_streams({topic: 1}))[topic])
    await wait_for(lambda: [len(value) for value in collector.values] == [300_000, 5])
    await consumer.shutdown()


async def test_a_whitelist_reads_matching_topics(broker: Broker, fresh_name: Callable[[], str], group: str) -> None:
    stem = fresh_name()
    create(broker.bootstrap, f"{stem}.a")
    create(broker.bootstrap, f"{stem}.b")
    write(broker.bootstrap, f"{stem}.a", ["a"])
    write(broker.bootstrap, f"{stem}.b", ["b"])
    consumer = connector(broker.bootstrap, group, metadata_max_age_ms=200)
    streams = await consumer.create_message_streams_by_filter(Whitelist(rf"{stem}\.(a|new)"), 2)
    assert len(streams) == 2
    collector = Collector(*streams)
    await wait_for(lambda: collector.values == ["a"])
    create(broker.bootstrap, f"{stem}.new", 2)
    write(broker.bootstrap, f"{stem}.new", ["new"])
    await wait_for(lambda: collector.values == ["a", "new"])
    assert consumer.assignment == {(f"{stem}.a", 0), (f"{stem}.new", 0), (f"{stem}.new", 1)}
    assert consumer.topics() == {f"{stem}.a", f"{stem}.new"}
    delete(broker.bootstrap, f"{stem}.new")
    await wait_for(lambda: consumer.assignment == {(f"{stem}.a", 0)})
    write(broker.bootstrap, f"{stem}.a", ["still"])
    await wait_for(lambda: collector.values == ["a", "new", "still"])
    await consumer.shutdown()


async def test_a_blacklist_reads_all_other_topics(broker: Broker, fresh_name: Callable[[], str], group: str) -> None:
    wanted, unwanted = fresh_name(), fresh_name()
    create(broker.bootstrap, wanted)
    create(broker.bootstrap, unwanted)
    consumer = connector(broker.bootstrap, group)
    await consumer.create_message_streams_by_filter(Blacklist(unwanted))
    topics = {topic for topic, _ in consumer.assignment}
    assert wanted in topics
    assert not topics & {unwanted, "__consumer_offsets"}
    await consumer.shutdown()


async def test_a_topic_that_grows_and_one_that_comes(broker: Broker, topic: str, group: str) -> None:
    consumer = connector(broker.bootstrap, group, metadata_max_age_ms=200, allow_auto_create_topics=False)
    streams = await consumer.create_message_streams({topic: 1})
    assert consumer.assignment == frozenset()
    collector = Collector(*streams[topic])
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, ["first"])
    await wait_for(lambda: collector.values == ["first"])
    grow(broker.bootstrap, topic, 3)
    await wait_for(lambda: len(consumer.assignment) == 3)
    write(broker.bootstrap, topic, ["a", "b", "c"], 3)
    await wait_for(lambda: sorted(collector.values) == ["a", "b", "c", "first"])
    await consumer.shutdown()


async def test_a_topic_that_is_recreated(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, numbered(5))
    consumer = connector(broker.bootstrap, group, metadata_max_age_ms=200, allow_auto_create_topics=False)
    collector = Collector(*(await consumer.create_message_streams({topic: 1}))[topic])
    await wait_for(lambda: len(collector.messages) == 5)
    delete(broker.bootstrap, topic)
    await wait_for(lambda: consumer.assignment == frozenset())
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, numbered(3, 10))
    await wait_for(lambda: collector.values[5:] == numbered(3, 10))
    await consumer.shutdown()


async def test_aborted_transactions(broker: Broker, topic: str, group: str, fresh_name: Callable[[], str]) -> None:
    create(broker.bootstrap, topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": fresh_name(), "log_level": 0})
    producer.init_transactions(120)
    expected = []
    for number in range(6):
        producer.begin_transaction()
        for part in range(3):
            producer.produce(topic, f"{number}-{part}".encode())
        producer.flush()
        if number % 2:
            producer.abort_transaction(120)
        else:
            producer.commit_transaction(120)
            expected += [f"{number}-{part}" for part in range(3)]
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush()
    committed_only = connector(broker.bootstrap, group, isolation_level="read_committed")
    collector = Collector(*(await committed_only.create_message_streams({topic: 1}))[topic])
    await wait_for(lambda: len(collector.values) == 9)
    await sleep(0.2)
    assert collector.values == expected
    producer.commit_transaction(120)
    await wait_for(lambda: collector.values == [*expected, "open"])
    await committed_only.shutdown()
    everything = connector(broker.bootstrap, fresh_name())
    collector = Collector(*(await everything.create_message_streams({topic: 1}))[topic])
    await wait_for(lambda: len(collector.values) == 19)
    await everything.shutdown()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_codecs(broker: Broker, topic: str, group: str, codec: str) -> None:
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, numbered(500), **{"compression.type": codec})
    consumer = connector(broker.bootstrap, group)
    collector = Collector(*(await consumer.create_message_streams({topic: 1}))[topic])
    await wait_for(lambda: collector.values == numbered(500))
    await consumer.shutdown()


async def test_decoders(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, ['{"a": [1]}', "not json", "2", "neither"])
    consumer = connector(broker.bootstrap, group, decoder="json")
    stream = (await consumer.create_message_streams({topic: 1}))[topic][0]
    assert [message.value for message in await stream.get_many()] == [{"a": [1]}]
    with pytest.raises(PluginFailed, match="json"):
        await stream.get_many()
    assert (await anext(stream)).value == 2
    with pytest.raises(PluginFailed, match="json"):
        await anext(stream)
    write(broker.bootstrap, topic, ["5"])
    assert (await anext(stream)).value == 5
    await consumer.shutdown()


async def test_a_stream_without_messages(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    consumer = connector(broker.bootstrap, group, consumer_timeout_ms=50)
    stream = (await consumer.create_message_streams({topic: 1}))[topic][0]
    assert await stream.get_many(timeout=0.05) == []
    assert stream.take() == []
    with pytest.raises(ConsumerTimeout):
        await anext(stream)
    reading = ensureDeferred(stream.get_many())
    await consumer.shutdown()
    assert await reading == []
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_connector_that_is_shut_down(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    consumer = connector(broker.bootstrap, group)
    await consumer.create_message_streams({topic: 1})
    with pytest.raises(ClientError, match="exist already"):
        await consumer.create_message_streams({topic: 1})
    both = consumer.shutdown(), consumer.shutdown()
    for each in both:
        await each
    with pytest.raises(Closed):
        consumer.commit_offsets()


async def test_a_group_that_rejects(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic)
    first = connector(broker.bootstrap, group, partition_assignment_strategy="range")
    await first.create_message_streams({topic: 1})
    second = connector(broker.bootstrap, group, partition_assignment_strategy="roundrobin")
    with pytest.raises(KafkaError, match="protocol"):
        await second.create_message_streams({topic: 1})
    await second.shutdown()
    await first.shutdown()


async def test_brokers_that_are_not_there(group: str) -> None:
    consumer = connector("127.0.0.1:1", group, default_api_timeout_ms=300)
    errors = []
    while not any(isinstance(each, NoBrokers) for each in errors):  # the time may be over before it is tried
        with pytest.raises((NoBrokers, RequestTimedOut)) as caught:
            await consumer.create_message_streams({"t": 1})
        errors.append(caught.value)
    assert "127.0.0.1:1" in str(errors[-1])
    with pytest.raises((NoBrokers, RequestTimedOut)):  # it may be tried again
        await consumer.create_message_streams({"t": 1})
    await consumer.shutdown()
    unused = connector("127.0.0.1:1", group)
    await unused.shutdown()


def test_bad_arguments() -> None:
    with pytest.raises(ConfigError, match="group"):
        ConsumerConnector("localhost:9092", group="")
    with pytest.raises(ConfigError, match="bootstrap"):
        ConsumerConnector(group="g")
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        ConsumerConnector("localhost:9092", group="g", auto_offset_reset="middle")
    with pytest.raises(ConfigError, match="cooperative-sticky"):
        ConsumerConnector("localhost:9092", group="g", assignor="nonsense")


async def test_every_assignor_reads_each_value_once(broker: Broker, fresh_name: Callable[[], str]) -> None:
    topic = fresh_name()
    create(broker.bootstrap, topic, 3)
    write(broker.bootstrap, topic, numbered(300), 3)
    for assignor in ("range", "roundrobin", "sticky", "cooperative-sticky"):
        consumer = connector(broker.bootstrap, fresh_name(), assignor=assignor)
        collector = Collector(*(await consumer.create_message_streams({topic: 3}))[topic], many=10)
        await wait_for(lambda found=collector: len(found.messages) == 300)
        assert Counter(collector.values) == Counter(numbered(300))
        await consumer.shutdown()
