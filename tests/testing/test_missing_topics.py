"""Topics that do not exist: the error comes after a few questions, not after the time of a client's retries."""

from __future__ import annotations

import pytest

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.testing import Broker, MemoryBroker
from pylogbroker.testing.external import ExternalBroker

QUESTIONS_MAX = 16
"""Requests for metadata of one call, of a cluster of three; before, some 200 came in 24 seconds."""


@pytest.mark.parametrize("count", [1, 3])
def test_records_of_a_missing_topic(count: int) -> None:
    with Broker(brokers=count) as broker:
        check_records_of_a_missing_topic(broker)


def check_records_of_a_missing_topic(broker: Broker) -> None:
    """Ask the broker, and again as one that runs elsewhere."""
    broker.create_topic("orders")
    with ExternalBroker(broker.bootstrap) as external:
        for each in (broker, external):
            broker.requests.clear()
            with pytest.raises(KafkaError, match=r"there is no topic order; did you mean orders\?") as error:
                each.records("order")
            assert error.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert len(broker.requests.of("Metadata")) <= QUESTIONS_MAX
    assert broker.topics == {"orders": 1}, "the question creates no topic"


def test_records_of_a_missing_topic_while_a_broker_is_down() -> None:
    with Broker(brokers=3) as broker:
        broker.down(1)
        broker.requests.clear()  # of the wait until the brokers are up
        with pytest.raises(KafkaError, match="there is no topic nosuch"):
            broker.records("nosuch")
        assert len(broker.requests.of("Metadata")) <= QUESTIONS_MAX


def test_records_of_a_missing_topic_in_memory() -> None:
    with MemoryBroker() as broker:
        before = broker.clock.seconds()
        with pytest.raises(KafkaError, match="there is no topic nosuch"):
            broker.records("nosuch")
        assert broker.clock.seconds() - before < 1


def test_records_to_a_topic_that_nobody_creates() -> None:
    with Broker(auto_create_topics_enable=False) as broker:
        broker.create_topic("orders")
        assert broker.produce("orders", "tea") == [0]
        broker.requests.clear()
        expected = r"there is no topic order; did you mean orders\? \(auto\.create\.topics\.enable is false\)"
        with pytest.raises(KafkaError, match=expected):
            broker.produce("order", "tea")
        assert len(broker.requests.of("Metadata")) <= QUESTIONS_MAX


def test_a_topic_that_one_broker_does_not_know_yet() -> None:
    """The other one does, so the first is asked again."""
    with Broker(brokers=2) as broker:
        broker.create_topic("orders", 2)
        broker.produce("orders", "tea", partition=0)
        with broker.faults.add("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", topic="orders", times=3) as fault:
            assert [each.value for each in broker.records("orders")] == [b"tea"]
            assert fault.hits == 3
