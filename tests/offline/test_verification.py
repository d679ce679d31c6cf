"""`pylogbroker verify` and `dump` on the files of a stopped broker, whole and damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from pylogbroker.cli import main
from tests.clients.admin import create_topic
from tests.offline.commands import on_a_terminal
from tests.support.broker_process import BrokerProcess

SETTINGS = {"log.retention.ms": "-1", "log.segment.bytes": "20000", "log.index.interval.bytes": "500"}


def verify(data: Path, code: int) -> list[tuple[str, str]]:
    """Run the command; return the files with problems, and what they are."""
    found = CliRunner().invoke(main, ["verify", "--data-dir", str(data), "--format", "json"])
    assert found.exit_code == code, found.output
    return [(Path(each["path"]).name, each["problem"]) for each in json.loads(found.stdout)]


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a broker that had transactions, and was stopped."""
    data = tmp_path_factory.mktemp("written")
    broker = BrokerProcess(data, SETTINGS)
    broker.start()
    create_topic(broker.bootstrap, "t")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x", "linger.ms": 1})
    producer.init_transactions(120)
    for number in range(20):
        producer.begin_transaction()
        for _ in range(20):
            producer.produce("t", b"x" * 100, b"key", 0, timestamp=1_000_000 + number)
        producer.flush(120)
        if number % 2:
            producer.abort_transaction(120)
        else:
            producer.commit_transaction(120)
    assert broker.stop() == 0
    return Path(broker.data_dir)


def test_files_of_a_stopped_broker(written: Path) -> None:
    assert verify(written, 0) == []


def test_a_bar_where_there_is_a_terminal(written: Path) -> None:
    """Bytes of all segments are verified; without a terminal there is a line for each partition instead."""
    command = ["verify", "--data-dir", str(written), "--format", "json"]
    shown = on_a_terminal(*command)
    size = sum(path.stat().st_size for path in written.glob("*/*.kafka"))
    assert "Verifying" in shown
    assert f"{size / 1000:.1f}/{size / 1000:.1f} kB" in shown
    assert f"{written}/t_0: " not in shown
    plain = CliRunner().invoke(main, command)
    assert f"{written}/t_0: " in plain.stderr
    assert "Verifying" not in plain.stderr


def a_segment(log: Path, suffix: str) -> Path:
    return sorted(path for path in log.glob(f"*{suffix}") if path.stat().st_size)[0]


@pytest.mark.parametrize(
    ("damage", "reported"),
    [
        (lambda log: flip(a_segment(log, ".kafka"), 300), "has CRC"),
        (lambda log: shorten(a_segment(log, ".kafka")), ""),
        (lambda log: flip(a_segment(log, ".index"), 7), "names position"),
        (lambda log: flip(a_segment(log, ".timeindex"), 0), "contradicts the segment"),
        (lambda log: flip(a_segment(log, ".txnindex"), 1), "is impossible here"),
        (lambda log: flip(a_segment(log, ".snapshot"), 9), ""),
        (lambda log: (log / "leader-epoch-checkpoint").write_text("0\n1\nx y\n"), ""),
        (lambda log: (log.parent / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 99999\n"), "beyond its"),
    ],
)
def test_damage(written: Path, tmp_path: Path, damage: Callable[[Path], object], reported: str) -> None:
    data = tmp_path / "data"
    shutil.copytree(written, data)
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    damage(data / "t_0")
    [changed] = [path for path, content in before.items() if path.read_bytes() != content]
    found = verify(data, 10)
    assert {name for name, _ in found} >= {changed.name}
    assert any(reported in text for name, text in found if name == changed.name)


def dump(*arguments: object) -> list[dict[str, Any]]:
    found = CliRunner().invoke(main, ["dump", *map(str, arguments), "--format", "json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def test_contents_of_files(written: Path) -> None:
    log = written / "t_0"
    batches = [row for path in sorted(log.glob("*.kafka")) for row in dump(path)]
    assert sum(row["count"] for row in batches if not row["control"]) == 400
    assert [row["base_offset"] for row in batches[1:]] == [row["last_offset"] + 1 for row in batches[:-1]]
    assert (all(row["valid_crc"] for row in batches), sum(row["control"] for row in batches)) == (True, 20)
    first = a_segment(log, ".kafka")
    [record, *_] = dump(first, "--records")
    assert record == {"offset": 0, "timestamp": 1_000_000, "key": "key", "value": "x" * 100, "headers": []}
    positions = {row["last_offset"]: row["position"] for row in dump(a_segment(log, ".index").with_suffix(".kafka"))}
    for row in dump(a_segment(log, ".index")):
        assert positions[row["offset"]] == row["position"]
    assert dump(a_segment(log, ".timeindex"))[0]["timestamp"] >= 1_000_000
    aborted = [row for path in sorted(log.glob("*.txnindex")) for row in dump(path)]
    assert (len(aborted), aborted[0]["first_offset"] >= 20) == (10, True)
    assert len(dump(a_segment(log, ".snapshot"))) == 1
    points = dump(written / "recovery-point-offset-checkpoint")
    assert {"topic": "t", "partition": 0, "offset": batches[-1]["last_offset"] + 1} in points


def test_other_files(tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.touch()
    assert "expected a segment" in CliRunner().invoke(main, ["dump", str(other)]).stderr
