"""Members' copies of the metadata log: starts that read the difference, snapshots, and disks that fail."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from click.testing import CliRunner
from twisted.logger import capturedLogs, eventAsText

from pylogbroker.broker.kraft.role import KraftRole
from pylogbroker.cli import main
from pylogbroker.errors import StartupError
from pylogbroker.metadata.zk_schema import id_text
from pylogbroker.storage.metadata.directory import MetadataDirectory
from pylogbroker.testing import Broker
from pylogbroker.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from pylogbroker.wire.messages.broker_registration import BrokerRegistrationRequest
from pylogbroker.wire.messages.fetch import FetchRequest
from pylogbroker.wire.messages.fetch_snapshot import FetchSnapshotRequest
from tests.kraft.model_controller import CLUSTER_ID, CONTROLLER_ID, ModelController
from tests.kraft.served import served_controller
from tests.kraft.test_members import CONTROLLER, Cluster
from tests.support.waiting import wait_until

COPY = "__cluster_metadata-0"
DISK_CALLS = ("open", "pwritev", "pread", "fsync", "replace", "unlink", "listdir", "makedirs")
NEVER = {"metadata_log_max_snapshot_interval_ms": "0"}
SOON = {"metadata_log_max_record_bytes_between_snapshots": "600", **NEVER}


def copy_of(cluster: Cluster, number: int = 1) -> Path:
    return cluster.directory / str(number) / COPY


def files(directory: Path, suffix: str) -> list[str]:
    return sorted(file.name for file in directory.iterdir() if file.suffix == suffix)


def partitions(cluster: Cluster) -> Mapping[str, Mapping[int, Any]]:
    """Return leaders and epochs as the broker's image has them."""
    topics = cluster.broker(1).metadata.image.topics
    return {
        name: {number: (state.leader, state.leader_epoch, state.isr) for number, state in topic.partitions.items()}
        for name, topic in topics.items()
    }


def first_fetch(cluster: Cluster) -> tuple[int, int]:
    """Return offset and last epoch of the first fetch, and forget all requests."""
    first = cluster.sent(FetchRequest)[0].topics[0].partitions[0]
    assert not cluster.sent(FetchSnapshotRequest)
    cluster.controller.requests.clear()
    return first.fetch_offset, first.last_fetched_epoch


@contextmanager
def lines() -> Iterator[list[str]]:
    """Give the lines of the log that are about the copy."""
    about: list[str] = []
    with capturedLogs() as events:
        yield about
    texts = map(eventAsText, events)
    about += [text.partition("] ")[2] for text in texts if re.search("of the cluster's metadata|asked again", text)]


