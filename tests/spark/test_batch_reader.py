"""Reading batches: what tasks give of a slice when the log is not as it was, and what the planner makes of filters."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, GreaterThan, GreaterThanOrEqual, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.blocking.fetcher import PartitionFetcher
from pylogbroker.client.coordinator_requests import CoordinatorType
from pylogbroker.client.errors import NoBrokers, OutOfRange
from pylogbroker.errors import ConfigError, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.spark import register
from pylogbroker.spark.options import ReadOptions
from pylogbroker.spark.options import TopicSelection as Asked
from pylogbroker.spark.reading import batch_reader
from pylogbroker.spark.reading.batch_reader import BatchReader, FilteringReader, rows_of
from pylogbroker.spark.reading.bounds import missing, offsets_for, partitions_for
from pylogbroker.spark.reading.losses import DataLost
from pylogbroker.spark.reading.schema import schema_for
from pylogbroker.spark.reading.slices import Slice
from pylogbroker.spark.source import PylogbrokerSource
from pylogbroker.wire.messages.fetch import PartitionData
from tests.spark.short_times import error_of, in_time
from tests.spark.topics import Rec, Topics
from tests.support.brokers import Broker

ROOT = Path(__file__).parents[2]
PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


def options_of(bootstrap: str, **options: Any) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap, **{name: str(value) for name, value in options.items()}}


def planned(reader: BatchReader) -> list[Slice]:
    return [part.value for part in reader.partitions()]


def values(name: str, count: int, partition: int = 0) -> list[Rec]:
    return [Rec(f"{name}{number}".encode(), partition=partition) for number in range(count)]


def read(bootstrap: str, part: Slice, **options: Any) -> list[str]:
    found = ReadOptions.parse(options_of(bootstrap, subscribe=part.topic, **options), streaming=False)
    return [value.decode() for rows in rows_of(found, part) for value in rows.column("value").to_pylist()]


def test_the_rows_are_of_sparks_types(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, [Rec(b"v", headers=[("a", b"b")])])
    for more in ({}, {"includeHeaders": "true"}):
        given = options_of(topics.bootstrap, subscribe=topic, **more)
        reader = BatchReader.of(given, schema_for(given))
        reader, [part] = pickle.loads(pickle.dumps((reader, reader.partitions())))
        [rows] = reader.read(part)
        assert isinstance(rows, pa.RecordBatch)
        assert rows.schema.equals(to_arrow_schema(schema_for(given), timezone="UTC"))


def test_other_columns_are_rejected(topics: Topics) -> None:
    given = options_of(topics.bootstrap, subscribe="t")
    with pytest.raises(ConfigError, match="the columns are always struct<key:binary,value:binary"):
        BatchReader.of(given, StructType().add("value", "binary"))


def test_topics_without_records(topics: Topics) -> None:
    topic = topics.make(3)
    given = options_of(topics.bootstrap, subscribe=topic)
    reader = BatchReader.of(given, schema_for(given))
    assert reader.partitions() == []
    none = type("Partition", (), {"value": None})()
    assert list(reader.read(none)) == []


def test_missing_topics_partitions_and_offsets_are_errors(topics: Topics) -> None:
    topic = topics.make(2)
    topics.fill(topic, values("a", 3))
    for options, text in (
        ({"subscribe": f"{topic},nowhere-at-all"}, "no such topic or partition: nowhere-at-all"),
        ({"assign": json.dumps({topic: [1, 2]})}, f"no such topic or partition: {topic}/2"),
        ({"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 1}})}, f"{topic}/1 is not given"),
        ({"subscribe": topic, "endingOffsets": json.dumps({topic: {"0": 1, "1": 1, "2": 1}})}, f"{topic}/2 is not"),
        ({"subscribe": topic, "startingTimestamp": 2**45}, "no record with a timestamp of"),
        (
            {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 9, "1": 0}})},
            "from offset 9, but ends at 3",
        ),
        (
            {
                "subscribe": topic,
                "startingOffsets": json.dumps({topic: {"0": 2, "1": 0}}),
                "endingTimestamp": 1,
            },
            "from offset 2, but up to 0",
        ),
    ):
        with pytest.raises(PylogbrokerError, match=text):
            planned(BatchReader(options_of(topics.bootstrap, **options)))
    pattern = options_of(topics.bootstrap, subscribePattern="^nowhere-at-all$")
    assert planned(BatchReader(pattern)) == []


def test_bounds_that_the_log_no_longer_has_are_a_loss(topics: Topics) -> None:
    """Whichever option they come from."""
    topic = topics.make()
    topics.fill(topic, [Rec(b"a%d" % number, timestamp=1000 + number) for number in range(10)])
    topics.trim(topic, 0, 4)
    beyond = {"startingOffsets": json.dumps({topic: {"0": 20}})}
    for options, text in (
        (beyond, "is to be read from offset 20, but ends at 10"),
        ({**beyond, "endingOffsets": "latest"}, "is to be read from offset 20, but ends at 10"),
        ({**beyond, "endingOffsets": json.dumps({topic: {"0": -1}})}, "is to be read from offset 20, but ends at 10"),
        ({**beyond, "endingTimestamp": 1008}, "is to be read from offset 20, but ends at 10"),
        ({**beyond, "endingTimestamp": 5000}, "is to be read from offset 20, but ends at 10"),
        (
            {"startingOffsets": "earliest", "endingOffsets": json.dumps({topic: {"0": 3}})},
            "is to be read from offset 4 up to 3, but begins at 4",
        ),
    ):
        given = options_of(topics.bootstrap, subscribe=topic, **options)
        with pytest.raises(DataLost, match=f"{topic}/0 {text}.* set the option failOnDataLoss to false"):
            planned(BatchReader(given))
        assert planned(BatchReader({**given, "failOnDataLoss": "false"})) == []


def test_a_topic_that_is_recreated_after_planning_is_not_read(topics: Topics) -> None:
    """Spark plans a DataFrame once, and reads it with each action."""
    topic = topics.make()
    topics.fill(topic, values("old", 3))
    given = options_of(topics.bootstrap, subscribe=topic)
    lenient, strict = BatchReader({**given, "failOnDataLoss": "false"}), BatchReader(given)
    [part] = strict.partitions()
    topics.remake(topic)
    topics.fill(topic, values("new", 5))
    reader, part = pickle.loads(pickle.dumps((strict, part)))
    with pytest.raises(DataLost, match=f"{topic}/0: topic {topic} was deleted and created again: its id was"):
        list(reader.read(part))
    assert list(lenient.read(part)) == []


def test_records_that_come_while_it_is_planned(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range from the latest to the latest has nothing, or what came in between."""
    topic = topics.make()
    topics.fill(topic, values("a", 3))

    def offsets_and_more(*given: Any, **named: Any) -> Any:
        found = offsets_for(*given, **named)
        topics.fill(topic, values("b", 2))
        return found

    monkeypatch.setattr(batch_reader, "offsets_for", offsets_and_more)
    late = {"startingTimestamp": 2**45, "startingOffsetsByTimestampStrategy": "latest"}
    assert planned(BatchReader(options_of(topics.bootstrap, subscribe=topic, **late))) == [Slice(topic, 0, 3, 5)]


