"""Rows hold what `LogEntry.records` finds, in every format, with Spark's types; and nothing but that."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.errors import CorruptRecords, InvalidRecords
from pylogbroker.records import Codec, Record, TimestampType, build, end_marker, entries
from pylogbroker.records.columnar import AbortedTransactions
from pylogbroker.table import spans
from pylogbroker.table.decoder import TYPES, Decoded, Decoder, columns_with
from tests.records.reference_codecs import FORMATS, PEERS, Peer
from tests.records.strategies import records_for
from tests.support.examples import examples

ALL = tuple(TYPES)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FAR = 1 << 62
Row = tuple[Any, ...]


def rows(data: bytes, start: int = 0, end: int = FAR, columns: tuple[str, ...] = ALL, **others: Any) -> list[Row]:
    found: list[Row] = []
    for part in Decoder("clicks", 7, columns).decode(data, start, end, **others):
        part.rows.validate(full=True)
        found += plain(part.rows)
    return found


def plain(batch: pa.RecordBatch) -> list[Row]:
    """Rows as tuples; timestamps as microseconds, for `datetime` ends with the year 9999."""
    each = [array.cast(pa.int64()) if array.type == TYPES["timestamp"] else array for array in batch.columns]
    return list(zip(*(array.to_pylist() for array in each), strict=True))


def row(record: Record, magic: int) -> Row:
    """Return the row of a record in Spark's Kafka source."""
    headers = [{"key": key, "value": value} for key, value in record.headers] or None
    kind = int(record.timestamp_type) if magic else -1
    return (record.key, record.value, "clicks", 7, record.offset, record.timestamp * 1000, kind, headers)


def one_by_one(data: bytes, start: int = 0, end: int = FAR) -> list[Row]:
    """Return the rows of the plain decoder."""
    return [
        row(record, entry.magic)
        for entry in entries(data, partial=True)
        for record in entry.records()
        if start <= record.offset < end and not entry.is_control
    ]


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Entries of all formats, one after the other, some of them with gaps."""
    data, offset = b"", draw(st.sampled_from([0, 5, 1 << 40]))
    for magic, codec in draw(st.lists(st.sampled_from(FORMATS), min_size=1, max_size=5)):
        gap = draw(st.integers(1, 100))
        kept = [shifted(each, offset + each.offset * gap) for each in draw(records_for(magic))]
        kind = draw(st.sampled_from(TimestampType))
        data += build(kept, magic=magic, codec=codec, base_offset=None, timestamp_type=kind, append_time=1 << 41)
        offset = kept[-1].offset + draw(st.integers(1, 100))
    return data


def shifted(record: Record, offset: int) -> Record:
    return Record(offset, record.timestamp, record.key, record.value, record.headers)


@given(logs())
@settings(max_examples=examples(150), deadline=None)
def test_every_format(data: bytes) -> None:
    assert rows(data) == one_by_one(data)


@given(logs(), st.data())
@settings(max_examples=examples(150), deadline=None)
def test_from_an_offset_to_another_and_cut_off(data: bytes, draw: st.DataObject) -> None:
    offsets = [each[4] for each in one_by_one(data)]
    start, end = sorted(draw.draw(st.sampled_from(offsets)) + draw.draw(st.integers(-1, 1)) for _ in range(2))
    cut = data[: draw.draw(st.integers(0, len(data)))]
    assert rows(cut, start, end) == one_by_one(cut, start, end)


@given(logs(), st.lists(st.sampled_from(ALL), min_size=1, unique=True))
@settings(max_examples=examples(60), deadline=None)
def test_any_columns_in_any_order(data: bytes, names: list[str]) -> None:
    places = [ALL.index(name) for name in names]
    expected = [tuple(each[place] for place in places) for each in one_by_one(data)]
    assert rows(data, columns=tuple(names)) == expected


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_batches_of_other_writers_are_decoded(peer: Peer, magic: int) -> None:
    records = [Record(each, 1500 + each if magic else -1, b"k%d" % each, b"v" * each) for each in range(100)]
    assert rows(peer.write(records, magic, Codec.GZIP)) == [row(each, magic) for each in records]


def test_constant_columns_are_built_once() -> None:
    """Later rows share them, and Spark's worker sends only their own part of them."""
    records = [Record(number, 5, b"k", b"v") for number in range(1000)]
    decoder = Decoder("clicks", 7, ALL)
    [many] = decoder.decode(build(records), 0, FAR)
    [few] = decoder.decode(build(records[:3]), 0, FAR)
    assert plain(few.rows) == [row(record, 2) for record in records[:3]]
    for name in ("topic", "partition"):
        assert few.rows.column(name).buffers()[-1].address == many.rows.column(name).buffers()[-1].address
    assert pa.ipc.get_record_batch_size(few.rows) < 2000


