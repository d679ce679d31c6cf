"""Archives in an object store, as Parquet files and as a table of Iceberg: reads across them and the log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import boto3
import pyarrow.fs as pafs
import pytest
from moto.server import ThreadedMotoServer
from pyiceberg.catalog.sql import SqlCatalog

from pylogbroker.errors import ConfigError
from pylogbroker.spark.reading.batch_reader import BatchReader
from pylogbroker.spark.reading.schema import schema_for
from pylogbroker.table import RecordsDeleted, connect, dataset, read_table
from pylogbroker.table.archive import iceberg
from tests.spark.topics import Rec, Topics
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

COUNT = 400
TIME_MS = 1_767_355_200_000
TABLE = "iceberg://local/logs.records"
USER, PASSWORD = "user", "secret"


@attrs.frozen
class Places:
    """A broker with two topics, whose older records are in the places of `archives` alone."""

    broker: BrokerProcess
    archives: dict[str, str]
    endpoint: str

    def arguments(self, kind: str) -> dict[str, Any]:
        return {"bootstrap_servers": self.broker.bootstrap, "archive": self.archives[kind]}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def places(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    root = tmp_path_factory.mktemp("places")
    keys = {"region_name": "us-east-1", "aws_access_key_id": USER, "aws_secret_access_key": PASSWORD}
    boto3.client("s3", endpoint_url=endpoint, **keys).create_bucket(Bucket="bucket")
    catalog = {
        "uri": f"sqlite:///{root}/catalog.db",
        "warehouse": "s3://bucket/warehouse",
        "s3.endpoint": endpoint,
        "s3.region": "us-east-1",
        "s3.access-key-id": USER,
        "s3.secret-access-key": PASSWORD,
    }
    variables = {
        f"PYICEBERG_CATALOG__LOCAL__{name.upper().replace('.', '__').replace('-', '_')}": value
        for name, value in catalog.items()
    }
    settings = {"log.retention.check.interval.ms": "100", "log.segment.delete.delay.ms": "10"}
    broker = BrokerProcess(root, settings, environment={**os.environ, **variables})
    broker.start()
    archive = root / "archive"
    with pytest.MonkeyPatch().context() as patched:
        patched.setattr(iceberg, "load_catalog", {"local": SqlCatalog("local", **catalog)}.__getitem__)
        fill(broker, "s3", f"archive-parquet:{archive}")
        fill(broker, "iceberg", f"archive-parquet:{TABLE}")
        uri = f"s3://{USER}:{PASSWORD}@bucket/copy?region=us-east-1&endpoint_override={endpoint}"
        store, path = pafs.FileSystem.from_uri(uri)
        pafs.copy_files(str(archive), path, pafs.LocalFileSystem(), store)
        yield Places(broker, {"s3": uri, "iceberg": TABLE}, endpoint)
    broker.stop()
    assert broker.unexpected_errors() == []


def fill(broker: BrokerProcess, topic: str, policy: str) -> None:
    """Fill a topic, and wait until its log has the last segment alone."""
    with Topics(broker.bootstrap, lambda: f"{topic}-transaction") as topics:
        topics.make(name=topic, segment_bytes="2000", retention_ms="1000", delete_policies=policy)
        records = [Rec(b"%d" % number, b"k", 0, TIME_MS + number, [("h", b"x")]) for number in range(COUNT)]
        topics.fill(topic, records, batch_num_messages=20)
        topics.transaction(topic, [Rec(b"aborted")], commit=False)
    directory = broker.partition_dir(topic, 0)
    wait_until(lambda: len(list(directory.glob("*.kafka"))) == 1, 120.0)
    assert dataset(topic, bootstrap_servers=broker.bootstrap).plan().ranges[0].start > COUNT // 2


@pytest.mark.parametrize("kind", ["s3", "iceberg"])
def test_reads_across_archive_and_log(places: Places, kind: str) -> None:
    place = places.arguments(kind)
    table = read_table(kind, **place, value="text")
    assert table["offset"].to_pylist() == list(range(COUNT))
    assert table["value"].to_pylist() == [str(number) for number in range(COUNT)]
    assert set(table["timestamp_type"].to_pylist()) == {"CreateTime"}
    assert table["headers"].to_pylist() == [[{"key": "h", "value": b"x"}]] * COUNT
    part = read_table(kind, **place, columns=["offset"], start=5, end=COUNT - 1)
    assert part["offset"].to_pylist() == list(range(5, COUNT - 1))
    late = table["timestamp"][7].as_py()
    assert read_table(kind, **place, columns=["offset"], start=late)["offset"].to_pylist() == list(range(7, COUNT))
    assert read_table(kind, **place, columns=["offset"], end=late)["offset"].to_pylist() == list(range(7))


@pytest.mark.parametrize("kind", ["s3", "iceberg"])
def test_sql_across_archive_and_log(places: Places, kind: str) -> None:
    place = places.arguments(kind)
    database = connect(place["bootstrap_servers"], topics=[kind], archive=place["archive"])
    query = f'SELECT count(*), min("offset"), count(DISTINCT value) FROM {kind} WHERE "offset" >= 100'
    assert database.sql(query).fetchall() == [(COUNT - 100, 100, COUNT - 100)]


@pytest.mark.parametrize("kind", ["s3", "iceberg"])
def test_sparks_source_reads_across_archive_and_log(places: Places, kind: str) -> None:
    place = places.arguments(kind)
    options = {
        "kafka.bootstrap.servers": place["bootstrap_servers"],
        "kafka.isolation.level": "read_committed",
        "subscribe": kind,
        "archive": place["archive"],
        "minPartitions": "3",
        "startingTimestamp": str(TIME_MS + 100),
    }
    reader = BatchReader.of(options, schema_for(options))
    slices = reader.partitions()
    assert len(slices) == 3
    offsets = [offset for part in slices for rows in reader.read(part) for offset in rows["offset"].to_pylist()]
    assert offsets == list(range(100, COUNT))


def test_another_topic_is_not_in_the_archive(places: Places) -> None:
    with pytest.raises(RecordsDeleted, match="begins at offset"):
        read_table("s3", **places.arguments("iceberg"), start=0)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("s3://{user}@bucket/none?endpoint_override={endpoint}&region=r", "there is nothing at s3://bucket/none"),
        ("nowhere://bucket/none", "nowhere://bucket/none cannot be opened"),
        ("iceberg://local/logs.none", "the catalog has no table logs.none"),
    ],
)
def test_a_wrong_place_is_named_without_credentials(places: Places, place: str, reason: str) -> None:
    uri = place.format(user=f"{USER}:{PASSWORD}", endpoint=places.endpoint)
    with pytest.raises(ConfigError, match=f"archive: {reason}") as caught:
        read_table("s3", **{**places.arguments("s3"), "archive": uri})
    assert PASSWORD not in str(caught.value)


def test_a_directory_within_an_archive_is_named(places: Places, tmp_path: Path) -> None:
    (tmp_path / "records" / "topic=orders").mkdir(parents=True)
    with pytest.raises(ConfigError, match=f"is within an archive; expected {tmp_path}$"):
        read_table("s3", **{**places.arguments("s3"), "archive": tmp_path / "records"})
