"""Makes the archive of the classes of one of Kafka's releases, by the life of a broker."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from confluent_kafka import Producer

from tests.peers.class_archives import archive_path
from tests.peers.kafka import KafkaBroker, KafkaServer
from tests.peers.maven import PeerError, locked
from tests.peers.processes import SHORT_LIVED
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_mode import ZooKeeperModeBroker

RELEASES = ("kafka-4.4", "kafka-3.9", "kafka-2.7")
STOP_SECONDS_MAX = 120.0


def make_archive(release: str) -> Path:
    """Return the archive of a release, made if it is not there yet."""
    archive = archive_path(release)
    with locked(archive.stem):
        if not archive.exists():
            archive.parent.mkdir(parents=True, exist_ok=True)
            fresh = archive.with_suffix(".new")
            fresh.unlink(missing_ok=True)
            with tempfile.TemporaryDirectory() as directory:
                _live(release, Path(directory), fresh)
            if not fresh.exists():
                raise PeerError(f"the JVM has not archived the classes of {release}")
            fresh.rename(archive)
    return archive


def _live(release: str, directory: Path, archive: Path) -> None:
    """Start a broker, write a record, and let the JVM archive what it has loaded when it ends."""
    options = (*SHORT_LIVED, f"-XX:ArchiveClassesAtExit={archive}")
    if release == "kafka-4.4":
        _write_and_end(KafkaBroker(directory, kafka_release=release, java_options=options))
        return
    with ZooKeeper(directory / "zookeeper") as server:
        broker = ZooKeeperModeBroker(
            directory / "broker",
            {"auto.create.topics.enable": "true"},
            broker_id=1,
            zookeeper=server.address,
            kafka_release=release,
            java_options=options,
        )
        _write_and_end(broker)


def _write_and_end(server: KafkaServer) -> None:
    with server as broker:
        producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 0})
        producer.produce("topic", b"value")
        producer.flush(120)
        assert broker.process is not None
        broker.process.terminate()
        try:
            broker.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise PeerError(f"{broker.release} does not end within {STOP_SECONDS_MAX:g} s") from None