def test_a_start_reads_the_difference(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.controller.create_topic("before", {0: [1], 1: [1]})
    cluster.reactor.advance(1)
    read = cluster.controller.log.end
    cluster.stop(1)
    end = cluster.controller.log.end  # the end itself wrote records
    cluster.controller.create_topic("after", {0: [1]})
    assert first_fetch(cluster) == (0, 0)
    cluster.start(1)
    offset, epoch = first_fetch(cluster)
    assert read <= offset <= end
    assert epoch == 1
    assert set(partitions(cluster)) == {"before", "after"}
    cluster.reactor.advance(2)
    assert partitions(cluster)["before"][0][0] == 1


def test_a_start_after_a_crash_reads_the_difference(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.controller.create_topic("before", {0: [1]})
    cluster.reactor.advance(1)
    end = cluster.controller.log.end
    shutil.copytree(cluster.directory / "1", cluster.directory / "crashed")
    cluster.stop(1)
    shutil.rmtree(cluster.directory / "1")
    (cluster.directory / "crashed").rename(cluster.directory / "1")
    first_fetch(cluster)
    cluster.start(1)
    assert first_fetch(cluster) == (end, 1)
    assert set(partitions(cluster)) == {"before"}


@pytest.mark.parametrize(
    ("settings", "passing"), [(SOON, 0), ({"metadata_log_max_snapshot_interval_ms": "60000"}, 61)], ids=["size", "time"]
)
def test_snapshots_keep_the_copy_small(cluster: Cluster, settings: dict[str, str], passing: int) -> None:
    cluster.start(1, **settings)
    for number in range(20):
        cluster.controller.create_topic(f"topic-{number}", {0: [1]})
        cluster.reactor.advance(1)
    cluster.reactor.advance(passing)
    cluster.controller.create_topic("last", {0: [1]})
    cluster.reactor.advance(1)
    before = partitions(cluster)
    [snapshot] = files(copy_of(cluster), ".checkpoint")
    assert len(files(copy_of(cluster), ".log")) <= 2
    assert files(copy_of(cluster), ".part") == []
    cluster.stop(1)
    first_fetch(cluster)
    cluster.start(1, **settings)
    assert first_fetch(cluster)[0] >= int(snapshot[:20])
    assert set(partitions(cluster)) == set(before)
    assert len(before) == 21


def test_no_snapshot_is_made_before_it_is_time(cluster: Cluster) -> None:
    cluster.start(1, metadata_log_max_snapshot_interval_ms="60000")
    cluster.controller.create_topic("orders", {0: [1]})
    cluster.reactor.advance(50)
    assert files(copy_of(cluster), ".checkpoint") == []


def test_restarts_do_not_put_off_a_snapshot(cluster: Cluster) -> None:
    """The records of the model are old."""
    settings = {"metadata_log_max_snapshot_interval_ms": "60000"}
    cluster.start(1, **settings)
    cluster.reactor.advance(1)
    assert files(copy_of(cluster), ".checkpoint") == []
    cluster.stop(1)
    cluster.start(1, **settings)
    cluster.reactor.advance(1)
    assert len(files(copy_of(cluster), ".checkpoint")) == 1


def test_a_snapshot_that_the_controllers_send_replaces_the_copy(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.reactor.advance(1)
    cluster.stop(1)
    for number in range(5):
        cluster.controller.create_topic(f"topic-{number}", {0: [1]})
    cluster.controller.log.take_snapshot()
    end = cluster.controller.log.start
    cluster.start(1)
    assert cluster.sent(FetchSnapshotRequest)
    cluster.stop(1)
    assert [int(name[:20]) for name in files(copy_of(cluster), ".checkpoint")] == [end]
    cluster.controller.requests.clear()
    cluster.start(1)
    assert first_fetch(cluster)[0] > end
    assert len(partitions(cluster)) == 5


def failing(name: str, error: int) -> Any:
    real: Callable[..., Any] = getattr(os, name)

    def fail(fd: int, *arguments: Any) -> Any:
        if COPY in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(error, os.strerror(error))
        return real(fd, *arguments)

    return patch.object(os, name, fail)


def test_a_full_disk_ends_the_copy_and_not_the_broker(cluster: Cluster) -> None:
    cluster.start(1)
    with lines() as about:
        with failing("pwritev", errno.ENOSPC):
            cluster.controller.create_topic("orders", {0: [1]})
            cluster.reactor.advance(1)
        cluster.controller.create_topic("others", {0: [1]})
        cluster.reactor.advance(1)
    assert set(partitions(cluster)) == {"orders", "others"}
    [line] = about
    assert line.startswith("no copy of the cluster's metadata is kept in ")
    assert line.endswith("reads more from the controllers: [Errno 28] No space left on device")
    cluster.stop(1)
    cluster.start(1)
    assert set(partitions(cluster)) == {"orders", "others"}


@contextmanager
def disk_calls() -> Iterator[dict[str, set[str]]]:
    """Give the names of the threads that touch the copy's files, by system call."""
    threads: dict[str, set[str]] = {}

    def noting(name: str) -> Callable[..., Any]:
        real: Callable[..., Any] = getattr(os, name)

        def call(where: Any, *arguments: Any, **others: Any) -> Any:
            if COPY in (os.readlink(f"/proc/self/fd/{where}") if isinstance(where, int) else str(where)):
                threads.setdefault(name, set()).add(threading.current_thread().name)
            return real(where, *arguments, **others)

        return call

    with patch.multiple(os, **{name: noting(name) for name in DISK_CALLS}):
        yield threads


def test_the_reactors_thread_leaves_the_disk_to_others(tmp_path: Path) -> None:
    with served_controller() as served, disk_calls() as threads:
        settings = {"controller_quorum_bootstrap_servers": served.address, "node_id": "7", **SOON}
        for life in range(2):
            with Broker(engine="kraft", data_dir=tmp_path, **settings) as broker:
                for number in range(4):
                    broker.create_topic(f"topic-{life}-{number}")
                wait_until(lambda: list(tmp_path.glob(f"*/{COPY}/*.checkpoint")))
    assert set(threads) == set(DISK_CALLS)
    assert {name for names in threads.values() for name in names if not name.startswith("PoolThread-")} == set()


def test_controllers_that_begin_again_are_followed(cluster: Cluster) -> None:
    """Their log has the same epoch, and none of the records that the copy has."""
    cluster.start(1, **SOON)
    for number in range(9):
        cluster.controller.create_topic(f"topic-{number}", {0: [1]})
        cluster.reactor.advance(1)
    cluster.stop(1)
    assert files(copy_of(cluster), ".checkpoint")
    begin_again(cluster)
    with lines() as about:
        cluster.start(1)
    assert partitions(cluster) == {}
    assert [line.partition(": ")[0] for line in about if "removed" in line] == [
        f"the copy of the cluster's metadata in {copy_of(cluster)} is removed, and read again"
    ]


def begin_again(cluster: Cluster, timestamp_ms: int = 1000) -> None:
    """Let the controllers be formatted again, with the same cluster id; their first record is of this time."""
    cluster.reactor.find_port(CONTROLLER).stopListening()
    cluster.controller = ModelController(cluster.reactor, CONTROLLER)
    entries = cluster.controller.log.entries
    entries[0] = attrs.evolve(entries[0], timestamp_ms=timestamp_ms)
    cluster.reactor.listen("127.0.0.1", CONTROLLER, cluster.controller.factory)


@pytest.mark.parametrize("settings", [NEVER, SOON], ids=["log", "snapshot"])
def test_controllers_that_begin_again_are_followed_at_an_earlier_epoch(
    cluster: Cluster, settings: dict[str, str]
) -> None:
    cluster.start(1, **settings)
    cluster.controller.fail_over(epochs=4)
    for number in range(9):
        cluster.controller.create_topic(f"topic-{number}", {0: [1]})
        cluster.reactor.advance(1)
    cluster.reactor.advance(5)
    cluster.stop(1)
    assert bool(files(copy_of(cluster), ".checkpoint")) is (settings is SOON)
    begin_again(cluster, timestamp_ms=1001)
    with lines() as about:
        cluster.start(1, **settings)
    assert partitions(cluster) == {}
    [line] = [line for line in about if "removed" in line]
    assert line.endswith(
        "is removed, and read again: the controllers were formatted again: they are at epoch 1, and their log is "
        "younger than its records of epoch 5"
    )
    cluster.controller.create_topic("orders", {0: [1]})
    cluster.reactor.advance(1)
    cluster.stop(1)
    cluster.controller.requests.clear()
    with lines() as about:
        cluster.start(1, **settings)
    assert set(partitions(cluster)) == {"orders"}
    assert first_fetch(cluster)[0] > 0
    assert not [line for line in about if "removed" in line]


def test_a_member_that_runs_waits_for_its_restart_when_controllers_begin_again(cluster: Cluster) -> None:
    role = cluster.start(1).role
    assert isinstance(role, KraftRole)
    cluster.controller.fail_over(epochs=4)
    cluster.reactor.advance(5)
    begin_again(cluster, timestamp_ms=1001)
    role._quorum.leader_lost()
    with lines() as about:
        cluster.reactor.advance(50)
    assert [line.rpartition("epoch 1, ")[2] for line in about if "asked again" in line] == [
        "but this broker has seen epoch 5; if the controllers were formatted again, restart the broker"
    ]
    assert 50 <= len(cluster.sent(FetchRequest)) <= 100
    assert not cluster.sent(BrokerRegistrationRequest)
    assert not cluster.sent(BrokerHeartbeatRequest)


def test_controllers_of_an_earlier_epoch_are_not_followed(cluster: Cluster) -> None:
    """Their first record is not younger than the copy: perhaps they have not heard of the later epoch."""
    cluster.start(1)
    cluster.controller.fail_over(epochs=4)
    cluster.reactor.advance(5)
    cluster.stop(1)
    begin_again(cluster)
    with lines() as about:
        service = cluster.begin(1)
        cluster.reactor.advance(5)
    service.listening.addErrback(lambda failure: None)
    cluster.stop(1)
    assert [line.rpartition("epoch 1, ")[2] for line in about if "asked again" in line] == [
        f"but this broker has seen epoch 5; if the controllers were formatted again, stop the broker and remove "
        f"{copy_of(cluster)}"
    ]
    shutil.rmtree(copy_of(cluster))
    cluster.start(1)


def test_a_damaged_copy_is_read_again(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.controller.create_topic("orders", {0: [1]})
    cluster.reactor.advance(1)
    cluster.stop(1)
    [log] = copy_of(cluster).glob("*.log")
    damaged = bytearray(log.read_bytes())
    damaged[70] ^= 1
    log.write_bytes(damaged)
    with lines() as about:
        cluster.start(1)
    assert set(partitions(cluster)) == {"orders"}
    [line] = [line for line in about if "cut" in line]
    assert line.endswith("what is missing is read from the controllers")


def test_a_directory_of_its_own_has_the_copy(cluster: Cluster, tmp_path: Path) -> None:
    home = tmp_path / "metadata"
    cluster.start(1, metadata_log_dir=str(home))
    assert files(home / COPY, ".log") == ["00000000000000000000.log"]
    fetches = [request.topics[0].partitions[0] for request in cluster.sent(FetchRequest)]
    directory = id_text(fetches[0].replica_directory_id)
    assert f"directory.id={directory}\n" in (cluster.directory / "1" / "meta.properties").read_text()
    assert not copy_of(cluster).exists()
    with pytest.raises(StartupError, match="is in use by another broker: stop it, or choose"):
        cluster.start(2, metadata_log_dir=str(home))
    cluster.services.pop(2)


def test_the_metadata_log_of_apache_kafka_is_left_alone(cluster: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "theirs" / COPY / "00000000000000000000.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"records")
    for _ in range(2):
        with pytest.raises(StartupError, match="is the metadata log of Apache Kafka, for instance of a controller"):
            cluster.start(1, metadata_log_dir=str(tmp_path / "theirs"))
        cluster.services.pop(1)
    assert log.read_bytes() == b"records"
    shutil.copytree(log.parent, copy_of(cluster))
    with pytest.raises(StartupError, match="holds data of Apache Kafka, which pylogbroker does not read"):
        cluster.start(1)
    cluster.services.pop(1)


def test_a_start_that_fails_releases_the_copy(cluster: Cluster) -> None:
    cluster.start(1)
    with pytest.raises(StartupError, match="another broker runs with this"):
        cluster.start(2, node_id="1", log_dirs=str(format_as(cluster, 2, 1)))
    cluster.services.pop(2)
    directory = MetadataDirectory(str(cluster.directory / "2"), CLUSTER_ID, 1 << 20)
    directory.load(lambda data: data)
    directory.release()


def format_as(cluster: Cluster, directory: int, number: int) -> Path:
    path = cluster.format(directory)
    meta = path / "meta.properties"
    meta.write_text(meta.read_text().replace(f"node.id={directory}", f"node.id={number}"))
    return path


def dump(file: Path, *options: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, ["dump", str(file), *options, "--format", "json"])
    assert done.exit_code == 0, done.output
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def test_the_command_prints_the_copy(cluster: Cluster) -> None:
    cluster.start(1, **NEVER)
    topic_id = cluster.controller.create_topic("orders", {0: [1]})
    cluster.reactor.advance(1)
    cluster.stop(1)
    [log] = copy_of(cluster).glob("*.log")
    rows = dump(log, "--records")
    assert rows[0]["type"] == "LeaderChange"
    [topic] = [row for row in rows if row["type"] == "TopicRecord"]
    assert topic["version"] == 0
    assert topic["data"] == {"name": "orders", "topic_id": id_text(topic_id)}
    assert [row["offset"] for row in rows] == list(range(len(rows)))
    assert sum(row["count"] for row in dump(log)) == len(rows)
    [state] = dump(copy_of(cluster) / "quorum-state")
    assert state == {"leader": CONTROLLER_ID, "leader_epoch": 1, "voted": -1}


def test_the_command_prints_a_snapshot(cluster: Cluster) -> None:
    cluster.start(1, **SOON)
    for number in range(9):
        cluster.controller.create_topic(f"topic-{number}", {0: [1]})
        cluster.reactor.advance(1)
    cluster.stop(1)
    [snapshot] = copy_of(cluster).glob("*.checkpoint")
    rows = dump(snapshot, "--records")
    assert [rows[0]["type"], rows[-1]["type"]] == ["SnapshotHeader", "SnapshotFooter"]
    assert {"FeatureLevelRecord", "RegisterBrokerRecord", "TopicRecord", "PartitionRecord"} <= {
        row["type"] for row in rows
    }
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    assert len(dump(snapshot, "--records")) == len(rows) - 1
    (copy_of(cluster) / "quorum-state").write_text("{")
    done = CliRunner().invoke(main, ["dump", str(copy_of(cluster) / "quorum-state")])
    assert done.exit_code == 1
    assert "quorum-state is not complete: " in done.output
