"""Decode headers of many records into Arrow: one step for all records' k-th header."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from pylogbroker.records.columnar import Columns
from pylogbroker.records.columnar.varints import Bytes, Ints, raw_varints, signed
from pylogbroker.table.spans import binary_of

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", _HEADER))


def headers_of(columns: Columns) -> pa.Array:
    if not columns.has_headers or not len(columns):
        return pa.nulls(len(columns), HEADERS)
    raw_counts, at = raw_varints(columns.data, columns.header_starts)
    counts = signed(raw_counts)
    bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    key_starts, key_lengths, value_starts, value_lengths = _spans(columns.data, at, counts, bounds)
    keys = _text(binary_of(columns.raw, key_starts, key_lengths))
    values = binary_of(columns.raw, value_starts, value_lengths)
    headers = pa.StructArray.from_arrays([keys, values], fields=list(_HEADER))
    return pa.ListArray.from_arrays(
        pa.array(bounds.astype(np.int32)), headers, type=HEADERS, mask=pa.array(counts == 0)
    )


def _spans(data: Bytes, at: Ints, counts: Ints, bounds: Ints) -> Ints:
    """Return key starts, key lengths, value starts and value lengths, in record order."""
    spans = np.empty((4, int(bounds[-1])), np.int64)
    for number in range(int(counts.max())):
        left = np.flatnonzero(counts > number)
        slots = bounds[left] + number
        size, start = raw_varints(data, at[left])
        spans[:2, slots] = start, size >> 1
        size, start = raw_varints(data, start + (size >> 1))
        length = signed(size)
        spans[2:, slots] = start, length
        at[left] = start + np.maximum(length, 0)
    return spans


def _text(keys: pa.Array) -> pa.Array:
    """Decode UTF-8; replace invalid bytes, as Java does."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
