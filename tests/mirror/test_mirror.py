"""Mirrors between two of our clusters."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.logger import capturedLogs, formatEvent

from pylogbroker.client import AdminClient, Producer, SimpleConsumer
from pylogbroker.client.admin import ConfigOperation, ConfigResource, ConfigResourceType, SettingChange
from pylogbroker.client.messages import Message
from pylogbroker.client.sync import AdminClient as SyncAdminClient
from pylogbroker.mirror.errors import MirrorError
from pylogbroker.mirror.mirror import Mirror
from pylogbroker.mirror.positions import Position, position_key, position_value
from pylogbroker.mirror.settings import MirroredCluster, MirrorSettings
from pylogbroker.plugins.replication_policies import PrefixPolicy
from pylogbroker.records import HEADER_V2, LogEntry, entries
from pylogbroker.testing import Broker
from tests.mirror.conftest import TwoClusters, copy_all
from tests.support.reactor_run import wait_for


def contents(messages: list[Message]) -> list[tuple[Any, ...]]:
    """Return what a mirror keeps; offsets are the target's own."""
    rows = [(row.partition, row.timestamp, row.key, row.value, row.headers) for row in messages]
    return sorted(rows, key=lambda row: row[0])  # keeps the order in each partition


def read(broker: Broker, topic: str) -> list[tuple[Any, ...]]:
    return contents(broker.records(topic, isolation_level="read_committed"))


async def produce(broker: Broker, topic: str, start: int, stop: int, **settings: Any) -> None:
    producer = Producer(broker.bootstrap, **settings)
    for number in range(start, stop):
        producer.send(
            topic, b"v%d" % number, b"k%d" % (number % 7), timestamp=1_000_000 + number, headers=[("n", b"%d" % number)]
        )
    await producer.close()


async def test_records_keep_all_but_their_offsets(clusters: TwoClusters, topic: str) -> None:
    clusters.source.create_topic(topic, partitions=3)
    await produce(clusters.source, topic, 0, 500, compression_type="zstd")
    await produce(clusters.source, topic, 500, 600)
    status = await copy_all(clusters.mirror(topic))
    assert clusters.target.topics[topic] == 3
    assert read(clusters.target, topic) == read(clusters.source, topic)
    assert len(read(clusters.target, topic)) == 600
    assert (status.counts.records, status.lag, status.stopped) == (600, 0, {})


async def test_second_run_goes_on_where_the_first_one_ended(clusters: TwoClusters, topic: str) -> None:
    await produce(clusters.source, topic, 0, 100)
    await copy_all(clusters.mirror(topic))
    await produce(clusters.source, topic, 100, 130)
    status = await copy_all(clusters.mirror(topic))
    assert status.counts.records == 30
    assert read(clusters.target, topic) == read(clusters.source, topic)


async def test_running_mirror_follows_new_records_topics_and_partitions(clusters: TwoClusters, topic: str) -> None:
    mirror = clusters.mirror(f"{topic}.*")
    running = mirror.run()
    await produce(clusters.source, topic, 0, 10)
    await wait_for(lambda: topic in clusters.target.topics and len(read(clusters.target, topic)) == 10, 10)
    clusters.source.create_topic(f"{topic}-more", partitions=2)
    await produce(clusters.source, f"{topic}-more", 0, 20)
    await wait_for(lambda: mirror.status.counts.records == 30, 10)
    await grow(clusters.source, f"{topic}-more", 4)
    await wait_for(lambda: clusters.target.topics.get(f"{topic}-more") == 4, 10)
    await produce(clusters.source, f"{topic}-more", 20, 60)
    await wait_for(lambda: mirror.status.counts.records == 70, 10)
    await mirror.stop()
    await running
    for name in (topic, f"{topic}-more"):
        assert read(clusters.target, name) == read(clusters.source, name)


async def grow(broker: Broker, topic: str, partitions: int) -> None:
    admin = AdminClient(broker.bootstrap)
    await admin.topics.add_partitions({topic: partitions})
    await admin.close()


async def test_prefix_policy_and_its_loops(clusters: TwoClusters, topic: str) -> None:
    await produce(clusters.source, topic, 0, 5)
    await copy_all(clusters.mirror(f"(.*\\.)?{topic}", policy=PrefixPolicy()))
    assert clusters.target.topics[f"east.{topic}"] == 1
    back = MirrorSettings(
        MirroredCluster(clusters.target.bootstrap, "offline"),
        MirroredCluster(clusters.source.bootstrap, "east"),
        (f"(.*\\.)?{topic}",),
        policy=PrefixPolicy(),
        sync=None,
    )
    status = await copy_all(Mirror(back, reactor, has_standby=False))
    assert status.counts.records == 0
    assert not [name for name in clusters.source.topics if name.startswith("offline.")]