def test_topics_that_are_not_for_everybody(topics: Topics) -> None:
    """They match no pattern, but can be named."""
    options = ReadOptions.parse(options_of(topics.bootstrap, subscribePattern="."), streaming=False)
    with BlockingCluster(options.settings) as cluster:
        cluster.retrying(lambda: cluster.coordinator("some-group", CoordinatorType.GROUP))
        topic = topics.make()
        found = {name for name, _ in partitions_for(cluster, options.topics)}
        assert topic in found
        assert "__consumer_offsets" not in found
        assert partitions_for(cluster, Asked(names=("__consumer_offsets",)))


def test_records_that_are_gone(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, values("a", 8))
    topics.trim(topic, 0, 5)
    with pytest.raises(DataLost, match=rf"{topic}/0 has no offset 2: it has those from 5 to 8.*failOnDataLoss"):
        read(topics.bootstrap, Slice(topic, 0, 2, 8))
    lenient = {"failOnDataLoss": "false"}
    assert read(topics.bootstrap, Slice(topic, 0, 2, 7), **lenient) == ["a5", "a6"]
    assert read(topics.bootstrap, Slice(topic, 0, 2, 5), **lenient) == []


def test_a_log_that_ends_too_early(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, values("a", 3))
    quick = {"kafkaConsumer.pollTimeoutMs": 100, "kafka.fetch.max.wait.ms": 20}
    for start in (1, 7):
        with pytest.raises(DataLost, match=rf"{topic}/0 has no offset {max(start, 3)}: it has those from 0 to 3"):
            read(topics.bootstrap, Slice(topic, 0, start, 9), **quick)
    lenient = {**quick, "failOnDataLoss": "false"}
    assert read(topics.bootstrap, Slice(topic, 0, 1, 9), **lenient) == ["a1", "a2"]
    assert read(topics.bootstrap, Slice(topic, 0, 7, 9), **lenient) == []


