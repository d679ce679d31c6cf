"""Groups that move to the target of a mirror and back: each record is read once."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pylogbroker.client import AdminClient, ConsumerConnector, Producer
from pylogbroker.mirror.mirror import Mirror
from pylogbroker.mirror.sync_settings import SyncSettings
from pylogbroker.plugins.replication_policies import PrefixPolicy
from pylogbroker.testing import Broker
from tests.mirror.conftest import TwoClusters
from tests.support.reactor_run import wait_for

QUICK = SyncSettings(checkpoints_interval=0.05, topic_settings_interval=0.05, heartbeats_interval=0.05)


def mirror_of(clusters: TwoClusters, topic: str, **others: Any) -> Mirror:
    settings = {"policy": PrefixPolicy(), "sync": QUICK, "commit_interval": 0.05, **others}
    return clusters.mirror(topic, **settings)


async def produce(broker: Broker, topic: str, start: int, stop: int, **settings: Any) -> None:
    producer = Producer(broker.bootstrap, batch_num_messages=3, **settings)
    sent = [producer.send(topic, b"%d" % number, partition=number % 2) for number in range(start, stop)]
    for metadata in sent:
        await metadata
    await producer.close()


async def produce_in_transactions(broker: Broker, topic: str, start: int, stop: int) -> None:
    """Write records in several transactions, every other one of which is aborted first."""
    producer = Producer(broker.bootstrap, transactional_id=f"writer-{topic}")
    for first in range(start, stop, 5):
        for is_committed in (first % 2 == 0, True):
            await producer.begin()
            for number in range(first, min(first + 5, stop)):
                producer.send(topic, b"%d" % number, partition=number % 2)
            await (producer.commit() if is_committed else producer.abort())
            if is_committed:
                break
    await producer.close()


async def read(broker: Broker, group: str, topic: str, count: int, protocol: str = "classic") -> list[int]:
    """Read so many records as the only member of a group, commit, and leave."""
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "isolation_level": "read_committed"}
    quick = {"heartbeat_interval_ms": 100} if protocol == "classic" else {"group_protocol": protocol}
    consumer = ConsumerConnector(broker.bootstrap, group=group, **settings, **quick)
    stream = await consumer.stream(topic)
    values: list[int] = []
    while len(values) < count:
        values += [int(message.value) for message in await stream.get_many(count - len(values))]
    await consumer.commit_offsets()
    await consumer.shutdown()
    return values


@attrs.frozen
class Admins:
    """Admin clients of both clusters."""

    source: AdminClient
    target: AdminClient

    @classmethod
    def of(cls, clusters: TwoClusters) -> Admins:
        return cls(AdminClient(clusters.source.bootstrap), AdminClient(clusters.target.bootstrap))

    async def close(self) -> None:
        await self.source.close()
        await self.target.close()


async def offsets(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    return {partition: committed.offset for partition, committed in (await admin.groups.offsets(group)).items()}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_group_moves_to_the_target_and_back(clusters: TwoClusters, topic: str, protocol: str) -> None:
    group, remote = f"readers-{topic}", f"east.{topic}"
    clusters.source.create_topic(topic, partitions=2)
    await produce_in_transactions(clusters.source, topic, 0, 40)
    mirror = mirror_of(clusters, topic)
    mirror.run()
    values = await read(clusters.source, group, topic, 13, protocol)
    await followed(mirror)
    values += await read(clusters.target, group, remote, 11, protocol)
    await followed(mirror)
    values += await read(clusters.source, group, topic, 9, protocol)
    await produce(clusters.source, topic, 40, 50)
    await followed(mirror)
    values += await read(clusters.target, group, remote, 17, protocol)
    await mirror.stop()
    assert sorted(values) == list(range(50))


async def followed(mirror: Mirror) -> None:
    """Wait until the mirror has caught up, and offsets have followed after that."""
    await mirror.caught_up()
    runs = mirror.group_counts.runs
    await wait_for(lambda: mirror.group_counts.runs > runs + 1, 20)


async def test_new_topics_have_the_settings_of_the_source_at_once(clusters: TwoClusters, topic: str) -> None:
    settings = {"max.message.bytes": "3000000", "cleanup.policy": "compact"}
    clusters.source.create_topic(topic, **settings)
    producer = Producer(clusters.source.bootstrap, max_request_size=2_500_000)
    await producer.send(topic, b"large" * 400_000, b"key")
    await producer.close()
    mirror = mirror_of(clusters, topic, sync=attrs.evolve(QUICK, topic_settings_interval=1000.0))
    mirror.run()
    await wait_for(lambda: mirror.status.counts.records == 1, 20)
    await mirror.stop()
    assert mirror.status.stopped == {}