async def test_same_cluster_with_the_same_names_is_an_error(clusters: TwoClusters) -> None:
    one = MirroredCluster(clusters.source.bootstrap)
    with pytest.raises(MirrorError, match="the same cluster"):
        await copy_all(Mirror(MirrorSettings(one, one), reactor))


async def test_uncommitted_and_aborted_records_are_not_copied(clusters: TwoClusters, topic: str) -> None:
    producer = Producer(clusters.source.bootstrap, transactional_id=topic)
    for commits, value in ((True, b"a"), (False, b"b"), (True, b"c")):
        await producer.begin()
        for number in range(3):
            producer.send(topic, value + b"%d" % number)
        await producer.flush()
        await (producer.commit() if commits else producer.abort())
    await producer.begin()
    producer.send(topic, b"open")
    await producer.flush()
    status = await copy_all(clusters.mirror(topic))
    await producer.close()
    assert [row[3] for row in read(clusters.target, topic)] == [b"a0", b"a1", b"a2", b"c0", b"c1", b"c2"]
    assert status.counts.skipped == 3 + 3  # markers, and aborted records


async def test_batch_too_large_for_the_target_stops_its_topic_alone(clusters: TwoClusters, topic: str) -> None:
    small = clusters.target.create_topic(f"{topic}-small", **{"max.message.bytes": 1000})
    await produce(clusters.source, small, 0, 3)
    await produce(clusters.source, topic, 0, 3)
    producer = Producer(clusters.source.bootstrap)
    await producer.send(small, b"x" * 2000)
    await producer.close()
    mirror = clusters.mirror(f"{topic}.*")
    mirror.run()
    await wait_for(lambda: small in mirror.status.stopped, 10)
    why = mirror.status.stopped[small]
    assert "from offset" in why
    assert f"max.message.bytes of {small}" in why
    await wait_for(lambda: topic in clusters.target.topics and len(read(clusters.target, topic)) == 3, 10)
    await alter(clusters.target, small, "max.message.bytes", "10000")
    await wait_for(lambda: len(read(clusters.target, small)) == 4, 10)
    assert read(clusters.target, small) == read(clusters.source, small)
    await mirror.stop()


async def alter(broker: Broker, topic: str, name: str, value: str) -> None:
    admin = AdminClient(broker.bootstrap)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    await admin.configs.alter({resource: [SettingChange(name, ConfigOperation.SET, value)]})
    await admin.close()


@pytest.mark.parametrize("restarts", [False, True])
async def test_recreated_topic_stops_unless_it_may_restart(clusters: TwoClusters, topic: str, restarts: bool) -> None:
    await produce(clusters.source, topic, 0, 10)
    await copy_all(clusters.mirror(topic))
    clusters.source.delete_topic(topic)
    await produce(clusters.source, topic, 100, 104)
    status = await copy_all(clusters.mirror(topic, restart_recreated=restarts))
    values = [row[3] for row in read(clusters.target, topic)]
    if restarts:
        assert values[10:] == [b"v100", b"v101", b"v102", b"v103"]
    else:
        assert "deleted and created again" in status.stopped[topic]
        assert len(values) == 10


async def test_records_that_the_source_deletes_while_the_mirror_is_down_are_reported(
    clusters: TwoClusters, topic: str
) -> None:
    await produce(clusters.source, topic, 0, 10)
    await copy_all(clusters.mirror(topic))
    await produce(clusters.source, topic, 10, 20)
    admin = AdminClient(clusters.source.bootstrap)
    await admin.records.delete({(topic, 0): 15})
    await admin.close()
    with capturedLogs() as lines:
        status = await copy_all(clusters.mirror(topic))
    assert [row[3] for row in read(clusters.target, topic)] == [b"v%d" % n for n in (*range(10), *range(15, 20))]
    assert status.lost == {topic: 5}
    assert any("records were lost" in formatEvent(line) for line in lines)


async def test_without_transactions(clusters: TwoClusters, topic: str) -> None:
    await produce(clusters.source, topic, 0, 50)
    await copy_all(clusters.mirror(topic, exactly_once=False))
    await produce(clusters.source, topic, 50, 60)
    await copy_all(clusters.mirror(topic, exactly_once=False))
    assert read(clusters.target, topic) == read(clusters.source, topic)


