"""Convert spans of a buffer to a binary Arrow array, without a step per span.

Long spans become binary views, which Arrow casts:

    view       | length | first four bytes | buffer | offset |        four bytes each

Views store up to 12 bytes inline. So short spans, alternating with gaps, become one array:

    bytes      | .. | span 0 | ...... | span 1 | ... | span 2 | .
    elements        |   0    |   1    |   2    |  3  |   4    |

Arrow takes every second element, up to twice as slowly.

The bytes come from malloc, unless the user chose a pool of Arrow by its variable. Arrow's default, mimalloc, asks the
kernel for huge pages. Where memory is scarce or virtual, these cost several times as much as small ones:

    read_table of 400 MB on a virtual machine      mimalloc 1.2 s, malloc 0.4 s of processor time
"""

from __future__ import annotations

import os
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pylogbroker.errors import InvalidRecords
from pylogbroker.records import Buffer
from pylogbroker.records.columnar.varints import Flags, Ints

_MOST: Final = (1 << 31) - 1  # of a binary array
_INLINE_BYTES_MAX: Final = 12  # inside a view
_POOL: Final = None if "ARROW_DEFAULT_MEMORY_POOL" in os.environ else pa.system_memory_pool()


def binary_of(raw: Buffer, starts: Ints, lengths: Ints) -> pa.Array:
    """Return ascending spans as a binary array; negative lengths are null."""
    if len(raw) > _MOST:
        raise InvalidRecords(f"records of {len(raw)} bytes in one piece")
    shortest = lengths.min(initial=_MOST)
    if shortest > _INLINE_BYTES_MAX:
        return _by_views(raw, starts, lengths, None)
    is_null = lengths < 0
    if is_null.all():
        return pa.nulls(len(starts), pa.binary())
    null = is_null if shortest < 0 else None
    lengths = lengths if null is None else np.maximum(lengths, 0)
    if ((lengths > _INLINE_BYTES_MAX) | (lengths == 0)).all():
        return _by_views(raw, starts, lengths, null)
    return _by_chunks(raw, starts, lengths, null)


def _by_views(raw: Buffer, starts: Ints, lengths: Ints, null: Flags | None) -> pa.Array:
    views = np.zeros((len(starts), 4), np.int32)  # the first bytes stay zero: only comparisons use them
    views[:, 0] = lengths
    views[:, 3] = starts
    valid = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    buffers = [valid, pa.py_buffer(views), pa.py_buffer(raw)]
    return pa.Array.from_buffers(pa.binary_view(), len(starts), buffers).cast(pa.binary(), memory_pool=_POOL)


def _by_chunks(raw: Buffer, starts: Ints, lengths: Ints, null: Flags | None) -> pa.Array:
    bounds = np.empty((len(starts), 2), np.int32)
    bounds[:, 0] = starts
    np.add(starts, lengths, out=bounds[:, 1], casting="same_kind")
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(raw)]
    chunks = pa.Array.from_buffers(pa.binary(), bounds.size - 1, buffers)
    return pc.take(chunks, pa.array(np.arange(0, bounds.size, 2, dtype=np.int32), mask=null), memory_pool=_POOL)
