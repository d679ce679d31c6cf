"""Decode record batches into Arrow rows of Spark's Kafka source.

    key            null where the record has none
    timestamp      microseconds, UTC; null for a time out of range
    timestampType  -1 none (v0), 0 CreateTime, 1 LogAppendTime
    headers        null where the record has none

No step is per record: `records.columnar` decodes to columns of spans, which become Arrow arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from pylogbroker.records import Buffer, entries
from pylogbroker.records.columnar import AbortedTransactions, Columns, EntryGroup, columns_of, entry_groups
from pylogbroker.records.columnar.varints import Ints
from pylogbroker.table.headers import HEADERS, headers_of
from pylogbroker.table.spans import binary_of

TYPES: Final[Mapping[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS,
}

_ROWS: Final = 18_000  # whose columns fit into the processor's caches
_PART_BYTES_MIN: Final = 2 << 20
_PART_BYTES_MAX: Final = 4 << 20  # checked bytes are still cached when copied
_NO_TIMESTAMP_TYPE: Final = -1
_TIMESTAMP_MS_MAX: Final = ((1 << 63) - 1) // 1000  # microseconds must fit


def columns_with(*, headers: bool) -> tuple[str, ...]:
    return tuple(name for name in TYPES if headers or name != "headers")


@attrs.frozen(eq=False, repr=False)
class Decoded:
    """Rows, perhaps none; a gap may follow before the next offset."""

    rows: pa.RecordBatch
    next_offset: int


@attrs.define(eq=False, repr=False)
class _ConstantColumn:
    """A column with one value, as slices of an array built for the longest batch so far."""

    _value: pa.Scalar
    _longest: pa.Array = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._longest = pa.repeat(self._value, 0)

    def of(self, rows: int) -> pa.Array:
        if rows > len(self._longest):
            self._longest = pa.repeat(self._value, rows)
        return self._longest.slice(0, rows)


@attrs.frozen(eq=False, repr=False)
class Decoder:
    topic: str
    partition: int
    columns: tuple[str, ...] = columns_with(headers=False)
    """Columns to decode; omitted ones cost almost nothing."""

    schema: pa.Schema = attrs.field(init=False)
    _topics: _ConstantColumn = attrs.field(init=False)
    _partitions: _ConstantColumn = attrs.field(init=False)

    @schema.default
    def _schema_of_columns(self) -> pa.Schema:
        return pa.schema([(name, TYPES[name]) for name in self.columns])

    @_topics.default
    def _topic_column(self) -> _ConstantColumn:
        return _ConstantColumn(pa.scalar(self.topic, TYPES["topic"]))

    @_partitions.default
    def _partition_column(self) -> _ConstantColumn:
        return _ConstantColumn(pa.scalar(self.partition, TYPES["partition"]))

    def decode(
        self, fetched: Buffer, start: int, end: int, aborted: AbortedTransactions | None = None, *, check: bool = True
    ) -> Iterator[Decoded]:
        """Yield the rows with offsets in [start, end), some megabytes at a time.

        Control records, aborted transactions and a truncated last batch are skipped. The last `next_offset` is `end` if
        all was read. After earlier rows, raise CorruptRecords for damaged bytes, InvalidRecords for an unknown codec.
        Only `check` verifies checksums.
        """
        for group in entry_groups(fetched, aborted, enough=_enough(fetched), end=end, check=check):
            for part in _of_one_format(group):
                for columns in columns_of(part, in_place=True):
                    yield Decoded(self._rows(part, _within(columns, start, end)), min(columns.next_offset, end))

    def _rows(self, group: EntryGroup, columns: Columns) -> pa.RecordBatch:
        if "timestampType" in self.columns and not group.is_v2 and any(not entry.magic for entry in group.entries):
            columns = attrs.evolve(columns, timestamp_types=np.full(len(columns), _NO_TIMESTAMP_TYPE))
        arrays = [_ARRAYS[name](self, columns) for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _enough(fetched: Buffer) -> int:
    first = next(entries(fetched, partial=True), None)
    return (
        _PART_BYTES_MIN
        if first is None
        else min(max(_ROWS * first.size // max(first.count, 1), _PART_BYTES_MIN), _PART_BYTES_MAX)
    )


def _of_one_format(group: EntryGroup) -> Iterable[EntryGroup]:
    mixed = not group.is_v2 and len({entry.magic for entry in group.entries}) > 1
    return group.singles() if mixed else [group]


def _within(columns: Columns, start: int, end: int) -> Columns:
    offsets = columns.offsets
    if offsets.min(initial=start) >= start and offsets.max(initial=end - 1) < end:
        return columns
    return columns.select((offsets >= start) & (offsets < end))


def _times(timestamps: Ints) -> pa.Array:
    too_far = None
    if timestamps.min(initial=0) < -_TIMESTAMP_MS_MAX or timestamps.max(initial=0) > _TIMESTAMP_MS_MAX:
        too_far = (timestamps < -_TIMESTAMP_MS_MAX) | (timestamps > _TIMESTAMP_MS_MAX)
    return pa.array(timestamps * 1000, mask=too_far).view(TYPES["timestamp"])


_ARRAYS: Final[Mapping[str, Callable[[Decoder, Columns], pa.Array]]] = {
    "key": lambda _, columns: binary_of(columns.raw, columns.key_starts, columns.key_lengths),
    "value": lambda _, columns: binary_of(columns.raw, columns.value_starts, columns.value_lengths),
    "topic": lambda decoder, columns: decoder._topics.of(len(columns)),
    "partition": lambda decoder, columns: decoder._partitions.of(len(columns)),
    "offset": lambda _, columns: pa.array(columns.offsets),
    "timestamp": lambda _, columns: _times(columns.timestamps),
    "timestampType": lambda _, columns: pa.array(columns.timestamp_types.astype(np.int32)),
    "headers": lambda _, columns: headers_of(columns),
}