async def test_unreachable_cluster_is_named(clusters: TwoClusters) -> None:
    settings = MirrorSettings(
        MirroredCluster(clusters.source.bootstrap, "east"),
        MirroredCluster("127.0.0.1:1", "offline", {"bootstrap.connect.max.ms": "100"}),
    )
    with pytest.raises(MirrorError, match="the target offline"):
        await copy_all(Mirror(settings, reactor))


async def test_mirror_that_waits_for_a_cluster_stops_at_once(clusters: TwoClusters) -> None:
    for source, target in [("127.0.0.1:1", clusters.target.bootstrap), (clusters.source.bootstrap, "127.0.0.1:1")]:
        mirror = Mirror(MirrorSettings(MirroredCluster(source, "east"), MirroredCluster(target, "offline")), reactor)
        ended = mirror.run()
        await deferLater(reactor, 0)
        await mirror.stop().addTimeout(20, reactor)  # the clusters' own limit is a minute
        await ended


def back(clusters: TwoClusters, topic: str) -> Mirror:
    """Return a mirror in the other direction, which keeps names."""
    settings = MirrorSettings(
        MirroredCluster(clusters.target.bootstrap, "offline"),
        MirroredCluster(clusters.source.bootstrap, "east"),
        (topic,),
        commit_interval=0.0,
        refresh_interval=0.05,
    )
    return Mirror(settings, reactor, has_standby=False)


async def test_topic_with_the_same_name_is_not_mirrored_back(clusters: TwoClusters, topic: str) -> None:
    await produce(clusters.source, topic, 0, 10)
    await copy_all(clusters.mirror(topic))
    status = await copy_all(back(clusters, topic))
    assert "would go round in a loop" in status.stopped[topic]
    assert "mm2-offsets.east.internal" in status.stopped[topic]
    assert len(read(clusters.source, topic)) == 10
    await produce(clusters.source, topic, 10, 12)
    await copy_all(clusters.mirror(topic))  # the other direction has left no claim that would stop this one
    assert read(clusters.target, topic) == read(clusters.source, topic)


async def test_topic_without_an_id_is_not_mirrored_back(topic: str) -> None:
    with Broker() as source, Broker() as target:
        for broker in (source, target):
            broker.faults.cap_versions(Metadata=9)  # Kafka before 2.8
        clusters = TwoClusters(source, target)
        await produce(source, topic, 0, 10)
        await copy_all(clusters.mirror(topic))
        other = MirrorSettings(
            MirroredCluster(target.bootstrap, "one"), MirroredCluster(source.bootstrap, "two"), (topic,), sync=None
        )
        status = await copy_all(Mirror(other, reactor, has_standby=False))
        assert "would go round in a loop" in status.stopped[topic]
        assert len(read(source, topic)) == 10
        renamed = MirroredCluster(source.bootstrap, "other")
        again = MirrorSettings(renamed, MirroredCluster(target.bootstrap, "offline"), (topic,), sync=None)
        status = await copy_all(Mirror(again, reactor, has_standby=False))
        assert "by mm2-offsets.east.internal" in status.stopped[topic]


async def test_copy_with_another_name_does_not_stop_one_with_the_same_name(clusters: TwoClusters, topic: str) -> None:
    await produce(clusters.source, topic, 0, 10)
    target = MirroredCluster(clusters.target.bootstrap, "offline")
    prefixed = MirroredCluster(clusters.source.bootstrap, f"first-{topic}")
    settings = MirrorSettings(prefixed, target, (topic,), policy=PrefixPolicy(), sync=None)
    await copy_all(Mirror(settings, reactor, has_standby=False))
    status = await copy_all(clusters.mirror(topic))
    assert status.stopped == {}
    assert read(clusters.target, topic) == read(clusters.source, topic)


async def test_topic_of_mirror_maker_is_not_mirrored_back(clusters: TwoClusters, topic: str) -> None:
    await produce(clusters.source, topic, 0, 10)
    await produce(clusters.target, topic, 0, 10)
    producer = Producer(clusters.target.bootstrap)
    await producer.send("mm2-offsets.west.internal", position_value(Position(10)), position_key("west", topic, 0))
    await producer.close()
    settings = MirrorSettings(
        MirroredCluster(clusters.target.bootstrap, "offline"),
        MirroredCluster(clusters.source.bootstrap, "west"),
        (topic,),
    )
    status = await copy_all(Mirror(settings, reactor, has_standby=False))
    assert "mm2-offsets.west.internal" in status.stopped[topic]