def test_an_offset_that_is_there_again(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recreated log has the offset by the time of the request for its end."""
    topic = topics.make()
    topics.fill(topic, values("a", 8))
    answer, wrong = PartitionFetcher._answer, OutOfRange(topic, 0, 2, 0, 8)
    rejected: list[int] = []

    def refusing_once(fetcher: PartitionFetcher) -> PartitionData:
        if not rejected:
            rejected.append(fetcher.position)
            raise wrong
        return answer(fetcher)

    monkeypatch.setattr(PartitionFetcher, "_answer", refusing_once)
    assert read(topics.bootstrap, Slice(topic, 0, 2, 7), failOnDataLoss="false") == ["a2", "a3", "a4", "a5", "a6"]
    rejected.clear()
    with pytest.raises(DataLost, match=f"{topic}/0 has no offset 2"):
        read(topics.bootstrap, Slice(topic, 0, 2, 7))


def test_from_earliest_is_from_where_the_log_begins_when_it_is_read(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, values("a", 8))
    whole = options_of(topics.bootstrap, subscribe=topic, maxRecordsPerPartition=4)
    each = {**whole, "startingOffsets": json.dumps({topic: {"0": -2}})}
    fixed = {**whole, "startingOffsets": json.dumps({topic: {"0": 0}})}
    planned_before = [(reader, reader.partitions()) for reader in map(BatchReader, (whole, each, fixed))]
    topics.trim(topic, 0, 5)
    found = [values_of(reader, parts) for reader, parts in planned_before[:2]]
    assert found == [["a5", "a6", "a7"]] * 2
    with pytest.raises(DataLost, match=f"{topic}/0 has no offset 0"):
        values_of(*planned_before[2])


def values_of(reader: BatchReader, parts: Iterable[InputPartition]) -> list[str]:
    return [
        value.decode() for part in parts for rows in reader.read(part) for value in rows.column("value").to_pylist()
    ]


def test_much_that_is_assigned_is_looked_for_at_once() -> None:
    class Looked(list[TopicPartition]):
        times = 0

        def __iter__(self) -> Iterator[TopicPartition]:
            self.times += 1
            return super().__iter__()

    assigned = tuple(("t", number) for number in range(100))
    found = Looked(assigned[:90])
    with BlockingCluster(ReadOptions.parse(options_of("nobody:1", subscribe="t"), streaming=False).settings) as cluster:
        assert missing(cluster, Asked(assigned=assigned), found) == [f"t/{number}" for number in range(90, 100)]
    assert found.times == 1


def test_a_topic_that_is_gone(topics: Topics) -> None:
    part = Slice(topics.fresh_name(), 0, 0, 5)

    def read_quickly(milliseconds: int, **more: str) -> list[str]:
        return read(topics.bootstrap, part, **{"kafka.default.api.timeout.ms": milliseconds}, **more)

    error_of(read_quickly, DataLost, "has no such topic or partition")
    assert in_time(lambda milliseconds: read_quickly(milliseconds, failOnDataLoss="false")) == []


def test_a_broker_that_does_not_answer_is_no_loss(new_broker: Callable[..., Broker]) -> None:
    """Whatever failOnDataLoss says: the records are still there."""
    broker = new_broker()
    broker.start()
    broker.stop()
    quick = {"kafka.default.api.timeout.ms": 100, "failOnDataLoss": "false"}
    with pytest.raises(NoBrokers, match="cannot connect"):
        read(broker.bootstrap, Slice("t", 0, 0, 5), **quick)


def test_a_broker_that_is_killed_in_the_middle(
    new_broker: Callable[..., Broker], fresh_name: Callable[[], str]
) -> None:
    broker = new_broker()
    broker.start()
    with Topics(broker.bootstrap, fresh_name) as topics:
        topic = topics.make()
        for start in range(0, 30_000, 1_000):  # so that there are many batches, however slow the machine is
            topics.fill(topic, [Rec(b"%06d" % number * 20) for number in range(start, start + 1_000)])
    small = {"kafka.max.partition.fetch.bytes": 100_000}
    options = ReadOptions.parse(options_of(broker.bootstrap, subscribe=topic, **small), streaming=False)
    timer = threading.Timer(0.3, broker.start)
    offsets: list[int] = []
    for number, rows in enumerate(rows_of(options, Slice(topic, 0, 10, 29_990))):
        offsets += rows.column("offset").to_pylist()
        if number == 2:
            broker.kill()
            timer.start()
    timer.join()
    assert offsets == list(range(10, 29_990))
    assert number > 10


def test_damage_is_reported_unless_it_is_not_looked_for(
    new_broker: Callable[..., Broker], fresh_name: Callable[[], str], against: str
) -> None:
    if against:
        pytest.skip("how a broker looks at its own files is its own affair")
    broker = new_broker()
    broker.start()
    with Topics(broker.bootstrap, fresh_name) as topics:
        topic = topics.make()
        topics.fill(topic, [Rec(b"value" * 10)])
        [file] = broker.partition_dir(topic, 0).glob("*" + broker.segment_suffix)
        data = file.read_bytes()
        with file.open("r+b") as log:
            log.write(data.replace(b"valuevalue", b"damagedval", 1))
        with pytest.raises(KafkaError, match=r"checksum|CRC"):
            read(broker.bootstrap, Slice(topic, 0, 0, 1))
        [value] = read(broker.bootstrap, Slice(topic, 0, 0, 1), **{"kafka.check.crcs": "false"})
        assert value.startswith("damagedval")


# -- filters -------------------------------------------------------------------------------------------------------


def test_filters_narrow_the_read_range(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = topics.make(3, retention_ms="-1")
    late = 1_700_000_000_000
    for number in range(3):
        records = [Rec(b"v", partition=number, timestamp=late - 5 + step + number) for step in range(10)]
        topics.fill(topic, records)
    given = options_of(topics.bootstrap, subscribe=topic, pushFilters="true")
    assert type(BatchReader.of(given, schema_for(given))) is BatchReader
    monkeypatch.setitem(sys.modules, PUSHING, sys)
    assert type(BatchReader.of(options_of(topics.bootstrap, subscribe=topic), schema_for(given))) is BatchReader
    reader = BatchReader.of(given, schema_for(given))
    assert isinstance(reader, FilteringReader)
    since = GreaterThanOrEqual(("timestamp",), datetime.fromtimestamp(late / 1000, UTC))
    filters: list[Filter] = [GreaterThan(("partition",), 0), since, EqualTo(("key",), b"k")]
    assert list(reader.pushFilters(filters)) == [since, filters[2]]
    assert planned(reader) == [Slice(topic, 1, 4, 10), Slice(topic, 2, 3, 10)]
    reader.pushFilters([GreaterThan(("timestamp",), datetime.fromtimestamp(2 * late / 1000, UTC))])
    assert planned(reader) == []


@pytest.mark.one_broker
def test_spark_asks_for_filters_as_we_think(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make(2)
    topics.fill(topic, [*values("a", 5), *values("b", 5, 1)])

    def load(**options: Any) -> Any:
        return (
            spark.read.format("pylogbroker").options(**options_of(topics.bootstrap, subscribe=topic, **options)).load()
        )

    where = "partition = 1 AND offset >= 3 AND value != 'b3'"
    whole = load(pushFilters="true").where(where).select("value")  # Spark's setting is off
    assert whole.rdd.getNumPartitions() == 2
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        narrowed, without = load(pushFilters="true").where(where).select("value"), load().where(where).select("value")
        assert (narrowed.rdd.getNumPartitions(), without.rdd.getNumPartitions()) == (1, 2)
        found = [[row.value for row in frame.collect()] for frame in (whole, narrowed, without)]
        assert load().count() == 10
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert found == [[b"b4"]] * 3


# -- how Spark finds it --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "is_old"), [("4.1.2", True), ("3.5.10", True), ("4.2.0", False), ("10.0", False)])
def test_a_pyspark_that_is_too_old_is_reported(version: str, is_old: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", version)
    with pytest.raises(ConfigError, match=f"PySpark {version} is too old: install 4.2") if is_old else nullcontext():
        PylogbrokerSource({})


def test_importing_the_source_is_light() -> None:
    code = (
        "import sys, pyspark.sql.datasource\nbefore = set(sys.modules)\nimport pyspark_pylogbroker\n"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})\n"
        "assert pyspark_pylogbroker.DefaultSource.name() == 'pylogbroker'"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert set(shown.stdout.split()) == {"pylogbroker", "pyspark_pylogbroker"}


def test_registered_by_hand(spark: SparkSession) -> None:
    register(spark)
    frame = spark.read.format("pylogbroker").options(**options_of("127.0.0.1:1", subscribe="t")).load()
    assert frame.schema == schema_for({})


def test_a_reader_without_filters_has_sparks_own_method() -> None:
    """Spark finds out by an AttributeError whether a reader has them."""
    assert BatchReader.pushFilters is DataSourceReader.pushFilters
    assert FilteringReader.pushFilters is not DataSourceReader.pushFilters