def test_constant_columns_grow() -> None:
    decoder = Decoder("clicks", 7, ALL)
    for count in (2, 5, 3, 9):
        records = [Record(number, 5, b"k", b"v") for number in range(count)]
        [part] = decoder.decode(build(records), 0, FAR)
        part.rows.validate(full=True)
        assert plain(part.rows) == [row(record, 2) for record in records]


def test_types() -> None:
    """Types are those of PySpark's `to_arrow_schema` for the columns of Spark's Kafka source."""
    [part] = Decoder("clicks", 7, columns_with(headers=True)).decode(build([Record(0, 5, b"k", b"v")]), 0, 1)
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    expected = pa.schema(
        [
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("topic", pa.string()),
            pa.field("partition", pa.int32()),
            pa.field("offset", pa.int64()),
            pa.field("timestamp", pa.timestamp("us", tz="UTC")),
            pa.field("timestampType", pa.int32()),
            pa.field("headers", pa.list_(pa.field("element", header))),
        ]
    )
    assert part.rows.schema.equals(expected)
    assert Decoder("clicks", 7).schema.names == expected.names[:-1]


def test_rows_through_arrow_streams() -> None:
    """Rows reach the JVM as Arrow streams."""
    records = [
        Record(each, 5, b"k" if each % 2 else None, b"v" * each, (("a", b"b"),) * (each % 3)) for each in range(50)
    ]
    [part] = Decoder("clicks", 7, ALL).decode(build(records), 10, 40)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, part.rows.schema) as writer:
        writer.write_batch(part.rows)
    [back] = pa.ipc.open_stream(sink.getvalue())
    assert plain(back) == [row(each, 2) for each in records[10:40]]


def test_a_time_as_python_has_it() -> None:
    [[time]] = [
        part.rows["timestamp"].to_pylist() for part in decoded(build([Record(0, 1_700_000_000_123, None, b"v")]))
    ]
    assert time == EPOCH + timedelta(milliseconds=1_700_000_000_123)


def decoded(data: bytes, start: int = 0, end: int = FAR, **others: Any) -> list[Decoded]:
    return list(Decoder("clicks", 7, ALL).decode(data, start, end, **others))


def test_times_that_microseconds_cannot_express_are_null() -> None:
    farthest = ((1 << 63) - 1) // 1000
    times = [-1, 0, farthest, -farthest]
    assert [each[5] for each in rows(build([Record(0, time, None, b"v") for time in times]))] == [
        time * 1000 for time in times
    ]
    beyond = [farthest + 1, -farthest - 1, 5]
    found = rows(build([Record(0, time, None, b"v") for time in beyond]))
    assert [each[5] for each in found] == [None, None, 5000]


def test_smallest_time_is_null() -> None:
    """Its absolute value does not fit into 64 bits."""
    [found] = rows(build([Record(0, -(1 << 63), None, b"v")], magic=1))
    assert found[5] is None


def test_formats_without_timestamps_between_others() -> None:
    data = b"".join(
        build([Record(0, -1 if magic == 0 else 5, None, b"v")], magic=magic, base_offset=offset)
        for offset, magic in enumerate([1, 0, 0, 1, 2, 0])
    )
    assert [each[4:7] for each in rows(data)] == [
        (0, 5000, 0),
        (1, -1000, -1),
        (2, -1000, -1),
        (3, 5000, 0),
        (4, 5000, 0),
        (5, -1000, -1),
    ]


def test_header_keys_that_are_not_utf_8() -> None:
    data = build([Record(0, 5, None, b"v", (("a", b"\xff"), ("b\udcff", None)))])
    assert rows(data, columns=("headers",)) == [
        ([{"key": "a", "value": b"\xff"}, {"key": "b\N{REPLACEMENT CHARACTER}", "value": None}],)
    ]


def test_many_headers() -> None:
    records = [Record(each, 5, None, None, (("k" * each, b"v" * each),) * (each % 90)) for each in range(200)]
    assert rows(build(records)) == [row(each, 2) for each in records]


def transactional(producer: int, base: int, count: int = 2) -> bytes:
    records = [Record(0, 5, None, b"v")] * count
    return build(records, base_offset=base, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)


def marker(producer: int, offset: int, *, committed: bool) -> bytes:
    return struct.pack(">q", offset) + end_marker(committed, 0, producer, 0, 5)[8:]


def offsets(found: list[Decoded]) -> list[int]:
    return [offset for part in found for offset in part.rows["offset"].to_pylist()]


