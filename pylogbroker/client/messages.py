"""What a consumer gets: messages, and the sets of them that a fetch brings.

    found = MessageSet("orders", 0, fetched, first_offset=17)
    for message in found:
        message.offset, message.key, message.value
    found.next_offset               what to fetch next

A set is the bytes that came, and they stay bytes: each iteration decodes them anew, some thousand messages ahead of who
takes them. Left out are a message that is cut off at the end, and those before the offset that was asked for. Where the
bytes are damaged, the messages before that come first, and then CorruptRecords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain, islice, repeat
from typing import Any, Final, NamedTuple

import numpy as np

from pylogbroker.client.errors import PluginFailed
from pylogbroker.errors import CorruptRecords, PylogbrokerError
from pylogbroker.records import Buffer, Entry, Header, TimestampType, entries
from pylogbroker.records.columns import AbortedTransactions, Columns, Piece, columns_from, columns_of, pieces
from pylogbroker.records.columns.varints import Ints

Decode = Callable[[bytes | None], Any]
Row = tuple[str, int, int, int, TimestampType, bytes | None, bytes | None, tuple[Header, ...], int]

_FEW: Final = 100  # records, which are decoded one by one in less time than it takes to begin with columns
_STRIDE: Final = 1024  # messages that are decoded at a time
_KINDS: Final = tuple(TimestampType)
_NOT_HEADED: Final[tuple[Header, ...]] = ()


class Message(NamedTuple):
    """One message. `timestamp` is in milliseconds since 1970, -1 if the format has none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: Any
    value: Any
    headers: tuple[Header, ...]
    next_offset: int
    """What to commit, or to fetch next, when this message is dealt with."""


class MessageSet:
    """The messages of one partition that came with a fetch, to be iterated as often as one likes.

    Given decoders, messages have what these make of keys and values; bytes without. What a decoder raises is raised for
    its message alone: the iteration goes on with the next one.
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
        """`aborted` is the producer ids and first offsets of transactions that are not to be seen.

        If `error` is set, there is nothing but that, and to iterate the set raises it.
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
        if self.error is not None:
            raise self.error
        rows = chain.from_iterable(self._rows())
        if self._decoders != (None, None):
            return _Decoded(rows, *self._decoders)
        return map(tuple.__new__, repeat(Message), rows)

    def columns(self) -> Iterator[Columns]:
        """The messages as columns, which is several times faster, for who wants numbers or bytes in bulk."""
        if self.error is not None:
            raise self.error
        return columns_from(self._pieces(), self.first_offset)

    @cached_property
    def _end(self) -> tuple[int, int, int]:
        """Bytes of the whole entries, the offset behind them, and the leader epoch of the last one."""
        size, next_offset, epoch = 0, self.first_offset, -1
        try:
            for entry in self._entries():
                size += entry.size
                next_offset = max(next_offset, entry.next_offset)
                epoch = entry.leader_epoch
        except CorruptRecords:
            pass  # iterating comes to it
        return size, next_offset, epoch

    @property
    def valid_bytes(self) -> int:
        """How many bytes there are without what is cut off at the end."""
        return self._end[0]

    @property
    def next_offset(self) -> int:
        """What to fetch next, when all of these are dealt with."""
        return self._end[1]

    @property
    def leader_epoch(self) -> int:
        """That of the leader that wrote the last of these; -1 if the format has none."""
        return self._end[2]

    def _entries(self) -> Iterator[Entry]:
        return entries(self.data, partial=True)

    def _pieces(self) -> Iterator[Piece]:
        return pieces(self.data, AbortedTransactions(self._aborted), check=self._check)

    def _rows(self) -> Iterator[Iterable[Row]]:
        """Messages as tuples, some at a time."""
        for piece in self._pieces():
            if piece.is_v2 and piece.most >= _FEW:
                for columns in columns_of(piece):
                    yield from self._rows_of_columns(columns)
            else:
                yield self._rows_one_by_one(piece)

    def _rows_one_by_one(self, piece: Piece) -> Iterator[Row]:
        topic, partition, first = self.topic, self.partition, self.first_offset
        for single in piece.singles():
            for record in list(single.records()):  # all of a batch, or if it is damaged none
                offset = record.offset
                if offset >= first:
                    yield (
                        topic, partition, offset, record.timestamp, record.timestamp_type,
                        record.key, record.value, record.headers, offset + 1,
                    )  # fmt: skip

    def _rows_of_columns(self, columns: Columns) -> Iterator[Iterable[Row]]:
        early = columns.offsets < self.first_offset
        if early.any():
            columns = columns.some(~early)
        topic, partition = repeat(self.topic), repeat(self.partition)
        for start in range(0, len(columns), _STRIDE):
            some = columns.some(slice(start, start + _STRIDE))
            offsets, behind = _offsets(some.offsets)
            headers = some.headers() if some.has_headers else repeat(_NOT_HEADED)
            yield zip(
                topic, partition, offsets, _numbers(some.timestamps), _kinds(some.timestamp_types),
                some.keys(), some.values(), headers, behind, strict=False,
            )  # fmt: skip


def _offsets(offsets: Ints) -> tuple[Iterable[int], Iterable[int]]:
    """Offsets and those behind them, which are mostly the next ones: the same objects then."""
    behind = offsets + 1
    if np.array_equal(behind[:-1], offsets[1:]):
        numbers = [int(offsets[0]), *behind.tolist()]
        return numbers, islice(numbers, 1, None)
    return offsets.tolist(), behind.tolist()


def _numbers(column: Ints) -> Iterable[int]:
    return repeat(int(column[0])) if _is_constant(column) else column.tolist()


def _kinds(column: Ints) -> Iterable[TimestampType]:
    return repeat(_KINDS[column[0]]) if _is_constant(column) else map(_KINDS.__getitem__, column.tolist())


def _is_constant(column: Ints) -> bool:
    return bool((column == column[0]).all())


class _Decoded:
    """Messages through decoders. Unlike a generator it goes on after an exception."""

    def __init__(self, rows: Iterator[Row], decode_key: Decode | None, decode_value: Decode | None) -> None:
        self._rows = rows
        self._decode_key = decode_key or _as_it_is
        self._decode_value = decode_value or _as_it_is

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


def _as_it_is(data: bytes | None) -> bytes | None:
    return data
