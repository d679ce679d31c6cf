"""Finding a record by its time.

Segments whose largest timestamp is too old are passed over, the time index of the first other one says where to begin,
and of the entries from there on the first that is young enough is read and decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pylogbroker.storage.segment import Segment


class TimestampedOffset(NamedTuple):
    """A record found by its time."""

    offset: int
    timestamp: int
    leader_epoch: int  # -1 if unknown


def first_at(segments: Iterable[Segment], timestamp: int, start: int) -> TimestampedOffset | None:
    """The first record at or behind offset `start` that is at least as young as `timestamp`."""
    for segment in segments:
        if segment.largest()[0] < timestamp:
            continue
        for header in segment.find_timestamp(timestamp, start):
            entry = segment.read_entry(header)
            for record in entry.records():
                if record.timestamp >= timestamp and record.offset >= start:
                    return TimestampedOffset(record.offset, record.timestamp, entry.leader_epoch)
    return None
