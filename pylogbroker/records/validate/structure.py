"""Validator of a v2 batch's records, without decoding them. It finds their largest timestamp, too.

A record's fields (see `records.batch`) must add up to its length; its offset delta must be its index. The number of
records must be the batch's, with no bytes after the last. Three ways, each as thorough as its cost allows:

    uniform records                         many at once, see `uniform_runs` (20 ns each, and 3 us)
    the first `_RECORDS_CHECKED_MAX` others one by one (400 ns each)
    the rest                                only lengths and timestamps (150 ns each)

The first two find wrong encoders.

The largest timestamp comes nearly for free if the header claims the right one, and then costs no second pass. Timestamp
deltas are compared as zigzag numbers: even ones are not negative, and rise with the delta.
"""

from __future__ import annotations

from typing import Final

from pylogbroker.errors import CorruptRecords, InvalidRecords
from pylogbroker.records.model import Buffer
from pylogbroker.records.validate.shape_cache import largest_if_known_shape, remember_shape
from pylogbroker.records.validate.uniform_runs import measure_run
from pylogbroker.records.varint import continue_varint, decode_varint

_RECORDS_CHECKED_MAX: Final = 1000
_RECORDS_IN_PLACE_MAX: Final = 20  # a copy would take as long as the validation
_FOLLOWERS_MIN: Final = 4  # after one that may begin a run; with fewer, the search does not pay
_COPIED_RECORD_BYTES_MAX: Final = 8192  # larger copies take longer than they save
_SHORT_RUN_RECORDS_MAX: Final = 16  # shorter ones cost more than validation one by one
_SHORT_RUNS_MAX: Final = 8  # after which the search ends
_WIDER_FROM: Final = frozenset({1 << 6, 1 << 13, 1 << 20})  # offset deltas that take another byte
_ZIGZAG_LENGTH_MIN: Final = 6 << 1  # of a record whose fields all take one byte
_ZIGZAG_TIMESTAMP_MAX: Final = 1 << 62  # larger zigzag deltas might overflow 64 bits


def largest_timestamp_delta(data: Buffer, count: int, claimed: int, position: int = 0) -> int:
    """Return the records' largest timestamp delta; `claimed`, that of the header, makes it quick.

    Raise InvalidRecords unless `data`, from `position` on, is `count` records with offset deltas from 0 on.
    """
    claimed <<= 1  # as zigzag, if it is not negative
    largest = largest_if_known_shape(data, count, position, claimed)
    if largest < 0:
        try:
            behind, passed, largest = _check_next(data, position, 0, count, _RECORDS_IN_PLACE_MAX, claimed)
            if passed < count:
                behind, largest = _check_rest(data, behind, passed, count, claimed, largest)
        except IndexError:
            raise InvalidRecords("the batch ends within a record") from None
        except CorruptRecords as error:
            raise InvalidRecords(error.detail) from None
        if behind != len(data):
            raise InvalidRecords(f"{len(data) - behind} bytes are left behind the last record")
        remember_shape(data, count, position)
        if largest < claimed or largest < 0:  # all deltas are smaller than claimed, or negative
            return _largest_of_all(data, count, position)
    return largest >> 1


def _check_rest(data: Buffer, position: int, passed: int, count: int, claimed: int, largest: int) -> tuple[int, int]:
    skipped = 0
    if type(data) is not bytes and len(data) - position < _COPIED_RECORD_BYTES_MAX * (count - passed):
        data, position, skipped = bytes(data[position:]), 0, position  # faster to index than a memoryview
    position, passed, among_checked = _check_next(data, position, passed, count, _RECORDS_CHECKED_MAX, claimed)
    largest = max(largest, among_checked)
    if passed < count:
        position, largest = _skip_records(data, position, count - passed, largest)
    return skipped + position, largest


def _check_next(data: Buffer, position: int, delta: int, count: int, budget: int, claimed: int) -> tuple[int, int, int]:
    """Check records, the first with offset delta `delta`, at most `budget` of them one by one.

    Return the next position, how many of the `count` are checked, and their largest timestamp delta if it is not below
    `claimed`. Raise IndexError if the data ends within a record. Varints of up to two bytes are decoded inline: adding
    the second byte subtracts bit 7 of the first.
    """
    end = len(data)
    largest = -1
    short_runs_left = _SHORT_RUNS_MAX
    stride = (end - position) // (count - delta or 1)  # length of the record before; first, the mean of all
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
        if data[position] > 0x7F:  # no attributes are defined, and Python clients read a varint here
            raise InvalidRecords("a record with unknown attributes")
        time_at = position + 1
        raw = data[time_at]
        offset_at = time_at + 1
        if raw > 0x7F:
            raw += data[offset_at] - 1 << 7
            offset_at += 1
            if raw > 0x3FFF:
                raw, offset_at = continue_varint(data, offset_at - 1, raw)
                if raw >= _ZIGZAG_TIMESTAMP_MAX:
                    raise InvalidRecords("a timestamp that is too far away")
        if raw > largest and not raw & 1:
            largest = raw
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
        position = _skip_headers(data, headers_at, end) if data[headers_at] else headers_at + 1
        if position != behind:
            raise InvalidRecords("a record's fields do not add up to its length")
        delta += 1
        if behind - start != stride:
            stride = behind - start
        elif short_runs_left and count - delta >= _FOLLOWERS_MIN:
            places = (start, time_at, offset_at, key_at, key, value_at, value, headers_at)
            limit_here = min(count - delta, (end - behind) // stride)
            uniform, among_run = measure_run(data, places, stride, delta - 1, limit_here, claimed)
            if among_run > largest:
                largest = among_run
            position += uniform * stride
            delta += uniform
            limit = min(limit + uniform, count)  # a run takes nearly nothing of the budget
            short_runs_left -= uniform < _SHORT_RUN_RECORDS_MAX
            if delta in _WIDER_FROM:
                stride += 1
    return position, delta, largest


def _skip_headers(data: Buffer, position: int, end: int) -> int:
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


def _skip_records(data: Buffer, position: int, count: int, largest: int) -> tuple[int, int]:
    for _ in range(count):
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw += data[position] - 1 << 7
            position += 1
            if raw > 0x3FFF:
                raw, position = continue_varint(data, position - 1, raw)
        if raw & 1 or raw < _ZIGZAG_LENGTH_MIN:
            raise InvalidRecords("a record is shorter than its fields")
        behind = position + (raw >> 1)
        raw = data[position + 1]
        if raw > 0x7F:
            raw += data[position + 2] - 1 << 7
            if raw > 0x3FFF:
                raw, _ = continue_varint(data, position + 2, raw)
        if raw > largest and not raw & 1:
            largest = raw
        position = behind
    if position > len(data):
        raise InvalidRecords("a record is longer than its batch")
    if largest >= _ZIGZAG_TIMESTAMP_MAX:
        raise InvalidRecords("a timestamp that is too far away")
    return position, largest


def _largest_of_all(data: Buffer, count: int, position: int) -> int:
    """Read all timestamp deltas of valid records."""
    deltas = []
    for _ in range(count):
        size, position = decode_varint(data, position)
        deltas.append(decode_varint(data, position + 1)[0])
        position += size
    return max(deltas)
