"""Places and fields of records in a batch, beside what decodes them one after the other."""

from __future__ import annotations

import pytest
from hypothesis import given

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import HEADER_V2, Record, build, entries
from pylogbroker.records.record_spans import fields_at, record_starts
from tests.records.strategies import records


@given(records())
def test_fields_agree_with_the_decoder(given_records: list[Record]) -> None:
    [entry] = entries(build(given_records))
    data = bytes(entry.buffer[HEADER_V2.size :])
    starts = record_starts(data, entry.count)
    fields = [fields_at(data, start) for start in starts]
    decoded = [
        Record(entry.base_offset + offset, entry.first_timestamp + elapsed, key, value, headers)
        for elapsed, offset, key, value, headers in fields
    ]
    assert decoded == list(entry.records())


def test_lengths_that_do_not_add_up() -> None:
    data = bytes(build([Record(0, 0, b"k" * 100, b"v"), Record(1, 0, None, b"v")])[HEADER_V2.size :])
    for damaged, count in ((data[:-1], 2), (data, 3), (data, 1), (b"\x01" + data[1:], 2), (data + b"\x81", 2)):
        with pytest.raises(CorruptRecords):
            record_starts(damaged, count)
    [first, _] = record_starts(data, 2)
    with pytest.raises(CorruptRecords):
        fields_at(data[: first + 3], first)
