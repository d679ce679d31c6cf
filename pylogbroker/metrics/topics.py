"""Metrics of what comes into topics and goes out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pylogbroker.broker.partitions.traffic import TopicTraffic, Traffic
from pylogbroker.errors import ErrorCode, RejectionReason
from pylogbroker.long_loops import give_way
from pylogbroker.metrics import families
from pylogbroker.metrics.declarations import Family
from pylogbroker.metrics.exposition import Exposition

_REJECTIONS: Final = {
    RejectionReason.NO_KEY: families.RECORDS_WITHOUT_KEY,
    RejectionReason.MAGIC: families.WRONG_MAGIC,
    RejectionReason.OFFSET_OR_SEQUENCE: families.WRONG_OFFSET_OR_SEQUENCE,
}


async def collect_topics(out: Exposition, traffic: Traffic) -> None:
    """Write each topic's counts, and those of all."""
    total = TopicTraffic()
    total.add(traffic.of_others)
    for topic, counts in tuple(traffic.topics.items()):
        await give_way()
        total.add(counts)
        for family, value in _values(counts):
            out.add(family, value, topic)
    for family, value in _values(total):
        out.add(family, value)
    out.add(families.CORRUPT_RECORDS, total.append_errors[ErrorCode.CORRUPT_MESSAGE])
    for reason, family in _REJECTIONS.items():
        out.add(family, total.rejections[reason])
    for api, errors in (("Produce", total.append_errors), ("Fetch", total.fetch_errors)):
        for code, count in errors.items():
            out.add(families.ERRORS, count, api, code.name)


def _values(counts: TopicTraffic) -> Iterator[tuple[Family, int]]:
    failed_appends, failed_fetches = counts.append_errors.total(), counts.fetch_errors.total()
    yield families.MESSAGES_IN, counts.messages_in
    yield families.BYTES_IN, counts.bytes_in
    yield families.BYTES_OUT, counts.bytes_out
    yield families.REPLICATION_BYTES_OUT, counts.replication_bytes_out
    yield families.APPENDS, counts.appends + failed_appends
    yield families.FAILED_APPENDS, failed_appends
    yield families.FETCHES, counts.fetches
    yield families.FAILED_FETCHES, failed_fetches
    yield families.BYTES_REJECTED, counts.rejected_bytes
    yield families.PRODUCE_CONVERSIONS, counts.produce_conversions
    yield families.FETCH_CONVERSIONS, counts.fetch_conversions
