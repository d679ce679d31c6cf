"""Base offsets of segments older than a time, newest first, for ListOffsets 0.

    segment       [----------][----------][------    active
    candidates    a           b           c     d    d: the log's end, if the active segment has records
    written last             t1          t2    t3    now

A candidate, except d, has the time of its segment's last write. The answer is the newest `max_num_offsets` candidates
up to the requested time.
"""

from __future__ import annotations

import os

from pylogbroker.storage import Log
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST


def offsets_before(log: Log, timestamp: int, limit: int, now_ms: int) -> list[int]:
    """Raise StorageFailure if a segment's file cannot be found."""
    candidates = _candidates(log, now_ms)
    if timestamp == EARLIEST:
        candidates = candidates[:1]
    elif timestamp != LATEST:
        while candidates and candidates[-1][1] > timestamp:
            candidates.pop()
    newest_first = [offset for offset, _ in reversed(candidates)]
    return sorted(newest_first[: max(0, limit)], reverse=True)


def visible_offsets_before(log: Log, timestamp: int, limit: int, now_ms: int, bound: int) -> list[int]:
    offsets = offsets_before(log, timestamp, limit, now_ms)
    if offsets and offsets[0] > bound:
        return [bound, *(offset for offset in offsets if offset <= bound)]
    return offsets


def _candidates(log: Log, now_ms: int) -> list[tuple[int, int]]:
    with log.on_disk():
        candidates = [
            (max(segment.base_offset, log.log_start_offset), int(os.stat(segment.path).st_mtime * 1000))
            for segment in log.segments
        ]
    if log.segments[-1].size:
        candidates.append((log.log_end_offset, now_ms))
    return candidates
