"""The files of a partition, judged by Kafka's own `kafka-dump-log`: segments, offset index, time index, snapshot.

A file is judged under the name that Kafka would give it: `.log` for `.kafka`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tests.clients.adapters.base import CODECS, Client, Committer
from tests.clients.admin import create_topic
from tests.clients.model import START, Rec
from tests.conftest import make_broker
from tests.peers import available, tools
from tests.support.brokers import KAFKA_RELEASES, Broker

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
WRITERS = ("confluent", "afkak", "java-4")
RECORDS = 600


@pytest.fixture(scope="module")
def dumped(against: str, tmp_path_factory: pytest.TempPathFactory, client_named: Callable[[str], Client]) -> Path:
    """A copy of a partition's files, under Kafka's names, after the broker was stopped in order."""
    if against not in ("", *KAFKA_RELEASES):
        pytest.skip("the files of a broker that runs already are not known")
    broker = make_broker(against, tmp_path_factory.mktemp("broker"), {})
    broker.start()
    try:
        _fill(broker.bootstrap, client_named)
        cast(Committer, client_named("kafka-python")).commit(broker.bootstrap, "gruppe", "dumped", 0, 7, "sieben")
        assert broker.stop() == 0
    finally:
        broker.kill()
    return _copies(broker, tmp_path_factory.mktemp("copies"))


def _fill(bootstrap: str, client_named: Callable[[str], Client]) -> None:
    configs = {"segment.bytes": "8192", "index.interval.bytes": "1024"}
    create_topic(bootstrap, "dumped", configs=configs)
    for number in range(0, RECORDS, 20):
        writer = client_named(WRITERS[number // 20 % len(WRITERS)])
        codec = CODECS[number // 60 % len(writer.can.codecs)]
        records = [Rec(_value(each), key=b"k", timestamp=START + each) for each in range(number, number + 20)]
        writer.write(bootstrap, "dumped", records, codec=codec, idempotent=writer.name == "java-4")


def _value(number: int) -> bytes:
    return f"value {number} ".encode() * 10


def _copies(broker: Broker, target: Path) -> Path:
    for partition in ("dumped", "__consumer_offsets"):
        numbers = range(5) if partition == "__consumer_offsets" else range(1)
        for number in numbers:
            for file in broker.partition_dir(partition, number).iterdir():
                name = file.name.removesuffix(broker.segment_suffix)
                renamed = name + ".log" if name != file.name else name
                (target / f"{partition}-{number}").mkdir(exist_ok=True)
                shutil.copy(file, target / f"{partition}-{number}" / renamed)
    return target


def dump(files: list[Path], *options: str) -> str:
    return tools.tool("kafka-dump-log", "--files", ",".join(map(str, files)), *options).stdout


def test_every_record_is_found_in_the_segments(dumped: Path) -> None:
    segments = sorted((dumped / "dumped-0").glob("*.log"))
    assert len(segments) > 2
    text = dump(segments, "--deep-iteration", "--print-data-log")
    offsets = [int(number) for number in re.findall(r"^\| offset: (\d+) ", text, re.MULTILINE)]
    assert offsets == list(range(RECORDS))
    payloads = re.findall(r"payload: (.*)$", text, re.MULTILINE)
    assert [each.encode() for each in payloads] == [_value(number) for number in range(RECORDS)]
    assert "isvalid: false" not in text
    codecs = set(re.findall(r"compresscodec: (\w+)", text))
    assert {each.lower() for each in codecs} == set(CODECS)


def test_segments_are_named_by_their_first_offsets(dumped: Path) -> None:
    for segment in sorted((dumped / "dumped-0").glob("*.log")):
        first = re.search(r"baseOffset: (\d+)", dump([segment]))
        assert first is not None
        assert int(segment.stem) == int(first[1])


def test_indexes_agree_with_the_segments(dumped: Path) -> None:
    """The tool reads each segment along with its index and complains of entries that do not agree."""
    indexes = sorted((dumped / "dumped-0").glob("*.index"))
    checked = dump(indexes, "--index-sanity-check")
    assert checked.count("passed sanity check") == len(indexes)
    text = dump(indexes) + dump(sorted((dumped / "dumped-0").glob("*.timeindex")))
    assert re.search(r"offset: \d+ position: \d+", text)
    assert re.search(r"timestamp: \d+ offset: \d+", text)
    for error_line in ("Found", "mismatch", "out of order", "not found", "non-consecutive", "Non-consecutive"):
        assert error_line not in text


def test_producer_snapshots_are_kafkas(dumped: Path) -> None:
    snapshots = sorted((dumped / "dumped-0").glob("*.snapshot"))
    assert snapshots
    text = dump(snapshots[-1:])
    assert re.search(r"producerId: \d+ producerEpoch: 0 .*lastSequence: 19 lastOffset: \d+", text)


def test_commits_are_kept_in_kafkas_layout(dumped: Path) -> None:
    segments = [each for each in sorted(dumped.glob("__consumer_offsets-*/*.log")) if each.stat().st_size]
    text = "".join(dump([each], "--offsets-decoder") for each in segments)
    assert re.search(r'"group":"gruppe","topic":"dumped","partition":0.*"offset":7,.*"metadata":"sieben"', text)
