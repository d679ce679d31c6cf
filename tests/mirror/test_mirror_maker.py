"""MirrorMaker 2 beside mirrors of ours: its client reads our topics, and each goes on where the other stopped."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from twisted.internet.threads import deferToThread

from pylogbroker.client import AdminClient
from pylogbroker.client.admin import CommittedOffset
from pylogbroker.testing import Broker
from pylogbroker.testing.external import ExternalBroker
from tests.mirror.conftest import TwoClusters
from tests.mirror.test_failover import followed, mirror_of, produce, produce_in_transactions, read
from tests.peers import available
from tests.peers.java import Program
from tests.peers.mirror_maker import MirrorMaker
from tests.peers.tools import tool
from tests.support.brokers import Broker as OtherBroker
from tests.support.reactor_run import wait_for

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")

REMOTE_OFFSETS = Program(Path(__file__).parent / "RemoteOffsets.java", clients="mirror-3.9")


async def test_mirror_client_translates_offsets_and_finds_the_source(clusters: TwoClusters, topic: str) -> None:
    group = f"readers-{topic}"
    clusters.source.create_topic(topic, partitions=2)
    await produce(clusters.source, topic, 0, 30)
    mirror = mirror_of(clusters, f"{topic}|heartbeats")
    mirror.run()
    await mirror.caught_up()
    await produce(clusters.source, topic, 30, 40)
    admin = AdminClient(clusters.source.bootstrap)
    offsets = {(topic, 0): CommittedOffset(17, metadata="seventeen"), (topic, 1): CommittedOffset(20)}
    await admin.groups.alter_offsets(group, offsets)
    await followed(mirror)
    await wait_for(lambda: "east.heartbeats" in clusters.target.topics, 20)
    done = await deferToThread(REMOTE_OFFSETS.run, clusters.target.bootstrap, "east", group)
    await mirror.stop()
    await admin.close()
    copied = clusters.target.records(f"east.{topic}")
    [seventeenth] = [record.offset for record in copied if record.partition == 0 and record.value == b"34"]
    last = max(record.offset for record in copied if record.partition == 1)
    assert done.stdout.splitlines() == [
        "hops 1",
        "upstream [east]",
        f"east.{topic}-0 {seventeenth} seventeen",
        f"east.{topic}-1 {last + 1} ",
    ]


async def test_each_goes_on_where_the_other_one_stopped(clusters: TwoClusters, topic: str, tmp_path: Path) -> None:
    clusters.source.create_topic(topic, partitions=2)
    remote = f"east.{topic}"
    settings = {"east->offline.enabled": "true", "east->offline.topics": topic, "offline->east.enabled": "false"}
    addresses = {"east": clusters.source.bootstrap, "offline": clusters.target.bootstrap}

    def copied() -> list[int]:
        if remote not in clusters.target.topics:
            return []
        return sorted(int(record.value) for record in clusters.target.records(remote, isolation_level="read_committed"))

    async def until_copied(count: int) -> None:
        await wait_for(lambda: len(copied()) >= count, 60, interval=0.2)

    with MirrorMaker(tmp_path, settings, clusters=addresses):
        await produce(clusters.source, topic, 0, 20)
        await until_copied(20)
    await produce(clusters.source, topic, 20, 40)
    mirror = mirror_of(clusters, topic)
    mirror.run()
    await until_copied(40)
    await mirror.stop()
    await produce(clusters.source, topic, 40, 60)
    with MirrorMaker(tmp_path, settings, clusters=addresses):
        await until_copied(60)
    assert copied() == list(range(60))


async def test_console_consumer_of_kafka_4_moves_and_moves_back(clusters: TwoClusters, topic: str) -> None:
    clusters.source.create_topic(topic, partitions=2)
    await produce_in_transactions(clusters.source, topic, 0, 30)
    mirror = mirror_of(clusters, topic)
    mirror.run()

    async def read(broker: Broker, name: str, count: int) -> list[int]:
        arguments = ["--bootstrap-server", broker.bootstrap, "--topic", name, "--group", f"readers-{topic}"]
        options = ["--from-beginning", "--max-messages", str(count), "--isolation-level", "read_committed"]
        consumer = partial(tool, "kafka-console-consumer", *arguments, *options, release="kafka-4.4")
        return [int(line) for line in (await deferToThread(consumer)).stdout.split()]

    values: list[int] = []
    for broker, name, count in [
        (clusters.source, topic, 11),
        (clusters.target, f"east.{topic}", 9),
        (clusters.source, topic, 10),
    ]:
        values += await read(broker, name, count)
        await followed(mirror)
    await mirror.stop()
    assert sorted(values) == list(range(30))


@pytest.mark.parametrize("direction", ["from Kafka 3.9 to 4.4", "from Kafka 4.4 to ours"])
async def test_groups_move_between_clusters_of_kafka(
    direction: str, second_broker: OtherBroker, kafka4: OtherBroker, clusters: TwoClusters, topic: str
) -> None:
    with ExternalBroker(second_broker.bootstrap) as old, ExternalBroker(kafka4.bootstrap) as new:
        pair = TwoClusters(old, new) if direction == "from Kafka 3.9 to 4.4" else TwoClusters(new, clusters.target)
        name = f"{topic}-{uuid4().hex[:8]}"
        pair.source.create_topic(name, partitions=2)
        await produce_in_transactions(pair.source, name, 0, 30)
        mirror = mirror_of(pair, name)
        mirror.run()
        values = await read(pair.source, f"readers-{name}", name, 11)
        await followed(mirror)
        values += await read(pair.target, f"readers-{name}", f"east.{name}", 9)
        await followed(mirror)
        values += await read(pair.source, f"readers-{name}", name, 10)
        await mirror.stop()
    assert sorted(values) == list(range(30))
    assert mirror.status.trouble == ""