def test_transactions() -> None:
    data = b"".join((
        transactional(1, 0), transactional(2, 2), build([Record(0, 5, None, b"v")], base_offset=4),
        marker(1, 5, committed=False), transactional(1, 6), marker(2, 8, committed=True),
        transactional(2, 9), marker(1, 11, committed=True), marker(2, 12, committed=False),
    ))  # fmt: skip
    everything = decoded(data)
    assert offsets(everything) == [0, 1, 2, 3, 4, 6, 7, 9, 10]
    committed = decoded(data, aborted=AbortedTransactions([(2, 9), (1, 0)]))
    assert offsets(committed) == [2, 3, 4, 6, 7]
    assert everything[-1].next_offset == committed[-1].next_offset == 13


def test_a_marker_alone_has_no_rows() -> None:
    [part] = decoded(marker(1, 5, committed=False))
    assert (part.rows.num_rows, part.rows.schema, part.next_offset) == (0, Decoder("", 0, ALL).schema, 6)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_the_next_offset(magic: int) -> None:
    """The reader goes on with it until it is the end."""
    lot = [build([Record(0, -1, None, b"v")] * 3, magic=magic, base_offset=base) for base in (0, 3, 20)]
    assert [part.next_offset for part in decoded(b"".join(lot[:2]), 0, 30)][-1] == 6
    assert [part.next_offset for part in decoded(b"".join(lot), 0, 4)][-1] == 4
    assert [part.next_offset for part in decoded(b"".join(lot), 0, 10)][-1] == 10
    assert [part.next_offset for part in decoded(lot[2], 6, 10)][-1] == 10
    assert offsets(decoded(lot[2], 6, 10)) == []
    assert decoded(lot[0][:20], 0, 10) == []


def test_compressed_messages_around_the_end() -> None:
    """Their entry's offset is the last one's: records before the end may be in what seems to lie behind it."""
    for magic in (0, 1):
        data = build([Record(0, -1, None, b"v")] * 9, magic=magic, codec=Codec.GZIP, base_offset=20)
        found = decoded(data, 22, 25)
        assert (offsets(found), found[-1].next_offset) == ([22, 23, 24], 25)


def test_batches_beyond_the_end_offset_are_not_decoded() -> None:
    good = build([Record(0, 5, None, b"v")] * 3)
    bad = build([Record(0, 5, None, b"v")], base_offset=3)[:-1] + b"?"
    assert offsets(decoded(good + bad, 0, 3)) == [0, 1, 2]
    with pytest.raises(CorruptRecords):
        decoded(good + bad, 0, 4)


def test_damage() -> None:
    good = build([Record(0, 5, None, b"v")] * 3)
    coming = Decoder("clicks", 7).decode(good + good[:-1] + b"?" + good, 0, FAR)
    assert next(coming).rows["offset"].to_pylist() == [0, 1, 2]
    with pytest.raises(CorruptRecords):
        next(coming)


def test_checksums_may_be_left_alone() -> None:
    data = build([Record(0, 5, None, b"value")])
    assert rows(data.replace(b"value", b"other"), check=False)[0][1] == b"other"


@given(logs(), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_a_changed_bit(data: bytes, draw: st.DataObject) -> None:
    sizes = [entry.size for entry in entries(data)]
    which = draw.draw(st.integers(0, len(sizes) - 1))
    begin = sum(sizes[:which])
    damaged = bytearray(data)
    damaged[begin + draw.draw(st.integers(21, sizes[which] - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    coming = Decoder("clicks", 7, ALL).decode(damaged, 0, FAR)
    found = [row for part in up_to_damage(coming) for row in plain(part.rows)]
    assert found == one_by_one(data[:begin])


def up_to_damage(coming: Iterator[Decoded]) -> Iterator[Decoded]:
    with pytest.raises(CorruptRecords):
        yield from coming


@pytest.mark.parametrize("codec", Codec)
def test_large_lots(codec: Codec) -> None:
    """More than one part, and all of them in order."""
    lots = [
        build(
            [Record(0, 5, b"k%d" % each, bytes([each]) * 1000) for each in range(200)],
            base_offset=200 * number,
            codec=codec,
        )
        for number in range(100)
    ]
    found = decoded(b"".join(lots))
    assert len(found) > 1
    assert offsets(found) == list(range(20_000))
    values = [value for part in found for value in part.rows["value"].to_pylist()]
    assert values == [bytes([each]) * 1000 for each in range(200)] * 100


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer(kind: type) -> None:
    records = [Record(each, 5, b"k" * each, b"v" * each, (("a", b"b"),) * (each % 3)) for each in range(50)]
    data = marker(1, 0, committed=True) + build(records[1:], base_offset=1)
    assert rows(kind(data)) == [row(each, 2) for each in records[1:]]


def test_more_than_an_array_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "_MOST", 100)
    with pytest.raises(InvalidRecords):
        decoded(build([Record(0, 5, None, b"v" * 100)]))
