"""Record batches, as a broker sends them, to Arrow: the rows of Spark's Kafka source.

    decoder = Decoder("clicks", 0, columns_with(headers=False))
    for part in decoder.decode(fetched, start, end, aborted):
        part.rows, part.next_offset

    key            binary       null where the record has none
    value          binary
    topic          string
    partition      int32
    offset         int64
    timestamp      timestamp    microseconds, UTC; null for a time that these cannot tell
    timestampType  int32        -1 none (v0), 0 the producer's clock, 1 the broker's
    headers        list         of structs (key string, value binary); null where the record has none

These are, to the letter, the types that PySpark makes of the columns of that source.  Nothing here is done record by
record: what was fetched becomes columns of spans, in `pylogbroker.records.columns`, and these become arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from pylogbroker.records import Buffer, entries
from pylogbroker.records.columns import AbortedTransactions, Columns, Piece, columns_of, pieces
from pylogbroker.records.columns.varints import Ints
from pylogbroker.spark.reading.headers import HEADERS, headers_of
from pylogbroker.spark.reading.spans import binary_of

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
"""All columns that there are, in their order."""

_ROWS: Final = 18_000  # whose columns fit into the processor's caches
_LEAST: Final = 2 << 20  # bytes of records for one part
_MOST: Final = 4 << 20  # with more, the cache would no longer hold what was checked when it is copied
_NO_TIMESTAMP_TYPE: Final = -1
_FARTHEST: Final = ((1 << 63) - 1) // 1000  # milliseconds that fit as microseconds


def columns_with(*, headers: bool) -> tuple[str, ...]:
    """The columns that Spark's source has, with and without its option `includeHeaders`."""
    return tuple(name for name in TYPES if headers or name != "headers")


@attrs.frozen(eq=False)
class Decoded:
    """Rows, perhaps none, and the offset to go on with, which may be further than behind the last of them."""

    rows: pa.RecordBatch
    next_offset: int


@attrs.frozen(eq=False)
class Decoder:
    """Makes rows of what is fetched of one partition."""

    topic: str
    partition: int
    columns: tuple[str, ...] = columns_with(headers=False)
    """Those that are wanted; what is not costs next to nothing."""

    @property
    def schema(self) -> pa.Schema:
        """What all the rows are of."""
        return pa.schema([(name, TYPES[name]) for name in self.columns])

    def decode(
        self, fetched: Buffer, start: int, end: int, aborted: AbortedTransactions | None = None, *, check: bool = True
    ) -> Iterator[Decoded]:
        """The rows of the offsets from `start` up to, and without, `end`, some megabytes at a time.

        Markers, data of the transactions in `aborted` and an entry that is cut off at the end are left out.  When
        everything before `end` has come, `next_offset` is `end`.  CorruptRecords at what is damaged,
        InvalidRecords for an unknown codec, when what comes before has been taken.  Unless `check`, checksums are not
        looked at.
        """
        for piece in pieces(fetched, aborted, enough=_enough(fetched), end=end, check=check):
            for part in _of_one_format(piece):
                for columns in columns_of(part, in_place=True):
                    yield Decoded(self._rows(part, _within(columns, start, end)), min(columns.next_offset, end))

    def _rows(self, piece: Piece, columns: Columns) -> pa.RecordBatch:
        if "timestampType" in self.columns and not piece.is_v2 and any(not entry.magic for entry in piece.entries):
            columns = attrs.evolve(columns, timestamp_types=np.full(len(columns), _NO_TIMESTAMP_TYPE))
        arrays = [_ARRAYS[name](self, columns) for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _enough(fetched: Buffer) -> int:
    """How many bytes make a part, if all records are about as long as the first ones."""
    first = next(entries(fetched, partial=True), None)
    return _LEAST if first is None else min(max(_ROWS * first.size // max(first.count, 1), _LEAST), _MOST)


def _of_one_format(piece: Piece) -> Iterable[Piece]:
    """The piece, or where messages of v0 and of v1 meet in it, each on its own."""
    mixed = not piece.is_v2 and len({entry.magic for entry in piece.entries}) > 1
    return piece.singles() if mixed else [piece]


def _within(columns: Columns, start: int, end: int) -> Columns:
    inside = (columns.offsets >= start) & (columns.offsets < end)
    return columns if inside.all() else columns.some(inside)


def _times(timestamps: Ints) -> pa.Array:
    too_far = np.abs(timestamps) > _FARTHEST
    times = timestamps * 1000
    return pa.array(times, mask=too_far if too_far.any() else None).view(TYPES["timestamp"])


_ARRAYS: Final[Mapping[str, Callable[[Decoder, Columns], pa.Array]]] = {
    "key": lambda _, columns: binary_of(columns.raw, columns.key_starts, columns.key_lengths),
    "value": lambda _, columns: binary_of(columns.raw, columns.value_starts, columns.value_lengths),
    "topic": lambda decoder, columns: pa.repeat(pa.scalar(decoder.topic, TYPES["topic"]), len(columns)),
    "partition": lambda decoder, columns: pa.array(np.full(len(columns), decoder.partition, np.int32)),
    "offset": lambda _, columns: pa.array(columns.offsets),
    "timestamp": lambda _, columns: _times(columns.timestamps),
    "timestampType": lambda _, columns: pa.array(columns.timestamp_types.astype(np.int32)),
    "headers": lambda _, columns: headers_of(columns),
}
