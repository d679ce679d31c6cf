"""The example `two_sites`: what its README types, and what comes out."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pylogbroker.client.sync import AdminClient, Producer, SimpleConsumer
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


def test_both_sites_are_copied_and_a_restart_goes_on(tmp_path: Path) -> None:
    ports = free_ports(3)
    east, west, offline = ports
    process = start(tmp_path, ports)
    try:
        for port, text in ((east, b"tea"), (west, b"rice")):
            with Producer(f"127.0.0.1:{port}") as producer:
                producer.send("orders", text)
        with AdminClient(f"127.0.0.1:{offline}") as admin:
            names = lambda: {topic.name for topic in admin.topics.list()}  # noqa: E731
            wait_until(lambda: {"east.orders", "west.orders"} <= names(), 60, lambda: process.lines)
        wait_until(lambda: values(offline, "east.orders") == [b"tea"], 60, lambda: process.lines)
        wait_until(lambda: values(offline, "west.orders") == [b"rice"], 60, lambda: process.lines)
        process.kill()
        process = start(tmp_path, ports)
        with Producer(f"127.0.0.1:{east}") as producer:
            producer.send("orders", b"milk")
        wait_until(lambda: values(offline, "east.orders") == [b"tea", b"milk"], 60, lambda: process.lines)
    finally:
        process.kill()


def test_file_for_a_process_of_mirrors_has_the_same_mirrors() -> None:
    mirrors = mirrors_of(read(str(EXAMPLE / "mirror.properties")))
    flows = [(mirror.source.alias, mirror.target.alias, mirror.target.bootstrap) for mirror in mirrors]
    assert flows == [("east", "offline", "127.0.0.1:9094"), ("west", "offline", "127.0.0.1:9094")]
    assert mirrors[0].policy.target_topic("east", "orders") == "east.orders"
