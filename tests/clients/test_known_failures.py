"""Failures that users of other small brokers have met, as far as no other module here would notice them.

Elsewhere: offsets by time (test_consume), empty descriptions of settings (test_admin_*), metadata of commits
(test_consume), records above max.message.bytes and without keys (test_produce).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Producer, TopicPartition
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from tests.clients.adapters.aiokafka import in_time
from tests.clients.adapters.base import TIMEOUT
from tests.clients.adapters.confluent import Confluent, consumer, messages, record_of
from tests.clients.admin import create_topic
from tests.clients.members.member_process import Member, until, until_shared
from tests.clients.model import START, Rec
from tests.clients.stored_batches import ask

MEMBERS = 8
EARLIEST, LATEST = -2, -1


def test_many_members_join_and_leave_at_once(bootstrap: str, topic: str, group: str) -> None:
    """No member gets UNKNOWN_MEMBER_ID; every member gets a share."""
    create_topic(bootstrap, topic, MEMBERS)

    async def shared(members: list[AIOKafkaConsumer], share: int) -> None:
        while any(len(each.assignment()) != share for each in members):
            await asyncio.gather(*(each.getmany(timeout_ms=20) for each in members))

    async def run() -> None:
        members = [_member(bootstrap, topic, group) for _ in range(MEMBERS)]
        await asyncio.gather(*(each.start() for each in members))
        try:
            await shared(members, 1)
            await asyncio.gather(*(each.stop() for each in members[: MEMBERS // 2]))
            await shared(members[MEMBERS // 2 :], 2)
            async with _joining(_member(bootstrap, topic, group) for _ in range(MEMBERS // 2)) as late:
                await shared(members[MEMBERS // 2 :] + late, 1)
        finally:
            await asyncio.gather(*(each.stop() for each in members))

    in_time(run())


def _member(bootstrap: str, topic: str, group: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        heartbeat_interval_ms=100,
        retry_backoff_ms=20,
        session_timeout_ms=10_000,
    )


@asynccontextmanager
async def _joining(members: Iterator[AIOKafkaConsumer]) -> AsyncIterator[list[AIOKafkaConsumer]]:
    started = list(members)
    await asyncio.gather(*(each.start() for each in started))
    try:
        yield started
    finally:
        await asyncio.gather(*(each.stop() for each in started))


@pytest.mark.parametrize("kind", ["confluent", "kafka-python"])
def test_member_is_not_stuck_after_many_rebalances(bootstrap: str, topic: str, group: str, kind: str) -> None:
    create_topic(bootstrap, topic, 2)
    stays = Member(kind, bootstrap, group, topic)
    try:
        until_shared([stays], 2)
        for step in range(4):
            comes = Member(kind, bootstrap, group, topic)
            until_shared([stays, comes], 2)
            comes.leave()
            until_shared([stays], 2)
            Confluent().write(bootstrap, topic, [Rec(f"{step}".encode(), partition=each) for each in range(2)])
            until([stays], lambda wanted=str(step): stays.values.count(wanted) >= 2)  # type: ignore[misc]
            stays.commit()
    finally:
        stays.process.kill()


@pytest.mark.parametrize("version", range(1, 10))
def test_offsets_of_a_healthy_topic_in_every_version(bootstrap: str, topic: str, version: int) -> None:
    create_topic(bootstrap, topic)
    Confluent().write(bootstrap, topic, [Rec(b"x", timestamp=START + each) for each in range(5)])

    def at(time: int) -> int:
        one = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(partition_index=0, timestamp=time)
        topics = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[one])]
        answer = ask(bootstrap, ListOffsetsRequest(replica_id=-1, topics=topics), ListOffsetsResponse, version)
        found = answer.topics[0].partitions[0]
        assert found.error_code == 0
        return int(found.offset)

    assert [at(EARLIEST), at(LATEST), at(START + 3), at(START + 5)] == [0, 5, 3, -1]


def test_aborted_records_are_hidden_from_read_committed(
    bootstrap: str, topic: str, fresh_name: Callable[[], str]
) -> None:
    create_topic(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": fresh_name()})
    producer.init_transactions(TIMEOUT)
    for word, finish in (("yes 1", producer.commit_transaction), ("no", producer.abort_transaction)):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, word.encode())
        producer.flush(TIMEOUT)
        finish(TIMEOUT)
    producer.begin_transaction()
    producer.produce(topic, b"yes 2")
    producer.commit_transaction(TIMEOUT)
    assert _values(bootstrap, topic, "read_committed") == [b"yes 1"] * 3 + [b"yes 2"]
    assert _values(bootstrap, topic, "read_uncommitted") == [b"yes 1"] * 3 + [b"no"] * 3 + [b"yes 2"]


def _values(bootstrap: str, topic: str, level: str) -> list[bytes | None]:
    found: list[bytes | None] = []
    with consumer(bootstrap, **{"isolation.level": level, "enable.partition.eof": True}) as reader:
        reader.list_topics(topic, TIMEOUT)
        reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        for message in messages(reader):
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                return found
            found.append(record_of(message).value)
    raise TimeoutError("no end of the partition")
