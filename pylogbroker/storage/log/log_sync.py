"""What has to be forced to the disk before a log may say that it is safe up to an offset.

The entries themselves; of sealed segments also the indexes, which will not be built anew unless they are seen to be
damaged; of a new log which topic it belongs to; and the names of new files in their directories.
"""

from __future__ import annotations

import os

from pylogbroker.storage import names
from pylogbroker.storage.files import sync_file
from pylogbroker.storage.log.segment import Segment


def sync_segments(path: str, segments: tuple[Segment, ...], safe: int, end: int, new_names: bool) -> None:
    """Force to the disk what lies between `safe` and `end`, and `new_names` in the directory.

    Blocks; any thread.
    """
    new_names = new_names or segments[-1].base_offset >= safe
    for segment, successor in zip(segments, (*segments[1:], None), strict=True):
        if segment.base_offset < end and (successor is None or successor.base_offset > safe):
            segment.sync(sealed=successor is not None)
            if successor is not None:
                sync_file(names.file_of(path, successor.base_offset, names.SNAPSHOT))
    is_new = segments[0].base_offset >= safe
    if is_new:
        sync_file(f"{path}/{names.PARTITION_METADATA}")
    if new_names:
        sync_file(path)
    if is_new:
        sync_file(os.path.dirname(path))
