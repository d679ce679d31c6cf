"""Walking over the records of a v2 batch without decoding them: are they as many, and as long, as they say?

    length | attributes | timestamp delta | offset delta | key length, key | value length, value | headers

Checked is, for each record, that its fields add up to its length and that its offset delta is its index; and that the
records are as many as the batch says, with nothing behind them.  Three ways, each as thorough as can be afforded:

    records that look like the one before them   many at once, see `runs` (20 ns each, and 3 us)
    the first `_THOROUGH` others                 one by one (400 ns each)
    what is beyond                               the lengths alone (100 ns each)

A producer whose encoder is wrong is found out by either of the first two.  A small batch that looks like one that was
right is not walked over at all, see `layouts`.
"""

from __future__ import annotations

from typing import Final

from pylogbroker.errors import CorruptRecords, InvalidRecords
from pylogbroker.records.buffers import Buffer
from pylogbroker.records.layouts import is_known, learn
from pylogbroker.records.runs import measure_run
from pylogbroker.records.varint import continue_varint, decode_varint

_THOROUGH: Final = 1000
_FEW: Final = 20  # records that are looked at where they are: to copy them would take as long
_FOLLOWERS: Final = 4  # of a record that may begin a run: it is not worth while to look for one if there are fewer
_LARGE: Final = 8192  # bytes of a record; to copy larger ones takes longer than it saves
_SHORT_RUN: Final = 16  # shorter ones had better been checked one by one
_PATIENCE: Final = 8  # short runs after which no more are looked for
_SMALLEST: Final = 6 << 1  # the length, not decoded, of a record in which everything takes one byte
_FAR: Final = 1 << 62  # timestamp deltas from here on, not decoded, might exceed 64 bits with what they are added to


def check_records(data: Buffer, count: int, position: int = 0) -> None:
    """InvalidRecords unless `data` is, from `position` on, `count` records with offset deltas from 0 on."""
    if is_known(data, count, position):
        return
    try:
        behind, passed = _walk(data, position, 0, count, _FEW)
        if passed < count:
            behind = _walk_on(data, behind, passed, count)
    except IndexError:
        raise InvalidRecords("the batch ends within a record") from None
    except CorruptRecords as error:
        raise InvalidRecords(error.detail) from None
    if behind != len(data):
        raise InvalidRecords(f"{len(data) - behind} bytes are left behind the last record")
    learn(data, count, position)


def _walk_on(data: Buffer, position: int, passed: int, count: int) -> int:
    """Where the last of many records ends; those in front of `position` are passed."""
    skipped = 0
    if type(data) is not bytes and len(data) - position < _LARGE * (count - passed):
        data, position, skipped = bytes(data[position:]), 0, position  # quicker to index than a memoryview
    position, passed = _walk(data, position, passed, count, _THOROUGH)
    if passed < count:
        position = _pass_lengths(data, position, count - passed)
    return skipped + position


def _walk(data: Buffer, position: int, delta: int, count: int, budget: int) -> tuple[int, int]:
    """Check records from `position` on, the first of which has offset `delta`, `budget` of them one by one.

    The position behind them, and how many of the `count` are passed now.  Besides what is declared, IndexError: the
    data ends within a record.  Varints of one or two bytes, nearly all, are decoded on the spot: bit 7 of the first
    byte is taken off where the second is added.
    """
    end = len(data)
    patience = _PATIENCE
    stride = (end - position) // (count - delta or 1)  # of the record before; at first, of each if all are alike
    limit = count if count - delta < budget else delta + budget
    while delta < limit:
        start = position
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw += data[position] - 1 << 7
            position += 1
            if raw > 0x3FFF:
                raw, position = continue_varint(data, position - 1, raw)
        behind = position + (raw >> 1)
        if raw & 1 or behind > end:
            raise InvalidRecords("a record is longer than its batch")
        if data[position] > 0x7F:  # attributes, of which there are none: Python's clients would take it for a varint
            raise InvalidRecords("a record with unknown attributes")
        time_at = position + 1
        raw = data[time_at]
        offset_at = time_at + 1
        if raw > 0x7F:
            raw += data[offset_at] - 1 << 7
            offset_at += 1
            if raw > 0x3FFF:
                raw, offset_at = continue_varint(data, offset_at - 1, raw)
                if raw >= _FAR:
                    raise InvalidRecords("a timestamp that is too far away")
        raw = data[offset_at]
        key_at = offset_at + 1
        if raw > 0x7F:
            raw += data[key_at] - 1 << 7
            key_at += 1
            if raw > 0x3FFF:
                raw, key_at = continue_varint(data, key_at - 1, raw)
        if raw != delta << 1:
            raise InvalidRecords(f"the record in place {delta} has another offset")
        raw = data[key_at]
        value_at = key = key_at + 1
        if raw > 0x7F:
            raw, key = continue_varint(data, key, raw)
            value_at = key
        if not raw & 1:
            value_at += raw >> 1
        raw = data[value_at]
        headers_at = value = value_at + 1
        if raw > 0x7F:
            raw += data[value] - 1 << 7
            headers_at = value = value + 1
            if raw > 0x3FFF:
                raw, value = continue_varint(data, value - 1, raw)
                headers_at = value
        if not raw & 1:
            headers_at += raw >> 1
        position = _pass_headers(data, headers_at, end) if data[headers_at] else headers_at + 1
        if position != behind:
            raise InvalidRecords("a record's fields do not add up to its length")
        delta += 1
        if behind - start != stride:
            stride = behind - start
        elif patience and count - delta >= _FOLLOWERS:
            places = (start, time_at, offset_at, key_at, key, value_at, value, headers_at)
            alike = measure_run(data, places, stride, delta - 1, min(count - delta, (end - behind) // stride))
            position += alike * stride
            delta += alike
            limit = min(limit + alike, count)  # they cost next to nothing of the budget
            patience -= alike < _SHORT_RUN
    return position, delta


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


def _pass_lengths(data: Buffer, position: int, count: int) -> int:
    """The position behind so many records, going by their lengths alone."""
    for _ in range(count):
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw += data[position] - 1 << 7
            position += 1
            if raw > 0x3FFF:
                raw, position = continue_varint(data, position - 1, raw)
        if raw & 1 or raw < _SMALLEST:
            raise InvalidRecords("a record is shorter than its fields")
        position += raw >> 1
    if position > len(data):
        raise InvalidRecords("a record is longer than its batch")
    return position
