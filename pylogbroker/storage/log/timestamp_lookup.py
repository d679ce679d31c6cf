"""Finds records by timestamp.

Indexes and headers quickly name the first batch that may have the timestamp. A worker decodes it. If no record matches,
for instance after a deletion, the search continues behind the batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import attrs

from pylogbroker.records import entries
from pylogbroker.storage.files import FileRegion
from pylogbroker.storage.log.segment import Segment


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int  # -1 if unknown


@attrs.frozen
class TimestampCandidate:
    """Batch whose header allows a record with at least `timestamp`, from offset `start` on."""

    region: FileRegion
    timestamp: int
    start: int
    next_offset: int  # after the batch

    def first(self) -> TimestampedOffset | None:
        """Return the first matching record, if any. Blocks; any thread."""
        for entry in entries(self.region.read()):
            for record in entry.records():
                if record.timestamp >= self.timestamp and record.offset >= self.start:
                    return TimestampedOffset(record.offset, record.timestamp, entry.leader_epoch)
        return None


def find_candidate(
    segments: Iterable[Segment], timestamp: int, start: int, may_wait: bool
) -> TimestampCandidate | None:
    for segment in segments:
        if segment.largest(may_wait)[0] >= timestamp:
            for header in segment.find_timestamp(timestamp, start, may_wait):
                region = segment.file.region(header.position, header.size)
                return TimestampCandidate(region, timestamp, start, header.last_offset + 1)
    return None
