"""Finding a record by its time.

Segments whose largest timestamp is too old are passed over, the time index of the first other one says where to begin,
and from there on the headers say which entry has something young enough.  That is quick.  To read and decode this entry
may take long, so it is left to a worker thread.  A header may promise more than can be had, records that are deleted
already for instance: then the search goes on behind the entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import attrs

from pylogbroker.records import entries
from pylogbroker.storage.files import FileRegion
from pylogbroker.storage.log.segment import Segment


class TimestampedOffset(NamedTuple):
    """A record found by its time."""

    offset: int
    timestamp: int
    leader_epoch: int  # -1 if unknown


@attrs.frozen
class TimestampCandidate:
    """An entry that by its header has a record as young as `timestamp`, at or behind offset `start`."""

    region: FileRegion
    timestamp: int
    start: int
    next_offset: int  # behind the entry

    def first(self) -> TimestampedOffset | None:
        """The first such record, if there is one.  Reads and decodes the entry: blocks; any thread."""
        for entry in entries(self.region.read()):
            for record in entry.records():
                if record.timestamp >= self.timestamp and record.offset >= self.start:
                    return TimestampedOffset(record.offset, record.timestamp, entry.leader_epoch)
        return None


def find_candidate(
    segments: Iterable[Segment], timestamp: int, start: int, may_wait: bool
) -> TimestampCandidate | None:
    """The first entry that may have a record as young as `timestamp`, at or behind offset `start`.

    NotCached if that cannot be said without waiting for the disk, which the caller may not.
    """
    for segment in segments:
        if segment.largest(may_wait)[0] >= timestamp:
            for header in segment.find_timestamp(timestamp, start, may_wait):
                region = segment.region(header.position, header.size)
                return TimestampCandidate(region, timestamp, start, header.last_offset + 1)
    return None
