"""Selects the log to compact next, and the part of it.

```
 log start     first dirty offset                       end offset
     |                 |                                    |
  ---[ compacted       ][ dirty                             ][ not yet           [ active segment ]
```

"Not yet" begins with the active segment, or the first one with records at or above the last stable offset, or younger
than min.compaction.lag.ms. A log is due if more than min.cleanable.dirty.ratio of its bytes before the end are dirty,
or some dirty ones older than max.compaction.lag.ms.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter

import attrs

from pylogbroker.storage.compaction.jobs import NO_LIMIT, CleanerJob, SourceSegment
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.log import Log
from pylogbroker.storage.log.segment import Segment

_LONG_MAX = 2**63 - 1


@attrs.frozen
class CleanerLimits:
    """Bytes of memory for keys; bytes per second for reads and writes."""

    dedupe_bytes: int = 128 << 20
    io_bytes_per_second: int = NO_LIMIT


@attrs.frozen(eq=False, repr=False)
class Cleanable:
    log: Log
    segments: tuple[Segment, ...]
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        if not self.dirty_bytes:
            return False
        return self.is_overdue or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio

    def job(self, now_ms: int, limits: CleanerLimits) -> CleanerJob:
        """Raise OSError or StorageFailure if the disk fails."""
        log, config = self.log, self.log.config
        sources = tuple(_source(segment) for segment in self.segments)
        return CleanerJob(
            log.path, sources, self.first_dirty_offset, self.end_offset, now_ms,
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            dedupe_bytes=limits.dedupe_bytes,
            io_bytes_per_second=limits.io_bytes_per_second,
            last_sequences={
                producer.producer_id: producer.batches[-1].last_offset for producer in log.producers if producer.batches
            },
            aborted=tuple(log.aborted_transactions(self.end_offset, self.end_offset)),
        )  # fmt: skip


def _source(segment: Segment) -> SourceSegment:
    return SourceSegment(segment.base_offset, segment.path, segment.size, _modified_ms(segment))


def _modified_ms(segment: Segment) -> int:
    return int(os.stat(segment.path).st_mtime * 1000)


def examine(log: Log, now_ms: int) -> Cleanable | None:
    """Return the part to compact, if any; raise OSError if the disk fails."""
    config = log.config
    if not config.compacts or log.offline_reason:
        return None
    first_dirty = log.first_dirty_offset
    sealed = _cleanable(log, config, first_dirty, now_ms)
    if not sealed:
        return None
    end = log.segments[len(sealed)].base_offset
    bounds = zip(sealed, (*(segment.base_offset for segment in sealed[1:]), end), strict=True)
    dirty = [segment for segment, behind in bounds if behind > first_dirty]
    dirty_bytes = sum(segment.size for segment in dirty)
    clean_bytes = sum(segment.size for segment in sealed) - dirty_bytes
    overdue = any(_is_overdue(segment, config, now_ms) for segment in dirty)
    return Cleanable(log, sealed, first_dirty, end, clean_bytes, dirty_bytes, overdue)


def _cleanable(log: Log, config: LogConfig, first_dirty: int, now_ms: int) -> tuple[Segment, ...]:
    segments, limit = log.segments, log.last_stable_offset
    for number, (segment, successor) in enumerate(pairwise(segments)):
        dirty = successor.base_offset > first_dirty
        if successor.base_offset > limit or (dirty and _is_young(segment, config.min_compaction_lag_ms, now_ms)):
            return segments[:number]
    return segments[:-1]


def _is_young(segment: Segment, lag_ms: int, now_ms: int) -> bool:
    if lag_ms <= 0:
        return False
    largest = segment.largest()[0]
    return (largest if largest >= 0 else _modified_ms(segment)) > now_ms - lag_ms


def _is_overdue(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    lag_ms = config.max_compaction_lag_ms
    return lag_ms < _LONG_MAX and 0 <= segment.first_timestamp() < now_ms - lag_ms


def must_seal(log: Log, now_ms: int) -> bool:
    """Return whether the active segment must be sealed, for compaction in time.

    Appends roll it by the time between records. Without appends the clock counts, at the earliest from the segment's
    creation: records that are old on arrival must not get a segment each.
    """
    config, active = log.config, log.segments[-1]
    lag_ms = config.max_compaction_lag_ms
    if not config.compacts or lag_ms == _LONG_MAX or log.offline_reason or not active.size:
        return False
    return now_ms - max(active.first_timestamp(), active.created_ms) > lag_ms


def dirtiest(candidates: Iterable[Cleanable]) -> Cleanable | None:
    return max((candidate for candidate in candidates if candidate.is_due), key=attrgetter("dirty_ratio"), default=None)
