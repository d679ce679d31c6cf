"""Consumers whose topic is not there: yet, or ever."""

from __future__ import annotations

import pytest

from pylogbroker.client import ConsumerConnector, Producer
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.errors import error_of
from tests.support.brokers import Broker


def connect(broker: Broker, group: str, **settings: object) -> ConsumerConnector:
    return ConsumerConnector(broker.bootstrap, group=group, auto_offset_reset="earliest", **settings)


async def test_a_topic_that_is_made_while_it_is_waited_for(broker: Broker, topic: str, group: str) -> None:
    connector = connect(broker, group, allow_auto_create_topics=False)
    [stream] = (await connector.create_message_streams({topic: 1}))[topic]
    producer = Producer(broker.bootstrap)
    await producer.send(topic, b"first")
    await producer.close()
    [message] = await stream.get_many(timeout=120)
    assert message.value == b"first"
    await connector.shutdown()


async def test_a_name_that_no_topic_can_have(broker: Broker, topic: str, group: str) -> None:
    connector = connect(broker, group)
    with pytest.raises(KafkaError, match="no/such") as caught:
        await connector.create_message_streams({"no/such": 1})
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert list(await connector.create_message_streams({topic: 1})) == [topic]  # it can be done better
    await connector.shutdown()


async def test_readers_learn_once_that_a_topic_became_unauthorized(
    broker: Broker, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = connect(broker, group)
    [stream] = (await connector.create_message_streams({topic: 1}))[topic]
    rejected = error_of(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    monkeypatch.setattr(connector._cluster, "error_of_topic", lambda name: rejected if name == topic else None)
    waiting = stream.get_many(timeout=120)
    for _ in range(2):
        await connector._cluster.refresh()
    with pytest.raises(KafkaError) as caught:
        await waiting
    assert caught.value is rejected
    assert await stream.get_many(timeout=0.1) == []
    await connector.shutdown()
