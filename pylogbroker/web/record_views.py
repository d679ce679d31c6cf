"""Records of a partition.

A worker thread reads and decodes, up to a number of bytes.
"""

from __future__ import annotations

from typing import Any, Final

from pylogbroker.web.offsets import offsets_at
from pylogbroker.web.partition_logs import PartitionLog, open_logs
from pylogbroker.web.query import Query, milliseconds
from pylogbroker.web.record_rows import FORMATS, SHOWN_SUM_MAX, Wanted, decode, shown_characters
from pylogbroker.web.visitors import Visitor

RECORDS_MAX: Final = 500
RECORDS_DEFAULT: Final = 50
REGIONS_MAX: Final = 16
"""Regions that one search reads: then it returns where to go on."""


async def records(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Return records of a partition from an offset or a time on, or its last ones."""
    services = visitor.services
    topic, index = query.required("topic"), query.count("partition", 0, 2**31 - 1)
    [log] = await open_logs(visitor, topic, [index])
    count = max(1, query.count("count", RECORDS_DEFAULT, RECORDS_MAX))
    shape = query.choice("format", FORMATS)
    offset = await first_offset(visitor, log, query, count)
    rows: list[dict[str, Any]] = []
    upto = log.high_watermark
    for _ in range(REGIONS_MAX):
        region = await log.region_at(offset, upto)
        if region is None:
            break
        wanted = Wanted(offset, count - len(rows), upto, query.text("search"), shape)
        decoded = await services.runtime.in_reading_thread(decode, region, wanted)
        rows += decoded.rows
        offset = decoded.next_offset
        if decoded.is_full or sum(map(shown_characters, rows)) > SHOWN_SUM_MAX:
            break
    return {
        "topic": topic,
        "partition": index,
        "log_start_offset": log.log_start_offset,
        "high_watermark": log.high_watermark,
        "next_offset": offset,
        "search": query.text("search"),
        "format": shape,
        "formats": FORMATS,
        "records": rows,
    }


async def first_offset(visitor: Visitor, log: PartitionLog, query: Query, count: int) -> int:
    """Return the offset that a request names, or that of the last `count` records."""
    if (offset := query.number("offset")) is not None:
        return max(log.log_start_offset, min(offset, log.high_watermark))
    if time := query.text("time"):
        key = log.topic, log.index
        offset = (await offsets_at(visitor, [key], milliseconds(time)))[key]
        return log.high_watermark if offset < 0 else offset
    return max(log.log_start_offset, log.high_watermark - query.count("last", count))
