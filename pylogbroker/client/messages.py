"""Messages for consumers, and the message sets that fetches return.

    messages = MessageSet("orders", 0, fetched, first_offset=17)
    for message in messages:
        message.offset, message.key, message.value
    messages.next_offset

A set keeps the fetched bytes and decodes them in each iteration. Earlier messages and one cut off at the end are
omitted. Damaged bytes raise CorruptRecords after the messages before them.

Columns stay columns until a message is read. So a loop holds one `Message` at a time, which Python's garbage collector
never meets. To collect a thousand of them takes longer than to make them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice, repeat
from operator import attrgetter, eq
from typing import Any, Final, NamedTuple, overload

import attrs
import numpy as np

from pylogbroker.client.errors import PluginFailed
from pylogbroker.errors import CorruptRecords, PylogbrokerError
from pylogbroker.records import Buffer, Header, LogEntry, TimestampType, entries
from pylogbroker.records.columnar import (
    AbortedTransactions,
    Columns,
    EntryGroup,
    columns_from,
    columns_of,
    entry_groups,
)
from pylogbroker.records.columnar.varints import Ints

Decode = Callable[[bytes | None], Any]
Row = tuple[str, int, int, int, TimestampType, bytes | None, bytes | None, tuple[Header, ...], int]

_SINGLE_RECORDS_MAX: Final = 100  # up to which single records are faster than columns
_MESSAGES_AT_ONCE: Final = 1024
_KEY: Final = attrgetter("key")
_VALUE: Final = attrgetter("value")
_TYPES: Final = tuple(TimestampType)


class Message(NamedTuple):
    """Message; `timestamp` in ms since 1970, -1 if the format has none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: Any
    value: Any
    headers: tuple[Header, ...]
    next_offset: int
    """Offset to commit or fetch after this message."""


Piece = Sequence[Message] | Iterator[Message]
"""Messages of a set. A sequence can be cut; an iterator may raise an error after some messages."""


@attrs.frozen(eq=False, repr=False)
class MessageColumns(Sequence[Message]):
    """Messages of one partition, from `_start` to `_stop` in columns."""

    _topic: str
    _partition: int
    _columns: Columns
    _start: int
    _stop: int

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[Message]:
        return map(tuple.__new__, repeat(Message), self.rows())

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        numbers = range(self._start, self._stop)[index]
        if isinstance(numbers, int):
            [row] = self._rows_of(slice(numbers, numbers + 1))
            return Message(*row)
        if numbers.step != 1:
            return list(self)[index]
        return MessageColumns(self._topic, self._partition, self._columns, numbers.start, numbers.stop)

    def rows(self) -> Iterator[Row]:
        stop = self._stop
        starts = range(self._start, stop, _MESSAGES_AT_ONCE)
        return chain.from_iterable(
            self._rows_of(slice(start, min(start + _MESSAGES_AT_ONCE, stop))) for start in starts
        )

    def keys(self) -> Iterator[bytes | None]:
        return self._columns.iter_keys(slice(self._start, self._stop))

    def values(self) -> Iterator[bytes | None]:
        return self._columns.iter_values(slice(self._start, self._stop))

    def columns(self) -> Columns:
        """Return the messages as columns of their own."""
        return self._columns.select(slice(self._start, self._stop))

    def _rows_of(self, some: slice) -> Iterator[Row]:
        columns = self._columns
        offsets, behind = _offsets(columns.offsets[some])
        return zip(
            repeat(self._topic), repeat(self._partition), offsets, _numbers(columns.timestamps[some]),
            _kinds(columns.timestamp_types[some]), columns.iter_keys(some), columns.iter_values(some),
            columns.iter_headers(some), behind, strict=False,
        )  # fmt: skip


class Messages(Sequence[Message]):
    """Messages, maybe of several partitions; each is made when it is read.

    `keys` and `values` make none, and so are several times faster.
    """

    __slots__ = ("_runs",)

    def __init__(self, runs: Iterable[Sequence[Message]] = ()) -> None:
        self._runs = tuple(runs)

    @property
    def runs(self) -> Sequence[Sequence[Message]]:
        """Messages of one partition that follow each other, as columns where possible."""
        return [run for run in self._runs if run]

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def __iter__(self) -> Iterator[Message]:
        return chain.from_iterable(self._runs)

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            return list(self)[index]
        position = range(len(self))[index]
        for run in self._runs:
            if position < len(run):
                return run[position]
            position -= len(run)
        raise IndexError(index)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Messages({list(self)!r})"

    def keys(self) -> list[Any]:
        return list(chain.from_iterable(map(_keys, self._runs)))

    def values(self) -> list[Any]:
        return list(chain.from_iterable(map(_values, self._runs)))


