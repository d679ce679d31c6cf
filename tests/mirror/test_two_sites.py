"""The example `two_sites`: what its README types, and what comes out."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pylogbroker.client.admin import EARLIEST, EARLIEST_LOCAL
from pylogbroker.client.admin.configs import ConfigResource
from pylogbroker.client.sync import AdminClient, Producer, SimpleConsumer
from pylogbroker.config.changes import ConfigOperation, SettingChange
from pylogbroker.config.properties import read
from pylogbroker.mirror.configuration import mirrors_of
from tests.peers.processes import free_ports
from tests.support.line_process import LineProcess
from tests.support.waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_sites"


def start(directory: Path, ports: list[int]) -> LineProcess:
    environment = {
        "TWO_SITES_PORTS": ",".join(map(str, ports)),
        "TWO_SITES_DATA": str(directory / "data"),
    }
    command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()"]
    options = ["--nodaemon", f"--pidfile={directory / 'pid'}", "--no_save", f"--python={EXAMPLE / 'sites.tac'}"]
    process = LineProcess([*command, *options], environment={**os.environ, **environment})
    for _ in ports:
        process.expect("KafkaFactory starting on|listening on PLAINTEXT", 60)
    return process


def values(port: int, topic: str) -> list[bytes]:
    with SimpleConsumer("127.0.0.1", port, isolation_level="read_committed") as consumer:
        return [message.value for message in consumer.fetch(topic, 0, 0)]


def wait_for_copies(port: int, process: LineProcess) -> None:
    """Return when the offline cluster has the topics of both sites."""
    with AdminClient(f"127.0.0.1:{port}") as admin:
        names = lambda: {topic.name for topic in admin.topics.list()}  # noqa: E731
        wait_until(lambda: {"east.orders", "west.orders"} <= names(), 60, lambda: process.lines)


def test_both_sites_are_copied_and_a_restart_goes_on(tmp_path: Path) -> None:
    ports = free_ports(3)
    east, west, offline = ports
    process = start(tmp_path, ports)
    try:
        for port, text in ((east, b"tea"), (west, b"rice")):
            with Producer(f"127.0.0.1:{port}") as producer:
                producer.send("orders", text)
        wait_for_copies(offline, process)
        wait_until(lambda: values(offline, "east.orders") == [b"tea"], 60, lambda: process.lines)
        wait_until(lambda: values(offline, "west.orders") == [b"rice"], 60, lambda: process.lines)
        process.kill()
        process = start(tmp_path, ports)
        with Producer(f"127.0.0.1:{east}") as producer:
            producer.send("orders", b"milk")
        wait_until(lambda: values(offline, "east.orders") == [b"tea", b"milk"], 60, lambda: process.lines)
    finally:
        process.kill()


def test_the_offline_cluster_archives_and_spark_counts_all(tmp_path: Path, spark: SparkSession) -> None:
    ports = free_ports(3)
    east, west, offline = ports
    process = start(tmp_path, ports)
    try:
        for port, number in ((east, 40), (west, 3)):
            with Producer(f"127.0.0.1:{port}") as producer:
                for _ in range(number):
                    producer.send("orders", b"x" * 1000)
                    producer.flush()
        wait_for_copies(offline, process)
        wait_until(lambda: len(values(offline, "west.orders")) == 3, 60, lambda: process.lines)
        wait_until(lambda: len(values(offline, "east.orders")) == 40, 60, lambda: process.lines)
        settings = {"remote.storage.enable": "true", "segment.bytes": "10000", "local.retention.bytes": "10000"}
        changes = [SettingChange(name, ConfigOperation.SET, value) for name, value in settings.items()]
        with AdminClient(f"127.0.0.1:{offline}") as admin, Producer(f"127.0.0.1:{east}") as producer:
            admin.configs.alter({ConfigResource.topic("east.orders"): changes})
            for _ in range(20):  # in segments of the new size
                producer.send("orders", b"y" * 1000)
                producer.flush()
            start_of = lambda kind: admin.records.offsets({("east.orders", 0): kind})[("east.orders", 0)].offset  # noqa: E731
            wait_until(lambda: start_of(EARLIEST_LOCAL) >= 40, 60, lambda: process.lines)
            assert start_of(EARLIEST) == 0
        assert list((tmp_path / "data" / "archive").glob("*/0/*.manifest"))
        rows = namespace("count_orders.py")["count_orders"](spark, f"127.0.0.1:{offline}").collect()
        assert [tuple(row) for row in rows] == [("east.orders", 60), ("west.orders", 3)]
    finally:
        process.kill()


def namespace(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE / name), run_name="example")


def test_file_for_a_process_of_mirrors_has_the_same_mirrors() -> None:
    mirrors = mirrors_of(read(str(EXAMPLE / "mirror.properties")))
    flows = [(mirror.source.alias, mirror.target.alias, mirror.target.bootstrap) for mirror in mirrors]
    assert flows == [("east", "offline", "127.0.0.1:9094"), ("west", "offline", "127.0.0.1:9094")]
    assert mirrors[0].policy.target_topic("east", "orders") == "east.orders"
