"""An archive beside a broker that deletes: reads have each record once, also while segments are deleted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from pylogbroker.errors import ConfigError
from pylogbroker.spark.reading.batch_reader import BatchReader
from pylogbroker.spark.reading.schema import schema_for
from pylogbroker.spark.reading.stream_reader import StreamReader
from pylogbroker.table import RecordsDeleted, dataset, read_batches, read_table
from tests.spark.topics import Rec, Topics
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

COUNT = 400
TIME_MS = 1_767_355_200_000


@pytest.fixture(scope="module")
def archiving_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"log.retention.check.interval.ms": "100", "log.segment.delete.delay.ms": "10"}
    broker = BrokerProcess(tmp_path_factory.mktemp("archiving"), settings)
    broker.start()
    yield broker
    broker.stop()
    assert broker.unexpected_errors() == []


@pytest.fixture(scope="module")
def archived(archiving_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """Return a topic, of whose records the older ones are in an archive alone, and arguments to read it."""
    return filled(archiving_broker, tmp_path_factory.mktemp("archive"), "archived")


def filled(broker: BrokerProcess, root: Path, topic: str) -> tuple[str, dict[str, Any]]:
    with Topics(broker.bootstrap, lambda: f"{topic}-transaction") as topics:
        topics.make(name=topic, segment_bytes="2000", retention_ms="1000", delete_policies=f"archive-parquet:{root}")
        fill(topics, topic, 0, COUNT)
        topics.transaction(topic, [Rec(b"aborted")], commit=False)
        place = {"bootstrap_servers": broker.bootstrap}
        wait_until(lambda: first_offset(topic, place) >= COUNT * 3 // 4)
        return topic, {**place, "archive": root}


def fill(topics: Topics, topic: str, start: int, end: int) -> None:
    records = [Rec(b"%d" % number, b"k", 0, TIME_MS + number) for number in range(start, end)]
    topics.fill(topic, records, batch_num_messages=20)


def first_offset(topic: str, place: dict[str, Any]) -> int:
    return dataset(topic, **place).plan().ranges[0].start


def test_reads_across_archive_and_log(archived: tuple[str, dict[str, Any]]) -> None:
    topic, place = archived
    table = read_table(topic, **place, value="text")
    assert table["offset"].to_pylist() == list(range(COUNT))
    assert table["value"].to_pylist() == [str(number) for number in range(COUNT)]
    assert set(table["timestamp_type"].to_pylist()) == {"CreateTime"}
    assert read_batches(topic, **place, start=5, end=COUNT - 1).read_all()["offset"].to_pylist() == [
        *range(5, COUNT - 1)
    ]
    assert table.drop_columns(["value"]).num_rows == COUNT


def test_times_are_found_in_the_archive(archived: tuple[str, dict[str, Any]]) -> None:
    topic, place = archived
    condition = ds.field("offset") == 7
    [row] = dataset(topic, **place).scanner(["timestamp", "offset", "topic"], condition).to_table().to_pylist()
    assert row["topic"] == topic
    times = read_table(topic, **place, start=row["timestamp"], columns=["offset"])["offset"].to_pylist()
    assert times == list(range(7, COUNT))
    until = read_table(topic, **place, end=row["timestamp"], columns=["offset"])["offset"].to_pylist()
    assert until == list(range(7))


def test_a_read_goes_on_in_the_archive_where_the_log_is_deleted_meanwhile(
    archiving_broker: BrokerProcess, tmp_path: Path
) -> None:
    topic, place = filled(archiving_broker, tmp_path, "read-on")
    with Topics(archiving_broker.bootstrap, lambda: topic) as topics:
        fill(topics, topic, COUNT + 2, 3 * COUNT)
    settings = {"max.partition.fetch.bytes": 1000, "fetch.max.bytes": 1000}
    stream = read_batches(topic, **place, columns=["offset"], settings=settings)
    offsets = stream.read_next_batch()["offset"].to_pylist()
    plain = {"bootstrap_servers": archiving_broker.bootstrap}
    wait_until(lambda: first_offset(topic, plain) > 2 * COUNT)
    for batch in stream:
        offsets += batch["offset"].to_pylist()
    assert offsets == [*range(COUNT), *range(COUNT + 2, 3 * COUNT)]


def test_sparks_source_reads_across_archive_and_log(archived: tuple[str, dict[str, Any]]) -> None:
    topic, place = archived
    options = {
        "kafka.bootstrap.servers": place["bootstrap_servers"],
        "kafka.isolation.level": "read_committed",
        "subscribe": topic,
        "archive": str(place["archive"]),
        "minPartitions": "3",
    }
    for more, first in (({}, 0), ({"startingTimestamp": str(TIME_MS + 100)}, 100)):
        given = {**options, **more}
        reader = BatchReader.of(given, schema_for(given))
        slices = reader.partitions()
        assert len(slices) == 3
        offsets = [offset for part in slices for rows in reader.read(part) for offset in rows["offset"].to_pylist()]
        assert offsets == list(range(first, COUNT))
    for wrong, message in (({"archive": "/nonexistent"}, "option archive: /nonexistent is not a directory"),):
        with pytest.raises(ConfigError, match=message):
            BatchReader.of({**options, **wrong}, schema_for(options))
    with pytest.raises(ConfigError, match="a stream reads the log alone"):
        StreamReader(options)


def test_a_gap_is_an_error(archived: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    topic, place = archived
    copy = Path(shutil.copytree(place["archive"], tmp_path / "copy"))
    sorted(copy.rglob("*.parquet"))[1].unlink()
    with pytest.raises(RecordsDeleted, match=r"offsets \d+ to \d+ are neither in the log nor in"):
        read_table(topic, **{**place, "archive": copy})


def test_another_topic_of_that_name_has_another_archive(archived: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    topic, place = archived
    copy = Path(shutil.copytree(place["archive"], tmp_path / "copy"))
    [directory] = copy.glob("records/topic=*/topic_id=*")
    directory.rename(directory.with_name("topic_id=AAAAAAAAAAAAAAAAAAAABQ"))
    others = {**place, "archive": copy}
    assert first_offset(topic, others) == first_offset(topic, {**place, "archive": None}) > 0


def test_a_topic_that_is_made_again_has_an_archive_of_its_own(archiving_broker: BrokerProcess, tmp_path: Path) -> None:
    """Its offsets begin at zero again, where the archive already has files of the earlier topic."""
    topic, place = filled(archiving_broker, tmp_path, "again")
    earlier = {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")}
    with Topics(archiving_broker.bootstrap, lambda: topic) as topics:
        topics.delete(topic)
    assert filled(archiving_broker, tmp_path, topic) == (topic, place)
    assert read_table(topic, **place)["offset"].to_pylist() == list(range(COUNT))
    assert {path: path.read_bytes() for path in earlier} == earlier
    assert len({path.parent.parent.name for path in tmp_path.rglob("*.parquet")}) == 2


def test_a_directory_that_does_not_exist_is_an_error(archived: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    topic, place = archived
    with pytest.raises(ConfigError, match=r"archive: .* is not a directory"):
        read_table(topic, **{**place, "archive": tmp_path / "none"})