class MessageSet:
    """Fetched messages of one partition; can be iterated repeatedly.

    Without decoders, keys and values are bytes. A decoder's exception is raised for its message; the iteration can
    continue.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        data: Buffer,
        first_offset: int = 0,
        *,
        aborted: Iterable[tuple[int, int]] = (),
        decode_key: Decode | None = None,
        decode_value: Decode | None = None,
        check_crcs: bool = True,
    ) -> None:
        """Omit aborted transactions: `aborted` has their producer ids and first offsets.

        If `error` is set later, iteration raises it.
        """
        self.topic = topic
        self.partition = partition
        self.data = data
        self.first_offset = first_offset
        self.error: PylogbrokerError | None = None
        self._aborted = tuple(aborted)
        self._decoders = decode_key, decode_value
        self._check = check_crcs

    def __iter__(self) -> Iterator[Message]:
        return chain.from_iterable(self.pieces())

    def pieces(self) -> Iterator[Piece]:
        """Return the messages in pieces: as columns where possible, else as iterators."""
        if self.error is not None:
            raise self.error
        if self._decoders != (None, None):
            return iter((_Decoded(chain.from_iterable(map(_rows, self._row_pieces())), *self._decoders),))
        return map(_piece, self._row_pieces())

    def columns(self) -> Iterator[Columns]:
        """Return columns, several times faster for numbers or bytes."""
        if self.error is not None:
            raise self.error
        return columns_from(self._groups(), self.first_offset)

    @cached_property
    def _end(self) -> tuple[int, int, int]:
        """Return the whole batches' size, the next offset and the last leader epoch."""
        size, next_offset, epoch = 0, self.first_offset, -1
        try:
            for entry in self._entries():
                size += entry.size
                next_offset = max(next_offset, entry.next_offset)
                epoch = entry.leader_epoch
        except CorruptRecords:
            pass  # raised by the iteration
        return size, next_offset, epoch

    @property
    def valid_bytes(self) -> int:
        """Size without an incomplete batch at the end."""
        return self._end[0]

    @property
    def next_offset(self) -> int:
        """Offset to fetch next."""
        return self._end[1]

    @property
    def leader_epoch(self) -> int:
        """Last leader epoch; -1 if the format has none."""
        return self._end[2]

    def _entries(self) -> Iterator[LogEntry]:
        return entries(self.data, partial=True)

    def _groups(self) -> Iterator[EntryGroup]:
        return entry_groups(self.data, AbortedTransactions(self._aborted), check=self._check)

    def _row_pieces(self) -> Iterator[MessageColumns | Iterator[Row]]:
        for group in self._groups():
            if group.is_v2 and group.record_count >= _SINGLE_RECORDS_MAX:
                for columns in columns_of(group, in_place=True):
                    yield self._message_columns(columns)
            else:
                yield self._rows_one_by_one(group)

    def _message_columns(self, columns: Columns) -> MessageColumns:
        early = columns.offsets < self.first_offset
        if early.any():
            columns = columns.select(~early)
        return MessageColumns(self.topic, self.partition, columns, 0, len(columns))

    def _rows_one_by_one(self, group: EntryGroup) -> Iterator[Row]:
        topic, partition, first = self.topic, self.partition, self.first_offset
        for single in group.singles():
            for record in list(single.records()):  # all records of a batch, or none
                offset = record.offset
                if offset >= first:
                    yield (
                        topic, partition, offset, record.timestamp, record.timestamp_type,
                        record.key, record.value, record.headers, offset + 1,
                    )  # fmt: skip


def _keys(run: Sequence[Message]) -> Iterable[Any]:
    return run.keys() if isinstance(run, MessageColumns) else map(_KEY, run)


def _values(run: Sequence[Message]) -> Iterable[Any]:
    return run.values() if isinstance(run, MessageColumns) else map(_VALUE, run)


def _rows(rows: MessageColumns | Iterator[Row]) -> Iterator[Row]:
    return rows.rows() if isinstance(rows, MessageColumns) else rows


def _piece(rows: MessageColumns | Iterator[Row]) -> Piece:
    return rows if isinstance(rows, MessageColumns) else map(tuple.__new__, repeat(Message), rows)


def _offsets(offsets: Ints) -> tuple[Iterable[int], Iterable[int]]:
    """Return offsets and next offsets; contiguous ones share int objects."""
    behind = offsets + 1
    if np.array_equal(behind[:-1], offsets[1:]):
        numbers = [int(offsets[0]), *behind.tolist()]
        return numbers, islice(numbers, 1, None)
    return offsets.tolist(), behind.tolist()


def _numbers(column: Ints) -> Iterable[int]:
    return repeat(int(column[0])) if _is_constant(column) else column.tolist()


def _kinds(column: Ints) -> Iterable[TimestampType]:
    return repeat(_TYPES[column[0]]) if _is_constant(column) else map(_TYPES.__getitem__, column.tolist())


def _is_constant(column: Ints) -> bool:
    return bool((column == column[0]).all())


class _Decoded:
    """Decoding iterator; unlike a generator, it continues after an exception."""

    def __init__(self, rows: Iterator[Row], decode_key: Decode | None, decode_value: Decode | None) -> None:
        self._rows = rows
        self._decode_key = decode_key or _unchanged
        self._decode_value = decode_value or _unchanged

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        topic, partition, offset, timestamp, kind, key, value, headers, behind = next(self._rows)
        try:
            key, value = self._decode_key(key), self._decode_value(value)
        except PluginFailed as error:
            failure = error.at(topic, partition, offset)
            raise failure from failure.__cause__
        return Message(topic, partition, offset, timestamp, kind, key, value, headers, behind)


def _unchanged(data: bytes | None) -> bytes | None:
    return data
