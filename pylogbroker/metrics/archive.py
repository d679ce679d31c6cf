"""Metrics of archived topics; a broker without a remote storage has none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pylogbroker.broker.assembly import Broker
from pylogbroker.broker.partitions.archived import Archive
from pylogbroker.long_loops import give_way
from pylogbroker.metrics import families
from pylogbroker.metrics.declarations import Family
from pylogbroker.metrics.exposition import Exposition


async def collect_archive(out: Exposition, broker: Broker) -> None:
    """Write the counts of each archived topic, and the state of the remote storage."""
    service = broker.archive
    if service is None:
        return
    topics: dict[str, Counter[Family]] = {}
    for partition, archived in tuple(service.archived.items()):
        await give_way()
        counts = topics.setdefault(partition.topic, Counter())
        for family, value in _totals(archived):
            counts[family] += value
        if broker.partitions.is_led(partition):
            for family, value in _sizes(archived):
                counts[family] += value
    for topic, counts in topics.items():
        for family, value in counts.items():
            out.add(family, value, topic)
    out.add(families.ARCHIVE_FAILURES, service.health.failures)
    out.add(families.ARCHIVE_CACHE_BYTES, service.access.cache.held)
    for (longest, average), rate in (
        (families.ARCHIVE_COPY_THROTTLES, service.access.limits.rate),
        (families.ARCHIVE_READ_THROTTLES, service.access.read_limits.rate),
    ):
        times = rate.throttle_times()
        out.add(longest, max(times, default=0))
        out.add(average, round(sum(times) / len(times)) if times else 0)


def _totals(archived: Archive) -> Iterator[tuple[Family, int]]:
    totals = archived.totals
    yield families.COPIED_BYTES, totals.copied_bytes
    yield families.COPIES, totals.copy_requests
    yield families.FAILED_COPIES, totals.copy_errors
    yield families.ARCHIVED_BYTES_READ, totals.fetched_bytes
    yield families.ARCHIVE_READS, totals.fetch_requests
    yield families.FAILED_ARCHIVE_READS, totals.fetch_errors
    yield families.ARCHIVE_DELETIONS, totals.delete_requests
    yield families.FAILED_ARCHIVE_DELETIONS, totals.delete_errors


def _sizes(archived: Archive) -> Iterator[tuple[Family, int]]:
    lag_bytes, lag_segments = archived.lag
    yield families.COPY_LAG_BYTES, lag_bytes
    yield families.COPY_LAG_SEGMENTS, lag_segments
    yield families.ARCHIVE_SIZE, archived.size
    yield families.ARCHIVE_SEGMENTS, archived.segment_count
