"""Mirrors into this cluster, by their heartbeats: lag and rate, topics, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypedDict

from pylogbroker.errors import CorruptRecords, InvalidRecords
from pylogbroker.mirror_records.formats import HEARTBEATS_TOPIC
from pylogbroker.mirror_records.status import MirrorSign, signs_of
from pylogbroker.records import Header, entries
from pylogbroker.web.partition_logs import open_logs
from pylogbroker.web.record_rows import RecordRegion
from pylogbroker.web.visitors import Visitor

_RECORDS_MAX: Final = 1000
"""Heartbeats that are read: those of some seconds."""

_REGIONS_MAX: Final = 4
_INFLATED_BYTES_MAX: Final = 4 * 1024 * 1024
StoredRecord = tuple[bytes | None, bytes | None, Sequence[Header]]


class MirroredTopicRow(TypedDict):
    topic: str
    target: str
    partitions: int
    lag: int


class StoppedTopic(TypedDict):
    topic: str
    reason: str


class MirrorRow(TypedDict):
    """A mirror; one of MirrorMaker has no figures. `topics` are those with the greatest lag."""

    source: str
    target: str
    is_running: bool
    heartbeat: int
    lag: int | None
    records_per_second: float | None
    bytes_per_second: float | None
    topics: list[MirroredTopicRow]
    stopped: list[StoppedTopic]
    trouble: str


class Mirrors(TypedDict):
    mirrors: list[MirrorRow]


async def mirrors(visitor: Visitor) -> Mirrors:
    """Return mirrors by their last heartbeats in this cluster."""
    services = visitor.services
    if HEARTBEATS_TOPIC not in services.metadata.topics:
        return {"mirrors": []}
    [log] = await open_logs(visitor, HEARTBEATS_TOPIC, [0])
    upto = log.high_watermark
    position = max(log.log_start_offset, upto - _RECORDS_MAX)
    records: list[StoredRecord] = []
    for _ in range(_REGIONS_MAX):
        region = await log.region_at(position, upto)
        if region is None:
            break
        records += await services.runtime.in_reading_thread(_records_of, region)
        position = region.next_offset
    now = services.runtime.time_of_day()
    return {"mirrors": [_row(sign, now) for sign in signs_of(records)]}


def _records_of(region: RecordRegion) -> list[StoredRecord]:
    """Read and decode a region up to damage. Blocks."""
    records: list[StoredRecord] = []
    with suppress(CorruptRecords, InvalidRecords):
        for entry in entries(region.read()):
            if not entry.is_control:
                decoded = entry.records(_INFLATED_BYTES_MAX)
                records += [(record.key, record.value, record.headers) for record in decoded]
    return records


def _row(sign: MirrorSign, now: float) -> MirrorRow:
    report = sign.report
    return {
        "source": sign.source,
        "target": sign.target,
        "is_running": sign.is_running(now),
        "heartbeat": sign.timestamp,
        "lag": None if report is None else report.lag,
        "records_per_second": None if report is None else report.records_per_second,
        "bytes_per_second": None if report is None else report.bytes_per_second,
        "topics": [
            {"topic": topic.topic, "target": topic.target, "partitions": topic.partitions, "lag": topic.lag}
            for topic in (() if report is None else report.topics)
        ],
        "stopped": [
            {"topic": topic, "reason": reason} for topic, reason in ({} if report is None else report.stopped).items()
        ],
        "trouble": "" if report is None else report.trouble,
    }