async def test_two_mirrors_in_both_directions_that_start_together(clusters: TwoClusters, topic: str) -> None:
    clusters.source.create_topic(topic)
    clusters.target.create_topic(topic)
    mirrors = [clusters.mirror(topic), back(clusters, topic)]
    running = [mirror.run() for mirror in mirrors]
    await wait_for(lambda: any(mirror.status.stopped for mirror in mirrors), 10)
    await produce(clusters.source, topic, 0, 10)
    await produce(clusters.target, topic, 10, 20)
    await wait_for(lambda: all(mirror.status.is_caught_up for mirror in mirrors), 10)
    for mirror, ended in zip(mirrors, running, strict=True):
        await mirror.stop()
        await ended
    for broker in (clusters.source, clusters.target):
        values = [row[3] for row in read(broker, topic)]
        assert len(values) == len(set(values))


async def test_source_with_another_alias_is_not_copied_again(clusters: TwoClusters, topic: str) -> None:
    await produce(clusters.source, topic, 0, 10)
    await copy_all(clusters.mirror(topic))
    source = MirroredCluster(clusters.source.bootstrap, "other")
    settings = MirrorSettings(source, MirroredCluster(clusters.target.bootstrap, "offline"), (topic,))
    status = await copy_all(Mirror(settings, reactor, has_standby=False))
    assert "by mm2-offsets.east.internal" in status.stopped[topic]
    assert len(read(clusters.target, topic)) == 10


async def test_second_process_stands_by_and_takes_over(clusters: TwoClusters, topic: str) -> None:
    await produce(clusters.source, topic, 0, 10)
    first, second = (Mirror(clusters.settings(topic), reactor) for _ in range(2))
    first_ended = first.run()
    await first.caught_up()
    second_ended = second.run()
    await wait_for(lambda: len(members(clusters, first)) == 2, 20)
    await produce(clusters.source, topic, 10, 20)
    await wait_for(lambda: len(read(clusters.target, topic)) == 20, 10)
    assert (first.status.is_active, second.status.is_active) == (True, False)
    await first.stop()
    await first_ended
    await produce(clusters.source, topic, 20, 30)
    await wait_for(lambda: len(read(clusters.target, topic)) == 30, 20)
    assert second.status.counts.records == 10
    await second.stop()
    await second_ended
    assert read(clusters.target, topic) == read(clusters.source, topic)


def members(clusters: TwoClusters, mirror: Mirror) -> list[str]:
    status = mirror.status
    name = f"pylogbroker-mirror.{status.source}.{status.target}"
    with SyncAdminClient(clusters.target.bootstrap) as admin:
        return [member.member_id for member in admin.groups.describe([name])[name].members]


async def test_compressed_batches_have_the_same_bytes_in_both_logs(clusters: TwoClusters, topic: str) -> None:
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        await produce(clusters.source, topic, 0, 100, compression_type=codec)
    await copy_all(clusters.mirror(topic))
    payloads = [
        [entry.buffer[HEADER_V2.size :].tobytes() for entry in await fetched(broker, topic)]
        for broker in (clusters.source, clusters.target)
    ]
    expected = payloads[0]
    assert len(expected) >= 4
    assert payloads[1] == expected


async def fetched(broker: Broker, topic: str) -> list[LogEntry]:
    """Return the entries of a topic's first partition as a broker sends them, without markers."""
    host, _, port = broker.bootstrap.rpartition(":")
    consumer = SimpleConsumer(host, int(port))
    rows: list[LogEntry] = []
    offset = 0
    while True:
        messages = await consumer.fetch(topic, 0, offset)
        rows += [entry for entry in entries(messages.data, partial=True) if not entry.is_control]
        if messages.next_offset == offset:
            break
        offset = messages.next_offset
    await consumer.close()
    return rows


async def test_topic_that_is_deleted_in_the_target_is_created_again(clusters: TwoClusters, topic: str) -> None:
    await produce(clusters.source, topic, 0, 10)
    mirror = clusters.mirror(topic)
    ended = mirror.run()
    await mirror.caught_up()
    clusters.target.delete_topic(topic)
    await produce(clusters.source, topic, 10, 15)
    await wait_for(lambda: topic in clusters.target.topics and len(read(clusters.target, topic)) == 5, 20)
    await mirror.stop()
    await ended
    assert [row[3] for row in read(clusters.target, topic)] == [b"v%d" % number for number in range(10, 15)]


async def test_clusters_of_several_brokers(topic: str) -> None:
    with Broker(brokers=2) as source, Broker(brokers=2) as target:
        clusters = TwoClusters(source, target)
        source.create_topic(topic, partitions=6)
        await produce(source, topic, 0, 300, compression_type="lz4")
        assert (await copy_all(clusters.mirror(topic))).counts.records == 300
        assert read(target, topic) == read(source, topic)
