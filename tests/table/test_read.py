"""Bounded reads: which records, which columns, and what is said about wrong use."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest

from pylogbroker.client.errors import TopicRecreated
from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.extras import MissingExtra
from pylogbroker.table import RecordsDeleted, TableError, UndecodableRecord, forms, read_batches, read_table
from tests.spark.topics import Rec, Topics

HOUR_MS = 3_600_000
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


@pytest.fixture
def hours(topics: Topics) -> str:
    """Return a topic of two partitions, with a record for each hour from noon on, six in each partition."""
    topic = topics.make(partitions=2)
    topics.fill(
        topic,
        [
            Rec(b"p%d-%d" % (partition, hour), b"k%d" % hour, partition, NOON_MS + hour * HOUR_MS)
            for partition in range(2)
            for hour in range(6)
        ],
    )
    return topic


def values(table: pa.Table) -> list[str]:
    return [value.decode() for value in table.column("value").to_pylist()]


def test_all_columns_of_all_records(topics: Topics, place: dict[str, Any]) -> None:
    topic = topics.make(partitions=2)
    topics.fill(topic, [Rec(b"v", b"k", 1, NOON_MS, [("h", b"1"), ("h", None)]), Rec(None, None, 1, NOON_MS + 1)])
    assert read_table(topic, **place).to_pylist() == [
        {
            "partition": 1,
            "offset": 0,
            "timestamp": NOON,
            "key": b"k",
            "value": b"v",
            "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
            "timestamp_type": "CreateTime",
        },
        {
            "partition": 1,
            "offset": 1,
            "timestamp": NOON + timedelta(milliseconds=1),
            "key": None,
            "value": None,
            "headers": None,
            "timestamp_type": "CreateTime",
        },
    ]


def test_columns_come_in_the_order_of_their_names(hours: str, place: dict[str, Any]) -> None:
    table = read_table(hours, **place, columns=["topic", "offset", "partition"], partitions=[1], start=4)
    assert table.column_names == ["topic", "offset", "partition"]
    assert table.to_pylist() == [{"topic": hours, "offset": offset, "partition": 1} for offset in (4, 5)]


def test_log_append_times_are_named(topics: Topics, place: dict[str, Any]) -> None:
    topic = topics.make(message_timestamp_type="LogAppendTime")
    topics.fill(topic, [Rec(b"v")])
    assert read_table(topic, **place, columns=["timestamp_type"]).to_pylist() == [{"timestamp_type": "LogAppendTime"}]


@pytest.mark.parametrize(
    ("bounds", "hours_of_each"),
    [
        ({}, ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5])),
        ({"start": 2, "end": 4}, ([2, 3], [2, 3])),
        ({"start": -2}, ([4, 5], [4, 5])),
        ({"end": -5}, ([0], [0])),
        ({"start": -100, "end": 1}, ([0], [0])),
        ({"start": {1: 4}}, ([], [4, 5])),
        ({"start": {0: 5, 1: "earliest"}, "end": {1: 1}}, ([5], [0])),
        ({"start": "latest"}, ([], [])),
        ({"end": "earliest"}, ([], [])),
        ({"start": 3, "end": 1000}, ([3, 4, 5], [3, 4, 5])),
        ({"start": NOON + timedelta(hours=4)}, ([4, 5], [4, 5])),
        ({"start": NOON + timedelta(hours=4, microseconds=1)}, ([5], [5])),
        ({"start": "2026-01-02T16:00:00Z", "end": "2026-01-02T17:00:00Z"}, ([4], [4])),
        ({"end": "2026-01-02"}, ([], [])),
        ({"start": datetime(1960, 1, 1, tzinfo=UTC), "end": 1}, ([0], [0])),
        ({"start": timedelta(minutes=1)}, ([], [])),
        ({"start": "3650d", "end": 1}, ([0], [0])),
        ({"partitions": [1], "start": 5}, ([], [5])),
    ],
    ids=str,
)
def test_bounds(hours: str, place: dict[str, Any], bounds: dict[str, Any], hours_of_each: Any) -> None:
    expected = [f"p{partition}-{hour}" for partition in range(2) for hour in hours_of_each[partition]]
    assert values(read_table(hours, **place, **bounds)) == expected
    assert values(read_batches(hours, **place, **bounds).read_all()) == expected


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"start": 7}, "there is no offset 7 yet: .*/0 ends at 6"),
        ({"start": 4, "end": 2}, "the end 2 is offset 2, before the start 4"),
        ({"start": "yesterday"}, "start: 'yesterday' is not a time"),
        ({"start": "5"}, "start: '5' may be an offset or a time"),
        ({"start": 1.5}, "start: 1.5 is not accepted"),
        ({"start": True}, "start: True is not accepted"),
        ({"end": datetime(2026, 1, 1)}, "end: .* has no offset from UTC"),
        ({"start": {7: 1}}, "start: there is no partition 7 to read; expected 0, 1"),
        ({"start": 1 << 70}, "exceeds 64 bits"),
        ({"partitions": [2]}, "has no partition 2: it has 2, from 0 to 1"),
        ({"columns": ["offsets"]}, "there is no 'offsets'; did you mean offset?"),
        ({"columns": ["value.user"]}, "there is no 'value.user': value has no members; it is read as binary"),
        ({"columns": "offset"}, r"expected a list of names, such as \['offset'\]"),
        ({"columns": []}, "none is named"),
        ({"columns": ["key", "key"]}, "named twice"),
        ({"value": "yaml"}, "value: 'yaml' is not accepted; expected binary, text, json"),
        ({"value": "avro"}, 'value="avro" needs a schema registry'),
        ({"key": "text", "key_schema": pa.schema([])}, 'key_schema needs key="json"'),
        ({"value": "json", "value_schema": "int"}, "value_schema: str is not accepted"),
        ({"value": "json", "value_schema": {"a": "int"}}, "value_schema: No type alias for int; expected types"),
        ({"on_error": "skip"}, "on_error: 'skip' is not accepted; expected 'raise' or 'null'"),
        ({"settings": {"fetch.max.byte": 1}}, "fetch.max.byte"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(hours: str, place: dict[str, Any], bounds: dict[str, Any], message: str) -> None:
    for read in (read_table, read_batches):
        with pytest.raises((ConfigError, TableError), match=message):
            read(hours, **place, **bounds)


def test_a_missing_package_of_a_form_is_named(
    hours: str, place: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Missing:
        def __getattr__(self, name: str) -> object:
            raise ModuleNotFoundError(name="fastavro")

    monkeypatch.setattr(forms, "registry_columns", Missing())
    with pytest.raises(MissingExtra, match=r'value="avro" needs fastavro, which is not installed \(extra registry\)'):
        read_table(hours, **place, value="avro", schema_registry="http://127.0.0.1:1")


def test_an_unknown_topic_is_answered_with_names_that_are_near(topics: Topics, place: dict[str, Any]) -> None:
    topic = topics.make(name="orders-of-2026")
    with pytest.raises(KafkaError, match=f"there is no topic 'order-of-2026'; did you mean {topic}"):
        read_table("order-of-2026", **place)
    with pytest.raises(KafkaError, match="`pylogbroker topic list` lists those there are"):
        read_table("zzzzzzzz", **place)


def test_a_named_offset_that_was_deleted_is_an_error(topics: Topics, hours: str, place: dict[str, Any]) -> None:
    topics.trim(hours, 1, 3)
    with pytest.raises(RecordsDeleted, match=f'{hours}/1 begins at offset 3, not at 1: .* start="earliest"'):
        read_table(hours, **place, start=1)
    assert values(read_table(hours, **place, partitions=[1])) == ["p1-3", "p1-4", "p1-5"]
    assert values(read_table(hours, **place, partitions=[1], start=-100)) == ["p1-3", "p1-4", "p1-5"]


def test_records_that_are_deleted_before_an_open_start_is_read_are_not_missed(
    topics: Topics, hours: str, place: dict[str, Any]
) -> None:
    stream = read_batches(hours, **place, partitions=[0])
    topics.trim(hours, 0, 4)
    assert values(stream.read_all()) == ["p0-4", "p0-5"]


def test_records_that_are_deleted_after_a_named_start_are_missed(
    topics: Topics, hours: str, place: dict[str, Any]
) -> None:
    stream = read_batches(hours, **place, partitions=[0], start=0)
    topics.trim(hours, 0, 4)
    with pytest.raises(RecordsDeleted, match="records were deleted while they were read"):
        stream.read_all()


def test_a_topic_that_is_made_again_is_not_read_as_the_old_one(
    topics: Topics, hours: str, place: dict[str, Any]
) -> None:
    stream = read_batches(hours, **place, partitions=[0])
    topics.remake(hours)
    with pytest.raises(TopicRecreated, match="was deleted and created again"):
        stream.read_all()


def test_aborted_and_open_transactions_are_left_out(topics: Topics, place: dict[str, Any]) -> None:
    topic = topics.make()
    topics.transaction(topic, [Rec(b"a1"), Rec(b"a2")], commit=False)
    topics.transaction(topic, [Rec(b"c1")], commit=True)
    assert values(read_table(topic, **place)) == ["c1"]
    assert values(read_table(topic, **place, committed=False)) == ["a1", "a2", "c1"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_records(topics: Topics, place: dict[str, Any], codec: str) -> None:
    topic = topics.make()
    topics.fill(topic, [Rec(b"value %d" % number) for number in range(1000)], compression_type=codec, linger_ms=20)
    assert values(read_table(topic, **place)) == [f"value {number}" for number in range(1000)]


def test_a_stream_is_made_of_batches_that_are_read_as_it_is_consumed(topics: Topics, place: dict[str, Any]) -> None:
    topic = topics.make(partitions=2)
    topics.fill(topic, [Rec(bytes(100_000), None, number % 2) for number in range(120)])
    stream = read_batches(topic, **place, columns=["partition", "value"])
    sizes = [batch.num_rows for batch in stream]
    assert sum(sizes) == 120
    assert max(sizes) * 100_000 < 6_000_000


def test_polars_and_pandas_take_tables_and_streams(hours: str, place: dict[str, Any]) -> None:
    table = read_table(hours, **place, value="text", columns=["offset", "value", "timestamp"])
    expected = [f"p{partition}-{hour}" for partition in range(2) for hour in range(6)]
    assert pl.DataFrame(table)["value"].to_list() == expected
    assert pl.DataFrame(read_batches(hours, **place, value="text"))["value"].to_list() == expected
    frame = table.to_pandas()
    assert frame["value"].tolist() == expected
    assert frame["timestamp"].iloc[0] == pd.Timestamp(NOON)


def test_text_that_is_not_utf_8_is_named_or_null(topics: Topics, place: dict[str, Any]) -> None:
    topic = topics.make()
    topics.fill(topic, [Rec("ä".encode()), Rec(b"\xff\xfe"), Rec(None)])
    with pytest.raises(UndecodableRecord, match=f'{topic}/0, offset 1: the value cannot be decoded: .*value="binary"'):
        read_table(topic, **place, value="text")
    table = read_table(topic, **place, value="text", on_error="null", columns=["value"])
    assert table.column("value").to_pylist() == ["ä", None, None]
