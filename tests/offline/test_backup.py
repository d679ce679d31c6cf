"""Copies of a broker's files, made while it runs, are what a broker can start on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.admin import create_topic
from tests.offline.commands import fail, on_a_terminal, succeed
from tests.support.broker_process import BrokerProcess

SETTINGS = {"log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "100", "log.segment.bytes": "20000"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}


class Writer:
    """Writes numbered records to both topics until it is stopped; `acknowledged` is how many are in each."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": "1"})
        self._ended = threading.Event()
        self.enough = threading.Event()
        self._acknowledged = {"plain": 0, "states": 0}
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._ended.is_set():
            for _ in range(20):
                self._producer.produce("plain", b"%d" % number + b"x" * 100, on_delivery=self._delivered)
                self._producer.produce(
                    "states", b"%d" % number + b"x" * 100, b"%d" % (number % 7), on_delivery=self._delivered
                )
                number += 1
            self._producer.flush(120)
        self._producer.flush(120)

    @property
    def acknowledged(self) -> int:
        return min(self._acknowledged.values())

    def _delivered(self, error: object, message: Message) -> None:
        assert error is None
        self._acknowledged[message.topic()] += 1
        if self.acknowledged >= 2000:
            self.enough.set()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path / "broker", SETTINGS)
    running.start()
    try:
        create_topic(running.bootstrap, "plain")
        create_topic(running.bootstrap, "states", configs=COMPACTED)
        yield running
    finally:
        running.kill()


def numbers(broker: BrokerProcess, topic: str) -> list[int]:
    return [int((each.value or b"").rstrip(b"x")) for each in KafkaPython().read(broker.bootstrap, topic, [0])]


def test_a_copy_of_a_broker_that_is_written_to(broker: BrokerProcess, tmp_path: Path) -> None:
    writer = Writer(broker.bootstrap)
    try:
        assert writer.enough.wait(300)
        copies = []
        for number in range(3):
            before = writer.acknowledged
            target = tmp_path / f"copy-{number}" / "data"
            target.parent.mkdir()
            succeed("backup", "create", target, "--data-dir", broker.data_dir)
            copies.append((target, before))
    finally:
        writer.stop()
    for target, before in copies:
        restored = BrokerProcess(target.parent, SETTINGS)
        restored.start()
        try:
            plain = numbers(restored, "plain")
            assert plain == list(range(len(plain)))
            assert len(plain) >= before
            states = numbers(restored, "states")
            assert states == sorted(states)
            assert {number % 7 for number in states if number >= before - 7} == set(range(7))
            assert not [line for line in restored.process.lines if "dropped" in line or "begun anew" in line]
            assert restored.stop() == 0
        finally:
            restored.kill()
        assert restored.unexpected_errors() == []


def test_a_backup_leaves_out_locks_and_other_files(broker: BrokerProcess, tmp_path: Path) -> None:
    (broker.data_dir / "backup_2024").mkdir()
    output = succeed("backup", "create", tmp_path / "copy", "--data-dir", broker.data_dir)
    assert output.splitlines() == [
        f"copied {broker.data_dir} to {tmp_path}/copy",
        "2 partition(s), and the coordination tree",
    ]
    names = {path.name for path in (tmp_path / "copy").iterdir()}
    assert names >= {"meta.properties", "coordination.sqlite", "plain_0", "states_0"}
    assert not names & {".lock", ".kafka_cleanshutdown", "backup_2024", "coordination.lock", "coordination.reserve"}


def test_a_bar_where_there_is_a_terminal(broker: BrokerProcess, tmp_path: Path) -> None:
    writer = Writer(broker.bootstrap)
    try:
        assert writer.enough.wait(300)
    finally:
        writer.stop()
    assert broker.stop() == 0
    shown = on_a_terminal("backup", "create", tmp_path / "copy", "--data-dir", broker.data_dir)
    size = sum(path.stat().st_size for path in broker.data_dir.glob("*/*.kafka"))
    assert "Copying" in shown
    assert f"{size / 1000:.1f}/{size / 1000:.1f} kB" in shown
    assert "Copying" not in succeed("backup", "create", tmp_path / "another", "--data-dir", broker.data_dir)


def test_several_directories(tmp_path: Path) -> None:
    first, second, metadata = (tmp_path / name for name in ("a", "b", "m"))
    options = ("--override", f"log.dirs={first},{second}", "--override", f"metadata.log.dir={metadata}")
    succeed("migrate", "zookeeper", _dump(tmp_path), "--config", _empty(tmp_path), *options)
    succeed("backup", "create", tmp_path / "copy", "--config", _empty(tmp_path), *options)
    found = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").glob("*/*")}
    assert {"0-a/meta.properties", "1-b/meta.properties", "metadata/coordination.sqlite"} <= found
    assert len([name for name in found if name.split("/")[1].startswith("t_")]) == 2


def test_several_brokers(tmp_path: Path) -> None:
    """Copy the directories of all brokers of `--brokers N`, in each log directory."""
    first, second = tmp_path / "a", tmp_path / "b"
    options = ("--override", f"log.dirs={first},{second}", "--config", _empty(tmp_path))
    succeed("migrate", "zookeeper", _dump(tmp_path), *options)
    logs = (first / "brokers" / "1" / "u_0", first / "brokers" / "12" / "u_1", second / "brokers" / "1" / "u_2")
    for number, log in enumerate(logs):
        log.mkdir(parents=True)
        (log.parent / "meta.properties").write_text(f"version=0\nbroker.id={log.parent.name}\n")
        (log / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
        (log / "00000000000000000000.kafka").write_bytes(b"records %d" % number)
    output = succeed("backup", "create", tmp_path / "copy", *options)
    assert f"copied {second}/brokers/1 to {tmp_path}/copy/1-b/brokers/1" in output
    copies = (tmp_path / "copy" / "0-a", tmp_path / "copy" / "1-b")
    for directory, copy in zip((first, second), copies, strict=True):
        found = [{path.relative_to(top) for path in top.glob("brokers/*/**/*")} for top in (directory, copy)]
        assert found[0] == found[1]
        assert all((copy / path).read_bytes() == (directory / path).read_bytes() for path in found[0] if path.suffix)


def _dump(directory: Path) -> Path:
    (directory / "dump.json").write_text('{"/brokers/topics/t": "{\\"partitions\\": {\\"0\\": [1], \\"1\\": [1]}}"}')
    return directory / "dump.json"


def _empty(directory: Path) -> Path:
    (directory / "empty.properties").touch()
    return directory / "empty.properties"


def test_errors(broker: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    assert "exists: name a new directory" in fail("backup", "create", tmp_path / "there", "--data-dir", broker.data_dir)
    assert "check that this is a broker's directory" in fail(
        "backup", "create", tmp_path / "copy", "--data-dir", tmp_path / "none"
    )
    assert not (tmp_path / "copy").exists()
    (tmp_path / "member").mkdir()
    (tmp_path / "member" / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=abc\n")
    assert "has its topics in ZooKeeper" in fail(
        "backup", "create", tmp_path / "copy", "--data-dir", tmp_path / "member"
    )
    assert not (tmp_path / "copy").exists()
