"""Spans of a buffer to an Arrow array of them, without a step for each.

The buffer is taken for one binary array in which the spans, and what lies between them, take turns,

    bytes      | .. | span 0 | ...... | span 1 | ... | span 2 | .
    elements        |   0    |   1    |   2    |  3  |   4    |

of which Arrow then copies every second one to where they lie side by side.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from pylogbroker.errors import InvalidRecords
from pylogbroker.records import Buffer
from pylogbroker.records.columns.varints import Ints

_MOST: Final = (1 << 31) - 1  # bytes that a binary array spans


def binary_of(raw: Buffer, starts: Ints, lengths: Ints) -> pa.Array:
    """The spans as a binary array, null where the length is negative; they follow one another in the buffer."""
    if len(raw) > _MOST:
        raise InvalidRecords(f"records of {len(raw)} bytes in one piece")
    null = lengths < 0
    if null.all():
        return pa.nulls(len(starts), pa.binary())
    some_null = bool(null.any())
    bounds = np.empty((len(starts), 2), np.int32)
    bounds[:, 0] = starts
    bounds[:, 1] = starts + np.maximum(lengths, 0) if some_null else starts + lengths
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(raw)]
    turns = pa.Array.from_buffers(pa.binary(), bounds.size - 1, buffers)
    every_second = np.arange(0, bounds.size, 2, dtype=np.int32)
    return turns.take(pa.array(every_second, mask=null if some_null else None))
