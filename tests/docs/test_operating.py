"""The pages on operating and migration: every command on them is run, on a broker and on data of old releases."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kafka import KafkaProducer

from pylogbroker.testing import Broker
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.admin import create_topic
from tests.docs.page_programs import ADDRESS, ROOT
from tests.legacy07.message_sets import ONE, THREE, TWO
from tests.offline.kafka07 import write_partition
from tests.offline.zookeeper_registries import CHROOT, FILES
from tests.peers import available, tools
from tests.support.broker_process import BrokerProcess
from tests.support.line_process import LineProcess

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ (.*)$", re.MULTILINE)


class Page:
    """Runs the commands of a page; its paths are below a directory of the test's."""

    def __init__(self, name: str, directory: Path, broker: BrokerProcess | None = None) -> None:
        self.text = (ROOT / "docs" / name).read_text()
        self._directory = directory
        self._broker = broker
        binaries = directory / "bin"
        binaries.mkdir()
        script = binaries / "pylogbroker"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m pylogbroker.cli "$@"\n')
        script.chmod(0o755)
        for place in ("backup", "mnt/new", "tmp", "var/lib"):
            (directory / place).mkdir(parents=True)
        self._environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    @property
    def blocks(self) -> list[list[str]]:
        """The commands of each block."""
        return [COMMAND.findall(block) for block in BLOCK.findall(self.text)]

    def place(self, path: str) -> Path:
        """Return the place of a path on the page."""
        return self._directory / path.removeprefix("/")

    def run(self, command: str, *more: str) -> str:
        """Run a command, with arguments that stay as they are behind it; an error if it fails."""
        program, *arguments = command.split()
        if program == "systemctl":
            assert self._broker is not None
            assert arguments[1] == "pylogbroker"
            {"start": self._broker.start, "stop": self._broker.stop}[arguments[0]]()
            return ""
        placed = [self._placed(each) for each in arguments]
        if program.startswith("kafka-"):
            return tools.tool(program, *placed).stdout
        if program == "twistd":
            return self._start(placed)
        done = subprocess.run(
            [program, *placed, *more],
            env=self._environment,
            cwd=self._directory,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _placed(self, argument: str) -> str:
        if argument.startswith("/"):
            return str(self.place(argument))
        return argument.replace(ADDRESS, self._broker.bootstrap if self._broker else ADDRESS)

    def _start(self, arguments: list[str]) -> str:
        command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", *arguments]
        with LineProcess([*command, "--listener=PLAINTEXT://127.0.0.1:0"], cwd=self._directory) as process:
            return process.expect(r"listening on PLAINTEXT").string


def records(broker: BrokerProcess, topic: str = "lines") -> list[bytes]:
    return [record.value or b"" for record in KafkaPython().read(broker.bootstrap, topic, [0])]


def write(broker: BrokerProcess, *values: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for value in values:
        producer.send("lines", value).get(120)
    producer.close()


@pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
def test_operating(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker")
    broker.data_dir = tmp_path / "var/lib/pylogbroker"
    page = Page("operating.md", tmp_path, broker)
    backup, stopped, restore, move, rebuild, configs, dump = page.blocks
    broker.start()
    try:
        create_topic(broker.bootstrap, "lines")
        write(broker, b"one", b"two")
        page.run(*backup)
        write(broker, b"three")
        for command in stopped:
            page.run(command)
        assert records(broker) == [b"one", b"two", b"three"]
        for command in restore:
            page.run(command)
        assert records(broker) == [b"one", b"two"]  # what there was at the time of the backup
        for command in move:
            page.run(command)
        broker.start()
        page.run(rebuild[0])
        (broker.data_dir / "coordination.sqlite").unlink()
        assert "not recovered" in page.run(rebuild[1])
        page.run(rebuild[2])
        assert records(broker) == [b"one", b"two"]
        page.run(*configs)
        own = broker.data_dir / "lines_0" / "00000000000000000000.kafka"
        unnamed = tools.tool("kafka-dump-log", "--print-data-log", "--files", str(own), check=False)
        assert "payload" not in unnamed.stdout
        shown = [page.run(command) for command in dump]
        assert re.findall(r"payload: (.*)$", shown[-1], re.MULTILINE) == ["one", "two"]
        assert broker.stop() == 0
    finally:
        broker.kill()


def test_migration(tmp_path: Path) -> None:
    page = Page("migration.md", tmp_path)
    logs, offsets, _ = page.blocks
    write_partition(tmp_path / "old" / "kafka-logs" / "my_topic-0", [ONE, TWO, THREE])
    write_partition(tmp_path / "old" / "kafka-logs" / "my_topic-1", [ONE])
    shutil.copytree(FILES, tmp_path / "old" / "zookeeper")
    shown = [page.run(command) for command in logs]
    assert shown[0].endswith("Nothing was written.\n")
    assert "imported my_topic, 2 partition(s)" in shown[1]
    dry, imported = (page.run(command, "--chroot", CHROOT) for command in offsets)
    assert "group late, my_topic 0-0: 26" in dry
    assert "group late: committed 1 offset(s)" in imported


def test_migration_of_newer_releases(tmp_path: Path) -> None:
    create, copy, reset = Page("migration.md", tmp_path).blocks[-1]
    with Broker() as old, Broker() as new:
        addresses = {"old:9092": old.bootstrap, "new:9092": new.bootstrap}
        old.create_topic("orders", 3, retention_ms=-1)
        for number in range(3):
            old.produce(
                "orders",
                "tea",
                None,
                b"\xff",
                key=f"key {number}",
                timestamp_ms=1_000 + number,
                headers=[("a", b"\x00")],
            )
        for command in (create, copy, reset):
            for name, address in addresses.items():
                command = command.replace(name, address)
            line = command.replace("pylogbroker", f"{sys.executable} -m pylogbroker.cli")
            subprocess.run(line, shell=True, check=True, capture_output=True, timeout=600, cwd=ROOT)
        contents = [
            sorted((one.partition, one.key, one.timestamp, one.offset, one.value, one.headers) for one in records)
            for records in (old.records("orders"), new.records("orders"))
        ]
        assert contents[0] == contents[1]
        assert len(contents[1]) == 9
        assert new.groups == ["billing"]
