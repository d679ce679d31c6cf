"""Share consumers against running brokers: who gets what, how often, and what acknowledgements do.

`--against kafka4` runs these tests against Apache Kafka 4.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from pylogbroker.client import AcknowledgeType, ShareConsumer
from pylogbroker.client.errors import ClientError, Closed, PluginFailed
from pylogbroker.client.share.acquired import ShareMessage
from pylogbroker.client.share.consumer import AcknowledgementsFailed, NotAcknowledged, NotAcquired
from pylogbroker.client.sync import ShareConsumer as SyncShareConsumer
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.client.consumer_harness import create, write
from tests.support.brokers import Broker
from tests.support.reactor_run import run, wait_for
from tests.support.shared_brokers import shared_group_broker

GROUP_RESOURCE = 32


@pytest.fixture
def bootstrap(pytestconfig: pytest.Config, topic: str, group: str) -> str:
    """A broker with a topic of two partitions, and a group that reads from the beginning."""
    if pytestconfig.getoption("--against") not in ("", "kafka4"):
        pytest.skip("share groups need settings of their own")
    broker: Broker = shared_group_broker(pytestconfig)
    create(broker.bootstrap, topic, 2)
    run(lambda: begin_early(broker.bootstrap, group))
    return broker.bootstrap


async def begin_early(bootstrap: str, group: str) -> None:
    consumer = ShareConsumer(bootstrap, group=group)
    setting = AlterableConfig("share.auto.offset.reset", value="earliest")
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group, [setting])])
    response = await consumer._cluster.send_anywhere(request)
    assert [result.error_code for result in response.responses] == [0]
    await consumer.close()


async def member(bootstrap: str, group: str, topic: str, **settings: Any) -> ShareConsumer:
    consumer = ShareConsumer(bootstrap, group=group, **settings)
    await consumer.subscribe([topic])
    return consumer


async def poll_all(consumer: ShareConsumer, count: int) -> list[ShareMessage]:
    messages: list[ShareMessage] = []
    while len(messages) < count:
        messages += await consumer.poll()
    return messages


def values(messages: list[ShareMessage]) -> list[int]:
    return sorted(int(message.value) for message in messages)


def numbered(count: int) -> list[str]:
    return [str(number) for number in range(count)]


async def test_the_next_poll_accepts_messages(bootstrap: str, topic: str, group: str) -> None:
    write(bootstrap, topic, numbered(100), 2)
    consumer = await member(bootstrap, group, topic)
    messages = await poll_all(consumer, 100)
    assert values(messages) == list(range(100))
    assert {message.delivery_count for message in messages} == {1}
    assert await consumer.poll(timeout=0.2) == []
    await consumer.close()
    later = await member(bootstrap, group, topic)
    write(bootstrap, topic, ["100"], 2)
    assert values(await later.poll()) == [100]
    assert (consumer.acknowledgement_failures, later.acknowledgement_failures) == (0, 0)
    await later.close()
    with pytest.raises(Closed):
        later.poll()


async def test_messages_that_are_not_accepted_come_again(bootstrap: str, topic: str, group: str) -> None:
    write(bootstrap, topic, numbered(10))
    first = await member(bootstrap, group, topic)
    assert len(await poll_all(first, 10)) == 10
    await first.close()  # releases them
    second = await member(bootstrap, group, topic)
    messages = await poll_all(second, 10)
    assert values(messages) == list(range(10))
    assert {message.delivery_count for message in messages} == {2}
    await second.commit()
    await second.close()


async def test_each_message_is_acknowledged(bootstrap: str, topic: str, group: str) -> None:
    write(bootstrap, topic, numbered(20))
    consumer = await member(bootstrap, group, topic, share_acknowledgement_mode="explicit")
    kinds = {0: AcknowledgeType.ACCEPT, 1: AcknowledgeType.RELEASE, 2: AcknowledgeType.REJECT}
    messages = await consumer.poll()
    assert values(messages) == list(range(20))
    with pytest.raises(NotAcknowledged, match="are not acknowledged"):
        consumer.poll()
    for message in messages:
        consumer.acknowledge(message, kinds[int(message.value) % 3])
    await consumer.commit()
    released = [number for number in range(20) if number % 3 == 1]
    again = await consumer.poll()
    assert values(again) == released
    assert {message.delivery_count for message in again} == {2}
    for message in again:
        consumer.acknowledge(message)
    await consumer.commit()
    assert await consumer.poll(timeout=0.2) == []
    with pytest.raises(NotAcquired, match="not this consumer's any more"):
        consumer.acknowledge(again[0])
    await consumer.close()


async def test_members_share_a_partition(bootstrap: str, topic: str, group: str) -> None:
    consumers = [await member(bootstrap, group, topic, max_poll_records=10) for _ in range(3)]
    seen: list[list[ShareMessage]] = [[] for _ in consumers]
    polls = [ensureDeferred(read_on(consumer, some)) for consumer, some in zip(consumers, seen, strict=True)]
    for start in range(10):
        write(bootstrap, topic, [str(100 * start + number) for number in range(100)], 2)
    await wait_for(lambda: sum(map(len, seen)) == 1000)
    for consumer in consumers:
        await consumer.close()
    for poll in polls:
        await poll
    counts = Counter(int(message.value) for some in seen for message in some)
    assert counts == Counter(range(1000))
    assert len([some for some in seen if some]) > 1


async def read_on(consumer: ShareConsumer, seen: list[ShareMessage]) -> None:
    try:
        while True:
            seen += await consumer.poll(timeout=60)
            await consumer.commit()
    except Closed:
        pass


async def test_a_record_limit_is_kept(bootstrap: str, topic: str, group: str) -> None:
    write(bootstrap, topic, numbered(40), 1)
    consumer = await member(bootstrap, group, topic, share_acquire_mode="record_limit", max_poll_records=7)
    assert len(await consumer.poll()) == 7
    assert len(await consumer.poll(3)) == 3
    assert len(await consumer.poll()) == 4
    await consumer.close()


async def test_a_renewed_message_stays(bootstrap: str, topic: str, group: str) -> None:
    write(bootstrap, topic, numbered(2), 1)
    consumer = await member(bootstrap, group, topic)
    message, other = await poll_all(consumer, 2)
    consumer.acknowledge(message, AcknowledgeType.RENEW)
    consumer.acknowledge(other)
    await consumer.commit()
    assert await consumer.poll(timeout=0.2) == []
    consumer.acknowledge(message, AcknowledgeType.ACCEPT)
    await consumer.commit()
    assert consumer.acknowledgement_failures == 0
    await consumer.close()


async def test_an_acknowledgement_after_the_lock_is_rejected(
    bootstrap: str, fresh_name: Callable[[], str], group: str
) -> None:
    topic = fresh_name()
    create(bootstrap, topic)  # of one partition, which all members get
    write(bootstrap, topic, ["0"])
    slow = await member(bootstrap, group, topic)
    [message] = await slow.poll()
    other = await member(bootstrap, group, topic)
    [again] = await poll_all(other, 1)  # when the lock of five seconds ends
    assert again.delivery_count == 2
    slow.acknowledge(message)
    with pytest.raises(AcknowledgementsFailed, match=topic) as caught:
        await slow.commit()
    assert [error.code for error in caught.value.errors.values()] == [ErrorCode.INVALID_RECORD_STATE]
    await other.commit()
    for consumer in (slow, other):
        await consumer.close()


async def test_messages_of_a_broken_session_come_again(bootstrap: str, topic: str, group: str) -> None:
    write(bootstrap, topic, numbered(4))
    consumer = await member(bootstrap, group, topic)
    messages = await consumer.poll()
    assert values(messages) == list(range(4))
    for leader in consumer._exchange._leaders.values():
        leader.session.epoch += 1  # as after a lost answer
    with pytest.raises(AcknowledgementsFailed):
        await consumer.commit()
    with pytest.raises(NotAcquired):
        consumer.acknowledge(messages[0])
    again = await poll_all(consumer, 4)
    assert {message.delivery_count for message in again} == {2}
    await consumer.commit()
    await consumer.close()


async def test_a_message_that_cannot_be_decoded(bootstrap: str, topic: str, group: str) -> None:
    write(bootstrap, topic, ["{}", "{", "[]"], 1)
    consumer = await member(bootstrap, group, topic, decoder="json")
    seen: list[Any] = []
    failures: list[PluginFailed] = []
    while len(failures) < 5:  # deliveries until the broker archives it
        try:
            seen += [message.value for message in await consumer.poll()]
        except PluginFailed as error:
            failures.append(error)
    assert all(f"{topic}/0@1" in str(error) for error in failures)
    assert seen == [{}, []]
    assert await consumer.poll(timeout=0.5) == []
    await consumer.close()


async def test_another_subscription(bootstrap: str, topic: str, group: str, fresh_name: Callable[[], str]) -> None:
    other = fresh_name()
    create(bootstrap, other)
    write(bootstrap, other, ["1"])
    consumer = await member(bootstrap, group, topic)
    await consumer.subscribe([other])
    assert values(await consumer.poll()) == [1]
    await wait_for(lambda: consumer.assignment == {(other, 0)})
    await consumer.close()


def test_without_twisted(bootstrap: str, topic: str, group: str) -> None:
    write(bootstrap, topic, numbered(50), 2)
    with SyncShareConsumer(bootstrap, group=group) as consumer:
        consumer.subscribe([topic])
        seen = []
        for message in consumer:
            seen.append(int(message.value))
            if len(seen) == 50:
                break
        consumer.commit()
        assert consumer.poll(timeout=0.2) == []
    assert sorted(seen) == list(range(50))


async def test_wrong_use(bootstrap: str, topic: str, group: str) -> None:
    with pytest.raises(ConfigError, match="name of a group"):
        ShareConsumer(bootstrap, group="")
    with pytest.raises(ConfigError, match=r"session\.timeout\.ms"):
        ShareConsumer(bootstrap, group=group, session_timeout_ms=1)
    consumer = ShareConsumer(bootstrap, group=group)
    with pytest.raises(ClientError, match="subscribe to topics"):
        consumer.poll()
    with pytest.raises(ConfigError, match="no topics"):
        consumer.subscribe([])
    await consumer.subscribe([topic])
    waiting = consumer.poll(timeout=0.1)
    with pytest.raises(ClientError, match="another poll"):
        consumer.poll()
    assert await waiting == []
    await consumer.close()


async def test_a_broker_without_share_groups(new_broker: Callable[..., Broker], against: str) -> None:
    if against:
        pytest.skip("Kafka 4 has share groups always")
    broker = new_broker({"api.versions.release": "3.9"})
    broker.start()
    create(broker.bootstrap, "t")
    consumer = ShareConsumer(broker.bootstrap, group="g")
    with pytest.raises(KafkaError, match="does not offer share groups"):
        await consumer.subscribe(["t"])
    await consumer.close()
