"""Metrics of the log cleaner."""

from __future__ import annotations

from pylogbroker.broker.assembly import Broker
from pylogbroker.metrics import families
from pylogbroker.metrics.exposition import Exposition


def collect_cleaner(out: Exposition, broker: Broker) -> None:
    cleaner = broker.log_cleaner
    counts, now_ms = cleaner.counts, broker.runtime.now_ms()
    looked_ms = now_ms if counts.looked_at_ms is None else counts.looked_at_ms
    out.add(families.CLEANER_DIRTY, round(100 * counts.dirty_ratio_max, 3))
    out.add(families.CLEANER_LOOKED, max(0, now_ms - looked_ms))
    for directory in broker.logs.directories:
        out.add(families.CLEANER_UNCLEANABLE, cleaner.uncleanable_in(directory.path), directory.path)
    out.add(families.CLEANER_SECONDS_MAX, round(counts.seconds_max, 6))
    out.add(families.CLEANINGS, counts.cleanings)
    out.add(families.CLEANINGS_FAILED, counts.failures)
    out.add(families.CLEANING_SECONDS, round(counts.seconds, 6))
    out.add(families.CLEANING_BYTES_READ, counts.bytes_read)
    out.add(families.CLEANING_BYTES_WRITTEN, counts.bytes_written)
