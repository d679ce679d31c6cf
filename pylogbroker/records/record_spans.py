"""Places of the records in a batch, and their fields, read without an object for each record.

    spans = record_starts(data, count)          # lengths alone are read
    fields = fields_at(data, spans[7])          # of the record that is of interest

`LogEntry.records` decodes all fields of all records, which takes ten times as long.
"""

from __future__ import annotations

from typing import TypeAlias

from pylogbroker.errors import CorruptRecords
from pylogbroker.records.batch import read_headers
from pylogbroker.records.model import Header
from pylogbroker.records.varint import continue_varint

Fields: TypeAlias = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]
"""Timestamp delta, offset delta, key, value, headers."""


def record_starts(data: bytes, count: int) -> list[int]:
    """Return where each record begins, behind its length; raise CorruptRecords for lengths that do not add up."""
    starts: list[int] = []
    position, end = 0, len(data)
    append = starts.append
    try:
        while position < end:
            raw = data[position]
            position += 1
            if raw > 0x7F:
                raw, position = continue_varint(data, position, raw)
            if raw & 1:
                raise CorruptRecords("a record has a negative length")
            append(position)
            position += raw >> 1
    except IndexError:
        raise CorruptRecords("the batch ends within a record") from None
    if position != end or len(starts) != count:
        raise CorruptRecords(f"{len(starts)} records of {position} bytes are not {count} records of {end} bytes")
    return starts


def fields_at(data: bytes, start: int) -> Fields:
    """Return the fields of the record that begins at `start`; raise CorruptRecords."""
    position = start + 1
    try:
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(data, position, raw)
        timestamp_delta = (raw >> 1) ^ -(raw & 1)
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(data, position, raw)
        offset_delta = (raw >> 1) ^ -(raw & 1)
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(data, position, raw)
        key = None if raw & 1 else data[position : (position := position + (raw >> 1))]
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(data, position, raw)
        value = None if raw & 1 else data[position : (position := position + (raw >> 1))]
        headers = read_headers(data, position)[0] if data[position] else ()
    except IndexError:
        raise CorruptRecords("the batch ends within a record") from None
    return timestamp_delta, offset_delta, key, value, headers
