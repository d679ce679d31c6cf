"""The page for those who write plugins: its programs run, with the files that it shows, and print what it says."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from confluent_kafka import Producer

from tests.docs.page_programs import ROOT, programs
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

PAGE = ROOT / "docs" / "plugins.md"
FILE = re.compile(r"^```python (?P<path>\S+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


def write_files(directory: Path) -> list[str]:
    """The files that the page shows: blocks that have a path behind the language."""
    found = list(FILE.finditer(PAGE.read_text()))
    for each in found:
        path = directory / each["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(each["text"])
    return [each["path"] for each in found]


def test_the_page(tmp_path: Path) -> None:
    directory = tmp_path / "page"
    files = write_files(directory)
    assert files == [
        "temperatures.py",
        "whole_topics.py",
        "whole_days.py",
        "pylogbroker/plugins/whole_days_plugin.py",
        "noting.py",
        "pylogbroker/plugins/noting_plugin.py",
        "rounding.py",
        "pylogbroker/plugins/rounding_plugin.py",
    ]
    found = programs(PAGE)
    text = PAGE.read_text()
    assert len(found) + len(files) == text.count("```python")
    assert sum(program.output is not None for program in found) == text.count("```text") == 11
    environment = {**os.environ, "PYTHONPATH": str(directory)}
    broker = BrokerProcess(tmp_path / "broker", {"num.partitions": "4"}, environment=environment)
    broker.start()
    try:
        for program in found:
            assert program.run(broker.bootstrap, directory) == (program.output or ""), program.text
    finally:
        broker.stop()
    assert broker.unexpected_errors() == []


def test_clients_push_their_metrics_to_the_receiver_of_the_page(tmp_path: Path) -> None:
    directory, notes = tmp_path / "page", tmp_path / "telemetry.ndjson"
    write_files(directory)
    noting = directory / "noting.py"
    noting.write_text(noting.read_text().replace("telemetry.ndjson", str(notes)))
    broker = BrokerProcess(
        tmp_path / "broker",
        {"client.telemetry.receivers": "noting"},
        environment={**os.environ, "PYTHONPATH": str(directory)},
    )
    broker.start()
    try:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "shop", "enable.metrics.push": True})
        producer.produce("orders", b"one")
        assert producer.flush(60) == 0
        wait_until(notes.exists)
        producer.close()
    finally:
        broker.stop()
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    assert {(line["client"], line["software"]) for line in lines} == {("shop", "confluent-kafka-python")}
    assert all(line["bytes"] > 50 for line in lines)
    assert broker.unexpected_errors() == []
