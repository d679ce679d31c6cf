"""Kafka's own DumpLogSegments on the files of a log: entries, both indexes and producer snapshots are as it expects."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pylogbroker.storage import LogConfig
from tests.peers.tools import tool
from tests.storage.support import NOW, batch, messages, open_log


def dumped(log_path: str, directory: Path) -> str:
    """What the tool says of all files; it looks at their names, so they get Kafka's."""
    directory.mkdir()
    for path in sorted(Path(log_path).iterdir()):
        shutil.copy(path, directory / path.name.replace(".kafka", ".log"))
    for path in directory.glob("*.log"):
        path.with_suffix(".index").touch()  # Kafka makes this file before there are entries
    wanted = [str(path) for path in sorted(directory.glob("0*"))]
    return tool("kafka-dump-log", "--files", ",".join(wanted)).stdout


def test_files_are_kafkas(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(segment_bytes=3000, index_interval_bytes=500))
    for number in range(60):
        sent = batch([b"%d" % number, b"y" * 30], [NOW + number % 40, NOW], producer=(7, 1, 2 * number))
        log.append(sent, NOW, leader_epoch=number // 20)
    log.close()
    said = dumped(log.path, tmp_path / "events-0")
    assert said.count("isvalid: true") == 60
    assert "isvalid: false" not in said
    assert "mismatch" not in said.lower()
    assert "not found" not in said.lower()
    assert re.findall(r"partitionLeaderEpoch: (\d+)", said) == ["0"] * 20 + ["1"] * 20 + ["2"] * 20
    assert len(re.findall(r"^offset: \d+ position: \d+$", said, re.MULTILINE)) == sum(
        len(segment.offset_index) for segment in log.segments
    )
    last_snapshot = said[said.rindex("producerId: 7 producerEpoch: 1 coordinatorEpoch") :]
    assert "firstSequence: 118 lastSequence: 119 lastOffset: 119 offsetDelta: 1" in last_snapshot


@pytest.mark.parametrize("magic", [0, 1])
def test_older_formats_are_kafkas(tmp_path: Path, magic: int) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(magic=magic, index_interval_bytes=100))
    for number in range(12):
        log.append(messages([b"%d" % number], magic, NOW + number), NOW)
    log.close()
    said = dumped(log.path, tmp_path / "events-0")
    assert len(re.findall(rf"magic: {magic}", said)) == 12
    assert "isvalid: false" not in said
    assert "mismatch" not in said.lower()
