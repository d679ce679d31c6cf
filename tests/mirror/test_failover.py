"""Groups that move to the target of a mirror and back: each record is read once."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from twisted.internet import reactor
from twisted.logger import capturedLogs, formatEvent

from pylogbroker.client import ConsumerConnector, Producer
from pylogbroker.client.sync import AdminClient
from pylogbroker.mirror.mirror import Mirror
from pylogbroker.mirror.settings import MirroredCluster
from pylogbroker.mirror.sync_settings import SyncSettings
from pylogbroker.mirror_records.formats import Checkpoint, OffsetSync
from pylogbroker.plugins.replication_policies import PrefixPolicy
from pylogbroker.testing import Broker
from tests.mirror.conftest import TwoClusters
from tests.support.reactor_run import wait_for

QUICK = SyncSettings(checkpoints_interval=0.05, topic_settings_interval=0.05, heartbeats_interval=0.05)


def mirror_of(clusters: TwoClusters, topic: str, **others: Any) -> Mirror:
    settings = {"policy": PrefixPolicy(), "sync": QUICK, "commit_interval": 0.05, **others}
    return clusters.mirror(topic, **settings)


async def produce(broker: Broker, topic: str, start: int, stop: int, partitions: int = 2, **settings: Any) -> None:
    producer = Producer(broker.bootstrap, batch_num_messages=3, **settings)
    sent = [producer.send(topic, b"%d" % number, partition=number % partitions) for number in range(start, stop)]
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


async def read(
    broker: Broker, group: str, topic: str, count: int, protocol: str = "classic", reset: str = "earliest"
) -> list[int]:
    """Read so many records as the only member of a group, commit, and leave."""
    settings = {"auto_offset_reset": reset, "enable_auto_commit": False, "isolation_level": "read_committed"}
    quick = {"heartbeat_interval_ms": 100} if protocol == "classic" else {"group_protocol": protocol}
    consumer = ConsumerConnector(broker.bootstrap, group=group, **settings, **quick)
    stream = await consumer.stream(topic)
    values: list[int] = []
    while len(values) < count:
        values += [int(message.value) for message in await stream.get_many(count - len(values))]
    await consumer.commit_offsets()
    await consumer.shutdown()
    return values


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


async def test_group_that_moves_back_has_a_checkpoint_in_the_source(clusters: TwoClusters, topic: str) -> None:
    group, remote = f"readers-{topic}", f"east.{topic}"
    await produce(clusters.source, topic, 0, 20, partitions=1)
    await read(clusters.source, group, topic, 5)
    for count in (7, 0):
        mirror = mirror_of(clusters, topic, sync=attrs.evolve(QUICK, checkpoints_interval=1000.0))
        mirror.run()
        await mirror.caught_up()
        await mirror.stop()
        if count:
            await read(clusters.target, group, remote, count)
    stored = [Checkpoint.decode(row.key, row.value) for row in clusters.source.records("offline.checkpoints.internal")]
    [checkpoint] = [checkpoint for checkpoint in stored if checkpoint.group == group]
    assert (checkpoint.topic, checkpoint.partition, checkpoint.downstream) == (topic, 0, 12)


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


def last_synced(source: Broker, syncs: str, topic: str) -> int:
    """Return the last offset of the source that each partition of a topic has a stored offset sync for."""
    rows = [OffsetSync.decode(row.key, row.value) for row in source.records(syncs)]
    return min(
        max((row.upstream for row in rows if (row.topic, row.partition) == (topic, number)), default=-1)
        for number in (0, 1)
    )


async def test_group_far_behind_skips_nothing_after_old_offset_syncs_are_gone(
    clusters: TwoClusters, topic: str
) -> None:
    group, remote = f"readers-{topic}", f"east.{topic}"
    clusters.source.create_topic(topic, partitions=2)
    target = MirroredCluster(clusters.target.bootstrap, f"compacted-{topic}")
    settings = attrs.evolve(clusters.settings(topic, policy=PrefixPolicy(), sync=QUICK), target=target)
    syncs = f"mm2-offset-syncs.{target.alias}.internal"
    mirror = Mirror(settings, reactor, has_standby=False)
    mirror.run()
    for first in (0, 20, 40):  # each position has the runs alone that are not stored yet
        await produce_in_transactions(clusters.source, topic, first, first + 20)
        await wait_for(lambda first=first: mirror.status.counts.records == first + 20, 20)
        await wait_for(lambda first=first: last_synced(clusters.source, syncs, topic) >= first, 20)
    await mirror.stop()
    with AdminClient(clusters.source.bootstrap) as admin:
        admin.topics.delete([syncs])
        admin.groups.alter_offsets(group, {(topic, 0): 1, (topic, 1): 1})
    mirror = Mirror(settings, reactor, has_standby=False)
    mirror.run()
    await followed(mirror)
    await mirror.stop()
    values = await read(clusters.target, group, remote, 60, reset="latest")
    assert sorted(values) == list(range(60))


async def test_offsets_are_exact_after_a_restart_of_the_mirror(clusters: TwoClusters, topic: str) -> None:
    group, remote = f"readers-{topic}", f"east.{topic}"
    clusters.source.create_topic(topic, partitions=2)
    values: list[int] = []
    for first in range(0, 60, 20):
        await produce_in_transactions(clusters.source, topic, first, first + 20)
        mirror = mirror_of(clusters, topic)
        mirror.run()
        await followed(mirror)
        await mirror.stop()
    values += await read(clusters.source, group, topic, 7)
    mirror = mirror_of(clusters, topic)
    mirror.run()
    await followed(mirror)
    values += await read(clusters.target, group, remote, 8)
    await mirror.stop()
    mirror = mirror_of(clusters, topic)
    mirror.run()
    await followed(mirror)
    await mirror.stop()
    values += await read(clusters.source, group, topic, 45)
    assert sorted(values) == list(range(60))


async def test_a_mirror_that_stops_lets_groups_follow_its_last_records(clusters: TwoClusters, topic: str) -> None:
    group, remote = f"readers-{topic}", f"east.{topic}"
    clusters.source.create_topic(topic, partitions=2)
    await produce(clusters.source, topic, 0, 20)
    values = await read(clusters.source, group, topic, 20)
    mirror = mirror_of(clusters, topic, sync=attrs.evolve(QUICK, checkpoints_interval=1000.0))
    mirror.run()
    await mirror.caught_up()
    await mirror.stop()
    await produce(clusters.source, topic, 20, 30)
    mirror = mirror_of(clusters, topic, sync=None)
    mirror.run()
    await wait_for(lambda: mirror.status.counts.records == 10, 20)
    await mirror.stop()
    values += await read(clusters.target, group, remote, 10)
    assert sorted(values) == list(range(30))


async def test_members_in_both_clusters_keep_their_offsets(clusters: TwoClusters, topic: str) -> None:
    group, remote = f"readers-{topic}", f"east.{topic}"
    clusters.source.create_topic(topic, partitions=2)
    await produce(clusters.source, topic, 0, 20)
    mirror = mirror_of(clusters, topic)
    mirror.run()
    await mirror.caught_up()
    consumers = []
    for broker, name in ((clusters.source, topic), (clusters.target, remote)):
        consumer = ConsumerConnector(
            broker.bootstrap, group=group, auto_offset_reset="earliest", heartbeat_interval_ms=100
        )
        consumers.append(consumer)
        stream = await consumer.stream(name)
        await stream.get_many(1)
    await consumers[0].commit_offsets({(topic, 0): 9})
    await consumers[1].commit_offsets({(remote, 0): 3})
    await followed(mirror)
    assert (await consumers[0].committed([(topic, 0)]))[topic, 0] == 9
    assert (await consumers[1].committed([(remote, 0)]))[remote, 0] == 3
    for consumer in consumers:
        await consumer.shutdown()
    await mirror.stop()


async def test_records_are_mirrored_without_the_rights_for_what_follows(clusters: TwoClusters) -> None:
    acls = ["mirror read topic:orders", "ann write topic:orders"]
    with Broker(users={"mirror": "secret", "ann": "secret"}, acls=acls) as source, capturedLogs() as lines:
        source.create_topic("orders")
        await produce(source, "orders", 0, 10, partitions=1, settings=source.client_settings("ann"))
        login = source.client_settings("mirror")
        guarded = MirroredCluster(source.bootstrap, "guarded", login)
        settings = attrs.evolve(clusters.settings("orders", sync=QUICK), source=guarded)
        mirror = Mirror(settings, reactor, has_standby=False)
        mirror.run()
        await wait_for(lambda: mirror.status.counts.records == 10 and mirror.group_counts.runs > 2, 60)
        await mirror.stop()
    shown = [formatEvent(line) for line in lines if line["log_level"].name == "warn"]
    [failed] = [line for line in shown if "guarded->offline: reading offset syncs failed" in line]
    assert "the mirror's user lacks a right for it, records are mirrored nevertheless" in failed
