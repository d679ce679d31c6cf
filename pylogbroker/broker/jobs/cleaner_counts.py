"""Counts of the log cleaner's work, for metrics."""

from __future__ import annotations

import attrs

from pylogbroker.storage.compaction.jobs import Statistics


@attrs.define(eq=False)
class CleanerCounts:
    """`looked_at_ms` is the last look for logs to compact; None before the first."""

    cleanings: int = 0
    failures: int = 0
    seconds: float = 0.0
    seconds_max: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    dirty_ratio_max: float = 0.0
    looked_at_ms: int | None = None

    def add(self, statistics: Statistics) -> None:
        self.cleanings += 1
        self.seconds += statistics.seconds
        self.seconds_max = max(self.seconds_max, statistics.seconds)
        self.bytes_read += statistics.bytes_read
        self.bytes_written += statistics.bytes_written
