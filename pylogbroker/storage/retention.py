"""Delete policies: which of a log's oldest segments may go.

A policy is asked with immutable views of the log's segments, oldest first, and the time; it names those that may go,
oldest first.  It neither touches files nor knows the log.  The log takes from the answer what it can do: a run of
segments from the oldest on, none of which holds records that are not yet below the high watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import attrs

from pylogbroker.storage.log_config import LogConfig


@attrs.frozen
class SegmentView:
    """What a policy may know of a segment.  Sizes in bytes, times in ms since 1970."""

    base_offset: int
    next_offset: int
    size: int
    largest_timestamp: int  # of its records; -1 if they have none
    modified_ms: int  # when its file was written to last
    active: bool  # whether appends go to it


class DeletePolicy(Protocol):
    """Chooses segments to be deleted.  Called on the reactor's thread; must not block."""

    def deletable(self, segments: Sequence[SegmentView], now_ms: int) -> Iterable[SegmentView]:
        """Those of `segments` that may go, oldest first."""


@attrs.frozen
class RecordTimePolicy:
    """Segments go whose youngest record is older than `retention_ms`; a negative number keeps all.

    The file's modification time stands in for the timestamps of records that have none (message format v0).
    """

    retention_ms: int

    def deletable(self, segments: Sequence[SegmentView], now_ms: int) -> Iterable[SegmentView]:
        if self.retention_ms < 0:
            return
        for segment in segments:
            time = segment.largest_timestamp if segment.largest_timestamp >= 0 else segment.modified_ms
            if now_ms - time <= self.retention_ms:
                return
            yield segment


@attrs.frozen
class SizePolicy:
    """Segments go as long as the log without them is at least `retention_bytes` large; negative keeps all."""

    retention_bytes: int

    def deletable(self, segments: Sequence[SegmentView], now_ms: int) -> Iterable[SegmentView]:
        if self.retention_bytes < 0:
            return
        surplus = sum(segment.size for segment in segments) - self.retention_bytes
        for segment in segments:
            surplus -= segment.size
            if surplus < 0:
                return
            yield segment


def policies_of(config: LogConfig) -> tuple[DeletePolicy, ...]:
    """The built-in policies that a topic's settings ask for."""
    if not config.deletes:
        return ()
    return RecordTimePolicy(config.retention_ms), SizePolicy(config.retention_bytes)


def agreed_run(policy: DeletePolicy, segments: Sequence[SegmentView], now_ms: int, high_watermark: int) -> int:
    """How many of the oldest segments may go by `policy`, and may be taken by the log at all."""
    chosen = {view.base_offset for view in policy.deletable(segments, now_ms)}
    run = 0
    for view in segments:
        if view.base_offset not in chosen or view.next_offset > high_watermark or (view.active and not view.size):
            break
        run += 1
    return run
