"""Every panel and alert in a Prometheus that scrapes a broker with traffic: each has a result.

The scrapes are configured as `docs/metrics.md` says, with their relabelling; only addresses and intervals differ.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from pylogbroker.cli import main
from tests.metrics import boards
from tests.support.broker_process import BrokerProcess
from tests.support.line_process import LineProcess
from tests.support.run_services import DIES_WITH_PARENT
from tests.support.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
DOCUMENTED_TARGET = "127.0.0.1:9464"
pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs Debian's prometheus")

#: Panels of this project that show what this workload has not, by a part of their expressions.
WITHOUT_SAMPLES = {
    "pylogbroker_handshakes_total": "only listeners with TLS or SASL have handshakes",
    "kafka_server_brokermetadatametrics_": "only members of clusters of KRaft controllers read metadata from these",
}
EXPRESSIONS: tuple[Callable[[], Iterator[str]], ...] = (
    boards.own_panels,
    boards.own_alerts,
    boards.strimzi_panels,
    boards.exporter_panels,
    boards.confluent_panels,
)


class Prometheus:
    """A server with this configuration, on a free port."""

    def __init__(self, directory: Path, configuration: dict[str, Any]) -> None:
        path = directory / "prometheus.yml"
        path.write_text(yaml.safe_dump(configuration))
        self._process = LineProcess(
            [
                *DIES_WITH_PARENT,
                "prometheus",
                f"--config.file={path}",
                f"--storage.tsdb.path={directory / 'tsdb'}",
                "--web.listen-address=127.0.0.1:0",
            ]
        )
        # the log names the address as it was given: the port is that of the process's socket
        self._process.expect(r"Server is ready to receive web requests", 120)
        self.url = f"http://127.0.0.1:{_listening_port(self._process.pid)}"

    def ask(self, expression: str) -> list[Any]:
        """Return the result of an expression now; an error if Prometheus does not understand it."""
        with urlopen(f"{self.url}/api/v1/query?{urlencode({'query': expression})}", timeout=120) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        result: list[Any] = found["data"]["result"]
        return result

    def kill(self) -> None:
        self._process.kill()


def _listening_port(pid: int) -> int:
    files = set[str]()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            files.add(link.readlink().name)
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        if state == "0A" and f"socket:[{inode}]" in files:
            return int(local.split(":")[1], 16)
    raise RuntimeError(f"process {pid} listens nowhere")


def configuration(target: str) -> dict[str, Any]:
    """Return the scrapes that the page shows, of one broker and each second."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    scrapes = [scrape for block in blocks for scrape in yaml.safe_load(block)["scrape_configs"]]
    for scrape in scrapes:
        for static in scrape["static_configs"]:
            assert static["targets"] == [DOCUMENTED_TARGET]
            static["targets"] = [target]
    return {"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes}


def work(bootstrap: str) -> None:
    """Write, fail to write, read in a group and commit, under a quota."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "client.id": "app"})
    for number in range(50):
        producer.produce("clicks", f"{number}".encode())
    producer.produce("compacted", b"no key")
    producer.flush(120)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["clicks"])
    assert len(consumer.consume(20, 120)) == 20
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    directory = tmp_path_factory.mktemp("panels")
    broker = BrokerProcess(directory / "broker", {"http.listeners": "http://:0"})
    broker.start()
    target = broker.process.expect(r"web UI on http://([^/\s]+)")[1]
    found = None
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topics = [NewTopic("clicks", 3, 1), NewTopic("compacted", 1, 1, config={"cleanup.policy": "compact"})]
        for created in admin.create_topics(topics).values():
            created.result(60)
        arguments = ["quota", "alter", "--client-id-default", "-s", "producer_byte_rate=1e9", "-b", broker.bootstrap]
        assert CliRunner().invoke(main, arguments).exit_code == 0
        found = Prometheus(directory, configuration(target))
        work(broker.bootstrap)
        wait_until(lambda: found.ask('count_over_time(up{job="kafka-broker"}[5m]) > 2'))
        work(broker.bootstrap)
        yield found
    finally:
        if found is not None:
            found.kill()
        broker.kill()


@pytest.mark.parametrize("expressions", EXPRESSIONS, ids=lambda each: each.__name__)
def test_each_panel_expression_has_a_result(prometheus: Prometheus, expressions: Callable[[], Iterator[str]]) -> None:
    asked = list(expressions())
    assert len(asked) >= 5
    for expression in asked:
        excused = boards.why_not_served(expression) or any(name in expression for name in WITHOUT_SAMPLES)
        if excused:
            assert prometheus.ask(expression) == [], f"has a result, and is excused: {expression}"
        else:
            wait_until(partial(prometheus.ask, expression), what=lambda asked=expression: asked)


def test_a_wrong_expression_has_no_result(prometheus: Prometheus) -> None:
    assert prometheus.ask("kafka_server_replicamanager_leadercounts") == []


def test_the_documented_scrapes_are_valid(tmp_path: Path) -> None:
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(configuration(DOCUMENTED_TARGET)))
    done = subprocess.run(["promtool", "check", "config", path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
