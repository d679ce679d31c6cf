"""Walking over the records of a v2 batch without decoding them: are they as many, and as long, as they say?

    length | attributes | timestamp delta | offset delta | key length, key | value length, value | headers

Checked is, for each record, that its fields add up to its length and that its offset delta is its index; and that the
records are as many as the batch says, with nothing behind them.  Three ways, each as thorough as can be afforded:

    records that look like the one before them   by columns: the bytes that tell lengths stand at a fixed distance, so
                                                 a slice with a stride has one such byte of many records (10 ns each)
    the first `_THOROUGH` others                 one by one (300 ns each)
    what is beyond                               the lengths alone (100 ns each)

A producer whose encoder is wrong is found out by either of the first two.  `runs` has the way by columns.  What comes
as a `memoryview` is copied into a window and looked at there: only `bytes` and `bytearray` have quick slices with a
stride, and they are quicker to index.
"""

from __future__ import annotations

from typing import Final

from pylogbroker.errors import CorruptRecords, InvalidRecords
from pylogbroker.records.buffers import Buffer
from pylogbroker.records.runs import Indexable, measure_run
from pylogbroker.records.varint import continue_varint, decode_varint

_THOROUGH: Final = 1000
_FEW: Final = 20  # records for which it is not worth while to look for runs
_WINDOW: Final = 256 * 1024
_SHORT_RUN: Final = 16  # shorter ones had better been checked one by one
_PATIENCE: Final = 8  # short runs after which no more are looked for in the window
_SMALLEST: Final = 6 << 1  # the length, not decoded, of a record in which everything takes one byte
_FAR: Final = 1 << 62  # timestamp deltas from here on, not decoded, might exceed 64 bits with what they are added to

_windows: Final[list[bytearray]] = []
"""Windows that nobody uses, for any thread: memory that is new takes longer to get than to fill."""


def check_records(data: Buffer, count: int, position: int = 0) -> None:
    """InvalidRecords unless `data` is, from `position` on, `count` records with offset deltas from 0 on."""
    end = len(data)
    try:
        if count <= _FEW:
            for delta in range(count):
                position = _check_one(data, position, end, delta)
        else:
            position = _Walk(data, count).run(position)
    except IndexError:
        raise InvalidRecords("the batch ends within a record") from None
    except CorruptRecords as error:
        raise InvalidRecords(error.detail) from None
    if position != end:
        raise InvalidRecords(f"{end - position} bytes are left behind the last record")


def _check_one(data: Buffer, position: int, end: int, delta: int) -> int:
    """Check the record at `position`, which must not go beyond `end`; the position behind it.

    Besides what is declared, IndexError: the data ends within the record.  Varints of one or two bytes, nearly all, are
    decoded on the spot: bit 7 of the first byte is taken off where the second is added.
    """
    raw = data[position]
    position += 1
    if raw > 0x7F:
        raw += data[position] - 1 << 7
        position += 1
        if raw > 0x3FFF:
            raw, position = continue_varint(data, position - 1, raw)
    record_end = position + (raw >> 1)
    if raw & 1 or record_end > end:
        raise InvalidRecords("a record is longer than its batch")
    if data[position] > 0x7F:  # attributes, of which there are none: Python's clients would take it for a varint
        raise InvalidRecords("a record with unknown attributes")
    raw = data[position + 1]
    position += 2
    if raw > 0x7F:
        raw += data[position] - 1 << 7
        position += 1
        if raw > 0x3FFF:
            raw, position = continue_varint(data, position - 1, raw)
            if raw >= _FAR:
                raise InvalidRecords("a timestamp that is too far away")
    raw = data[position]
    position += 1
    if raw > 0x7F:
        raw += data[position] - 1 << 7
        position += 1
        if raw > 0x3FFF:
            raw, position = continue_varint(data, position - 1, raw)
    if raw != delta << 1:
        raise InvalidRecords(f"the record in place {delta} has another offset")
    raw = data[position]
    position += 1
    if raw > 0x7F:
        raw, position = continue_varint(data, position, raw)
    if not raw & 1:
        position += raw >> 1
    raw = data[position]
    position += 1
    if raw > 0x7F:
        raw += data[position] - 1 << 7
        position += 1
        if raw > 0x3FFF:
            raw, position = continue_varint(data, position - 1, raw)
    if not raw & 1:
        position += raw >> 1
    if data[position]:
        position = _pass_headers(data, position, end)
    else:
        position += 1
    if position != record_end:
        raise InvalidRecords("a record's fields do not add up to its length")
    return position


def _pass_headers(data: Buffer, position: int, end: int) -> int:
    count, position = decode_varint(data, position)
    if not 0 <= count <= end - position:
        raise InvalidRecords(f"{count} headers in a record")
    for _ in range(count):
        size, position = decode_varint(data, position)
        if size < 0:
            raise InvalidRecords("a header without a key")
        size, position = decode_varint(data, position + size)
        position += max(size, 0)
    return position


class _Walk:
    """A walk over many records."""

    __slots__ = ("_budget", "_count", "_data", "_delta")

    def __init__(self, data: Buffer, count: int) -> None:
        self._data = data
        self._count = count
        self._delta = 0  # how many records have been passed
        self._budget = _THOROUGH  # how many more may be checked one by one

    def run(self, position: int) -> int:
        """The position behind the last of the records, which begin at `position`."""
        data, end = self._data, len(self._data)
        while self._delta < self._count:
            before = position
            position = self._pass(data, position, end) if type(data) is bytes else self._pass_window(position)
            if position == before:  # the record there is larger than a window, or broken
                position = _check_one(data, position, end, self._delta)
                self._delta += 1
        return position

    def _pass_window(self, position: int) -> int:
        """Pass over the records from `position` on that are whole in a window."""
        window = _windows.pop() if _windows else bytearray(_WINDOW)
        try:
            part = self._data[position : position + len(window)]
            window[: len(part)] = part
            return position + self._pass(window, 0, len(part))
        finally:
            _windows.append(window)

    def _pass(self, data: Indexable, position: int, end: int) -> int:
        """Pass over the records from `position` on, up to one that is broken or not all there; where that begins.

        Behind `end` may be anything.
        """
        count, delta, budget, patience = self._count, self._delta, self._budget, _PATIENCE
        try:
            while budget and delta < count:
                behind = _check_one(data, position, end, delta)
                delta += 1
                budget -= 1
                third = behind * 2 - position
                if third < end and patience and data[position] == data[behind] == data[third]:
                    alike = measure_run(data, position, end, behind - position, delta - 1, count - delta)
                    delta += alike
                    behind += alike * (behind - position)
                    patience -= alike < _SHORT_RUN
                position = behind
        except (IndexError, CorruptRecords, InvalidRecords):
            pass  # perhaps the rest of it lies beyond the window
        self._delta, self._budget = delta, budget
        return position if budget else self._pass_lengths(data, position, end)

    def _pass_lengths(self, data: Indexable, position: int, end: int) -> int:
        """The same by the records' lengths alone."""
        delta, count = self._delta, self._count
        start = position
        try:
            while delta < count:
                raw = data[position]
                position += 1
                if raw > 0x7F:
                    raw += data[position] - 1 << 7
                    position += 1
                    if raw > 0x3FFF:
                        raw, position = continue_varint(data, position - 1, raw)
                position += raw >> 1
                if raw & 1 or raw < _SMALLEST or position > end:
                    break
                start = position
                delta += 1
        except (IndexError, CorruptRecords):
            pass
        self._delta = delta
        return start
