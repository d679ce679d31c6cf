"""Groups neighbouring segments that together fit into one."""

from __future__ import annotations

import os
from collections.abc import Iterator

from pylogbroker.storage import names
from pylogbroker.storage.compaction.jobs import CleanerJob, SourceSegment
from pylogbroker.storage.log.segment import RELATIVE_OFFSET_MAX

_INDEXES = (names.OFFSET_INDEX, names.TIME_INDEX)


def groups(job: CleanerJob) -> Iterator[tuple[SourceSegment, ...]]:
    """Yield the sources in groups that each become one segment."""
    group: list[SourceSegment] = []
    held = [0, 0, 0]
    limits = job.segment_bytes, job.segment_index_bytes, job.segment_index_bytes
    for source, end in job.bounded:
        more = [before + size for before, size in zip(held, _sizes(job, source), strict=True)]
        fits = all(size <= limit for size, limit in zip(more, limits, strict=True))
        if group and not (fits and end - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX):
            yield tuple(group)
            group, more = [], _sizes(job, source)
        group.append(source)
        held = more
    if group:
        yield tuple(group)


def _sizes(job: CleanerJob, source: SourceSegment) -> list[int]:
    """Return the bytes of records and of both indexes."""
    return [source.size, *(_size(names.file_of(job.directory, source.base_offset, suffix)) for suffix in _INDEXES)]


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
