"""The client's foundations against running brokers: ours and Apache Kafka."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.defer import gatherResults

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.coordinator_requests import CoordinatorType, broker_of
from pylogbroker.client.errors import ConnectionLost, NotConnected, RequestTimedOut
from pylogbroker.client.settings import CLIENT, read
from pylogbroker.client.sources import StaticBrokers
from pylogbroker.errors import KafkaError, PylogbrokerError
from pylogbroker.records import Record, build
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.metadata import MetadataRequest
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.brokers import Broker


@asynccontextmanager
async def cluster_of(bootstrap: str, **settings: Any) -> AsyncIterator[Cluster]:
    cluster = Cluster(reactor, read(CLIENT, None, **settings), StaticBrokers(bootstrap))
    try:
        yield cluster
    finally:
        await cluster.close()


def produce(topic: str, records: Any, acks: int = -1) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=60_000, topic_data=[TopicProduceData(name=topic, partition_data=[partition])]
    )


def batch(size: int) -> bytes:
    return bytes(build([Record(offset=0, key=None, value=os.urandom(size), timestamp=1_700_000_000_000)]))


async def test_a_topic_is_created_written_and_read(broker: Broker, topic: str) -> None:
    async with cluster_of(broker.bootstrap) as cluster:
        leader = await cluster.find_leader(topic, 0)
        assert cluster.leader_of(topic, 0) == leader
        assert cluster.partitions_of(topic) == 1
        sent = [batch(700_000) for _ in range(4)]
        answers = await gatherResults([cluster.send(leader, produce(topic, memoryview(each))) for each in sent])
        found = [answer.responses[0].partition_responses[0] for answer in answers]
        assert [(each.error_code, each.base_offset) for each in found] == [(0, 0), (0, 1), (0, 2), (0, 3)]
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10**7)
        request = FetchRequest(max_wait_ms=5000, min_bytes=1, max_bytes=10**7)
        request.topics = [FetchTopic(topic=topic, partitions=[partition])]
        answer = await cluster.send(leader, request, version=4)
        records = answer.responses[0].partitions[0].records
        assert len(records) == sum(map(len, sent))
        start = 0
        for each in sent:  # all but the offsets and the leader epoch, which the broker fills in
            assert bytes(records[start + 17 : start + len(each)]) == each[17:]
            start += len(each)


async def test_requests_that_are_not_answered(broker: Broker, topic: str) -> None:
    async with cluster_of(broker.bootstrap) as cluster:
        leader = await cluster.find_leader(topic, 0)
        for _ in range(3):
            assert await cluster.send(leader, produce(topic, batch(10), acks=0), expect_answer=False) is None
        answer = await cluster.send(leader, produce(topic, batch(10)))
        assert answer.responses[0].partition_responses[0].base_offset == 3


async def test_all_topics_and_a_new_one(broker: Broker, fresh_name: Callable[[], str]) -> None:
    async with cluster_of(broker.bootstrap) as cluster:
        first, second = fresh_name(), fresh_name()
        await cluster.find_topic(first)
        assert first in await cluster.all_topics()
        assert second not in await cluster.all_topics()
        await cluster.find_topic(second)
        assert {first, second} <= set(await cluster.all_topics())


async def test_a_topic_may_not_be_created(broker: Broker, fresh_name: Callable[[], str]) -> None:
    name = fresh_name()
    for limit_ms in (300, 3000, 60_000):  # no broker may have answered before the first one
        never = {"allow_auto_create_topics": False, "default_api_timeout_ms": limit_ms}
        async with cluster_of(broker.bootstrap, **never) as cluster:
            with pytest.raises(PylogbrokerError) as caught:
                await cluster.find_topic(name)
        if isinstance(caught.value, KafkaError):
            break
    assert isinstance(caught.value, KafkaError)
    assert name in str(caught.value)
    async with cluster_of(broker.bootstrap) as cluster:
        assert name not in await cluster.all_topics()


async def test_coordinators(broker: Broker, group: str) -> None:
    async with cluster_of(broker.bootstrap) as cluster:
        await cluster.refresh()
        node = await cluster.coordinator(group, CoordinatorType.GROUP)
        assert broker_of(node) in cluster.brokers()
        assert (await cluster.send(node, ListGroupsRequest())).error_code == 0
        assert await cluster.coordinator("some-transactions", CoordinatorType.TRANSACTION) in cluster.brokers()


async def test_every_version_that_both_know(broker: Broker) -> None:
    async with cluster_of(broker.bootstrap) as cluster:
        await cluster.refresh()
        (node,) = cluster.brokers()
        for version in range(await cluster.find_version(node, MetadataRequest) + 1):
            answer = await cluster.send(node, MetadataRequest(topics=[]), version=version)
            assert [each.node_id for each in answer.brokers] == [node]


async def test_an_answer_that_is_late(broker: Broker, topic: str) -> None:
    async with cluster_of(broker.bootstrap) as cluster:
        leader = await cluster.find_leader(topic, 0)
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(max_wait_ms=20_000, min_bytes=1, max_bytes=1000)
        request.topics = [FetchTopic(topic=topic, partitions=[partition])]
        with pytest.raises(RequestTimedOut):
            await cluster.send(leader, request, version=4, timeout=0.2)
        answer = await cluster.send(leader, produce(topic, batch(10)))  # over a new connection
        assert answer.responses[0].partition_responses[0].error_code == 0


async def test_a_broker_is_killed_and_started_again(new_broker: Callable[..., Broker], topic: str) -> None:
    running = new_broker()
    running.start()
    async with cluster_of(running.bootstrap, reconnect_backoff_max_ms=200) as cluster:
        leader = await cluster.find_leader(topic, 0)
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(max_wait_ms=20_000, min_bytes=1, max_bytes=1000)
        request.topics = [FetchTopic(topic=topic, partitions=[partition])]
        await cluster.coordinator("g", CoordinatorType.GROUP)
        waiting = cluster.send(leader, request, version=4)
        running.kill()
        with pytest.raises(ConnectionLost):
            await waiting
        cluster.leader_is_stale(topic, 0)
        with pytest.raises(NotConnected):
            await cluster.send(leader, produce(topic, batch(10)))
        finding = cluster.refresh()
        with pytest.raises(Exception, match="cannot connect"):
            await finding
        running.start()
        assert await cluster.find_leader(topic, 0) == leader
        answer = await cluster.send(leader, produce(topic, batch(10)))
        assert answer.responses[0].partition_responses[0].error_code == 0
        cluster.forget_coordinator("g", CoordinatorType.GROUP)
        assert broker_of(await cluster.coordinator("g", CoordinatorType.GROUP)) == leader
