"""Headers of v2 batches as a table with one row per batch; `pylogbroker.records.batch` has the layout."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pylogbroker.records.buffers import Buffer

BatchHeaders: TypeAlias = npt.NDArray[np.void]

BATCH_HEADER: Final[np.dtype[Any]] = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("first_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
_ROW: Final = np.dtype((np.void, BATCH_HEADER.itemsize))  # numpy copies whole rows faster than fields


def batch_headers_at(buffer: Buffer, places: npt.NDArray[np.int64] | list[int]) -> BatchHeaders:
    """Return the headers of the batches at `places` in a buffer."""
    windows: BatchHeaders = np.ndarray((len(buffer) - BATCH_HEADER.itemsize + 1,), _ROW, buffer, strides=(1,))
    return windows[places].view(BATCH_HEADER)
