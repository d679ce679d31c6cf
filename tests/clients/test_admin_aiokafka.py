"""aiokafka's admin client, which speaks older versions of the APIs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import OffsetAndMetadata

from tests.clients.adapters.aiokafka import AioKafka, admin, in_time
from tests.clients.admin import create_topic
from tests.clients.model import Rec


def ask(bootstrap: str, work: Callable[[AIOKafkaAdminClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with admin(bootstrap) as client:
            await work(client)

    in_time(run())


def test_topics_are_created_described_and_deleted(bootstrap: str, topic: str) -> None:
    async def work(client: AIOKafkaAdminClient) -> None:
        created = await client.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "123456"})])
        assert [each[1] for each in created.topic_errors] == [0]
        described = await client.describe_topics([topic])
        assert len(described[0]["partitions"]) == 2
        assert topic in await client.list_topics()
        deleted = await client.delete_topics([topic])
        assert [each[1] for each in deleted.topic_error_codes] == [0]

    ask(bootstrap, work)


def test_partitions_are_added(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    async def work(client: AIOKafkaAdminClient) -> None:
        answer = await client.create_partitions({topic: NewPartitions(3)})
        assert [each[1] for each in answer.topic_errors] == [0]

    ask(bootstrap, work)
    AioKafka().write(bootstrap, topic, [Rec(b"x", partition=2)])


def test_settings_are_described_and_altered(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, configs={"retention.ms": "123456"})

    async def retention(client: AIOKafkaAdminClient) -> str:
        (answer,) = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        entries = {each[0]: each[1] for each in answer.resources[0][4]}
        assert len(entries) > 20
        return str(entries["retention.ms"])

    async def work(client: AIOKafkaAdminClient) -> None:
        assert await retention(client) == "123456"
        change = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "98765"})
        (answer,) = await client.alter_configs([change])
        assert answer.resources[0][0] == 0
        while await retention(client) != "98765":
            continue  # until the broker that is asked has heard of it

    ask(bootstrap, work)


def test_cluster_is_described(bootstrap: str) -> None:
    async def work(client: AIOKafkaAdminClient) -> None:
        cluster = await client.describe_cluster()
        (one,) = cluster["brokers"]
        assert f"{one['host']}:{one['port']}" == bootstrap

    ask(bootstrap, work)


def test_groups_are_listed_and_described(bootstrap: str, topic: str, group: str) -> None:
    create_topic(bootstrap, topic)
    AioKafka().commit(bootstrap, group, topic, 0, 3, "drei")

    async def work(client: AIOKafkaAdminClient) -> None:
        assert group in [each[0] for each in await client.list_consumer_groups()]
        (answer,) = await client.describe_consumer_groups([group])
        (described,) = answer.groups
        assert (described[0], described[1], described[2]) == (0, group, "Empty")
        offsets = await client.list_consumer_group_offsets(group)
        assert offsets[TopicPartition(topic, 0)] == OffsetAndMetadata(3, "drei")

    ask(bootstrap, work)


def test_records_are_deleted(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    AioKafka().write(bootstrap, topic, [Rec(str(number).encode()) for number in range(5)])

    async def work(client: AIOKafkaAdminClient) -> None:
        partition = TopicPartition(topic, 0)
        assert await client.delete_records({partition: RecordsToDelete(before_offset=3)}) == {partition: 3}

    ask(bootstrap, work)
    assert [record.offset for record in AioKafka().read(bootstrap, topic, [0])] == [3, 4]
