"""Encoder of columns to one v2 batch, byte for byte like `build`.

One join combines pieces, with numbers from tables of varints:

    length, attributes | timestamp delta | offset delta | key length | key | value length | value | headers

In a usual batch, of less than 64 ms without headers or nulls, pieces are looked up as columns. The "no headers" byte is
merged with the next record's length.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from pylogbroker.errors import InvalidRecords
from pylogbroker.records.batch import TRANSACTIONAL, encode_headers, seal
from pylogbroker.records.compression import compress
from pylogbroker.records.model import Codec, Header
from pylogbroker.records.varint import encode_varint

_TABLE_SIZE: Final = 8192  # numbers with varints of one or two bytes
_ONE_BYTE_NUMBERS: Final = 64
_RECORDS_ONE_BY_ONE_MAX: Final = 6  # up to here columns do not pay
_NUMBERS: Final = tuple(encode_varint(number) for number in range(_TABLE_SIZE))
_UNKEYED: Final = tuple(number + b"\x01" for number in _NUMBERS)  # offset delta, null key
_HEADS: Final = tuple(b"\0" + number + b"\0" for number in _NUMBERS)  # previous header count, length, attributes
_SPANS: Final = tuple(number + len(encode_varint(number)) for number in range(_TABLE_SIZE))  # field plus its length
_UNKEYED_HEADS: Final = tuple(
    tuple(_HEADS[span + width + 4] for span in _SPANS[: -width - 6]) for width in range(3)
)  # without keys, by the offset delta's size and the value's length


def encode(
    keys: Sequence[bytes | None] | None,
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
    headers: Sequence[tuple[Header, ...]] | None = None,
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    leader_epoch: int = -1,
) -> bytes:
    """Encode one batch with consecutive offsets.

    Raise InvalidRecords if columns differ in length, or the format cannot hold a record.
    """
    count = len(values)
    if not count:
        raise InvalidRecords("a batch needs at least one record")
    if len(timestamps) != count or len(keys or values) != count or len(headers or values) != count:
        raise InvalidRecords("columns of a batch that differ in length")
    payload = b"".join(_pieces(keys, values, timestamps, headers))
    attributes = (TRANSACTIONAL if transactional else 0) | codec
    producer = (producer_id, producer_epoch, base_sequence)
    fields = (base_offset, leader_epoch, attributes, count - 1, timestamps[0], max(timestamps), *producer, count)
    return seal(fields, payload if codec is Codec.NONE else compress(codec, payload, level))


def _pieces(
    keys: Sequence[bytes | None] | None,
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
    headers: Sequence[tuple[Header, ...]] | None,
) -> list[bytes]:
    if len(values) > _RECORDS_ONE_BY_ONE_MAX and not (headers and any(headers)):
        with contextlib.suppress(IndexError, TypeError):
            return _columns(keys, values, timestamps)
    return _one_by_one(keys, values, timestamps, headers)


def _columns(
    keys: Sequence[bytes | None] | None, values: Sequence[bytes | None], timestamps: Sequence[int]
) -> list[bytes]:
    """Encode by columns; raise IndexError for numbers beyond the tables, TypeError for null values or null keys."""
    first, count = timestamps[0], len(values)
    if max(timestamps) - first >= _ONE_BYTE_NUMBERS or min(timestamps) < first or count > _TABLE_SIZE:
        raise IndexError
    if keys and keys[0] is None and list(keys).count(None) == count:
        keys = None
    times = [_NUMBERS[timestamp - first] for timestamp in timestamps]
    pieces: list[bytes] = []
    for start, stop, width in ((0, _ONE_BYTE_NUMBERS, 1), (_ONE_BYTE_NUMBERS, count, 2)):
        chosen = slice(start, stop)
        if start >= count:
            break
        if keys:
            pieces += _keyed(keys[chosen], values[chosen], times[chosen], _NUMBERS[start:count][:stop], width)
        else:
            pieces += _unkeyed(values[chosen], times[chosen], _UNKEYED[start:count][:stop], width)
    pieces[0] = pieces[0][1:]
    pieces.append(b"\0")
    return pieces


def _unkeyed(values: Sequence[bytes | None], times: list[bytes], offsets: Sequence[bytes], width: int) -> list[bytes]:
    lengths = list(map(len, values))  # type: ignore[arg-type]
    pieces = [b""] * (5 * len(values))
    pieces[0::5] = map(_UNKEYED_HEADS[width].__getitem__, lengths)
    pieces[1::5] = times
    pieces[2::5] = offsets
    pieces[3::5] = map(_NUMBERS.__getitem__, lengths)
    pieces[4::5] = values  # type: ignore[assignment]
    return pieces


def _keyed(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    times: list[bytes],
    offsets: Sequence[bytes],
    width: int,
) -> list[bytes]:
    key_lengths, lengths = list(map(len, keys)), list(map(len, values))  # type: ignore[arg-type]
    heads, spans, rest = _HEADS, _SPANS, width + 3
    pieces = [b""] * (7 * len(values))
    pieces[0::7] = [heads[spans[key] + spans[value] + rest] for key, value in zip(key_lengths, lengths, strict=True)]
    pieces[1::7] = times
    pieces[2::7] = offsets
    pieces[3::7] = map(_NUMBERS.__getitem__, key_lengths)
    pieces[4::7] = keys  # type: ignore[assignment]
    pieces[5::7] = map(_NUMBERS.__getitem__, lengths)
    pieces[6::7] = values  # type: ignore[assignment]
    return pieces


def _one_by_one(
    keys: Sequence[bytes | None] | None,
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
    headers: Sequence[tuple[Header, ...]] | None,
) -> list[bytes]:
    numbers, limit, first = _NUMBERS, _TABLE_SIZE, timestamps[0]
    pieces: list[bytes] = []
    for delta, value in enumerate(values):
        elapsed = timestamps[delta] - first
        time = numbers[elapsed] if 0 <= elapsed < limit else encode_varint(elapsed)
        offset = numbers[delta] if delta < limit else encode_varint(delta)
        key_length, key = _field(keys[delta]) if keys else (b"\x01", b"")
        value_length, value = _field(value)
        tail = encode_headers(headers[delta]) if headers and headers[delta] else b"\0"
        size = len(time) + len(offset) + len(key_length) + len(key) + len(value_length) + len(value) + len(tail) + 1
        pieces += (encode_varint(size), b"\0", time, offset, key_length, key, value_length, value, tail)
    return pieces


def _field(field: bytes | None) -> tuple[bytes, bytes]:
    return (b"\x01", b"") if field is None else (encode_varint(len(field)), field)
