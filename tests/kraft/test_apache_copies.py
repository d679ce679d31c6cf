"""A member's copy of Apache Kafka's metadata log: Kafka's tools read it, and restarts go on with it."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from tests.kraft.cluster import KraftPlace, QuorumCluster, kraft_own
from tests.kraft.run import RELEASES
from tests.peers.tools import TOOLS, tool
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.process]
OURS, OTHER = 1, 2
SECONDS = 60.0


def with_small_copy(place: KraftPlace) -> BrokerProcess:
    """Make a member that makes snapshots soon."""
    few = {"metadata.log.max.record.bytes.between.snapshots": "3000"}
    return kraft_own(attrs.evolve(place, settings={**place.settings, **few}))


def copy_of(cluster: QuorumCluster, number: int = OURS) -> Path:
    return cluster.members[number].data_dir / "__cluster_metadata-0"


def newest(directory: Path, suffix: str) -> Path:
    return max(directory.glob(f"*{suffix}"))


def dumped(file: Path, release: str) -> str:
    done = tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(file), release=release)
    assert done.stderr.count("Exception") == 0, done.stderr
    return done.stdout


def restored_offset(cluster: QuorumCluster) -> int:
    """Return the end offset of the copy with which the member has started this time."""
    texts = "\n".join(cluster.members[OURS].log_lines())
    assert not re.search("of the cluster's metadata in .*(: removed|: cut|is removed|no copy)", texts)
    [end] = re.findall(r"the copy of the cluster's metadata in \S+ ends at offset (\d+)", texts)
    return int(end)


@pytest.mark.parametrize("release", RELEASES)
def test_tools_read_the_copy_and_restarts_read_the_difference(tmp_path: Path, release: str) -> None:
    with QuorumCluster.on_controllers(tmp_path, [with_small_copy, kraft_own], release) as cluster:
        cluster.create("orders", replicas=[[OURS, OTHER]])
        log = newest(copy_of(cluster, OTHER), ".log")
        wait_until(lambda: b"orders" in log.read_bytes())
        shown = dumped(log, release)
        assert '"type":"TOPIC_RECORD"' in shown
        assert '"name":"orders"' in shown
        assert "isControl: true" in shown

        for number in range(8):
            cluster.create(f"more-{number}", replicas=[[OURS, OTHER], [OTHER, OURS]])
        wait_until(lambda: list(copy_of(cluster).glob("*.checkpoint")), SECONDS)
        assert cluster.stop(OURS) == 0
        check_snapshot(newest(copy_of(cluster), ".checkpoint"), release)

        restored = [int(newest(copy_of(cluster), ".checkpoint").name[:20])]
        for end in (cluster.stop, cluster.kill):
            cluster.create(f"meanwhile-{end.__name__}", replicas=[[OTHER]])
            start(cluster, restored)
            end(OURS)
        start(cluster, restored)
        assert restored == sorted(set(restored))
        cluster.wait_until_in_sync("orders")
    assert not any(cluster.errors.values()), cluster.errors


def start(cluster: QuorumCluster, restored: list[int]) -> None:
    """Start the member; note at which offset it has begun to read, which is behind all that it has read before."""
    cluster.start(OURS)
    wait_until(lambda: {*cluster.states.brokers()} == {OURS, OTHER}, SECONDS, cluster.states.brokers)
    restored.append(restored_offset(cluster))


def check_snapshot(file: Path, release: str) -> None:
    shown = dumped(file, release)
    assert "SnapshotHeader" in shown
    assert "SnapshotFooter" in shown
    names = set(re.findall(r'"type":"TOPIC_RECORD","version":\d,"data":\{"name":"([^"]+)"', shown))
    assert "orders" in names
    if "kafka-metadata-shell" not in TOOLS[release]:
        return
    done = tool("kafka-metadata-shell", "--snapshot", str(file), "find", "/image", timeout=SECONDS, release=release)
    paths = set(done.stdout.split())
    assert {path.split("/")[4] for path in paths if re.fullmatch("/image/topics/byName/[^/]+", path)} == names
    assert {path for path in paths if re.fullmatch("/image/cluster/brokers/[^/]+", path)} == {
        f"/image/cluster/brokers/{number}" for number in (OURS, OTHER)
    }
    assert "/image/topics/byName/orders/0" in paths
    assert "/image/features/metadataVersion" in paths
