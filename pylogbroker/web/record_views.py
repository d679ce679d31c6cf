"""Records of a partition.

A worker thread reads and decodes, up to a number of bytes.
"""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

import attrs

from pylogbroker.web.offsets import offsets_at
from pylogbroker.web.parameters import Index, Name, Offset, Search, Time, milliseconds
from pylogbroker.web.partition_logs import PartitionLog, open_logs
from pylogbroker.web.record_rows import FORMATS, SHOWN_SUM_MAX, Format, RecordRow, Wanted, decode, shown_characters
from pylogbroker.web.router.values import Capped
from pylogbroker.web.visitors import Visitor

RECORDS_MAX: Final = 500
_RECORDS_DEFAULT: Final = 50
_REGIONS_MAX: Final = 16
"""Regions that one search reads: then it returns where to go on."""


@attrs.frozen
class Beginning:
    """Beginning of records: at an offset, a time, or so many offsets before the end."""

    offset: int | None
    time: str | int
    last: int


class Records(TypedDict):
    topic: str
    partition: int
    log_start_offset: int
    high_watermark: int
    next_offset: int
    search: str
    format: str
    formats: list[str]
    records: list[RecordRow]


Last = Annotated[Offset | None, "begin so many offsets before the end"]


async def records(
    visitor: Visitor,
    topic: Name,
    partition: Index = 0,
    offset: Offset | None = None,
    time: Time = "",
    last: Last = None,
    count: Annotated[int, Capped(RECORDS_MAX), f"at most so many records, {RECORDS_MAX} at most"] = _RECORDS_DEFAULT,
    search: Annotated[Search, "text in key, value or headers"] = "",
    format: Format = "auto",
) -> Records:
    """Return records of a partition from an offset or a time on, or its last ones."""
    services = visitor.services
    [log] = await open_logs(visitor, topic, [partition])
    count = max(1, count)
    next_offset = await first_offset(visitor, log, Beginning(offset, time, count if last is None else last))
    rows: list[RecordRow] = []
    upto = log.high_watermark
    for _ in range(_REGIONS_MAX):
        region = await log.region_at(next_offset, upto)
        if region is None:
            break
        selection = Wanted(next_offset, count - len(rows), upto, search, format)
        decoded = await services.runtime.in_reading_thread(decode, region, selection)
        rows += decoded.rows
        next_offset = decoded.next_offset
        if decoded.is_full or sum(map(shown_characters, rows)) > SHOWN_SUM_MAX:
            break
    return {
        "topic": topic,
        "partition": partition,
        "log_start_offset": log.log_start_offset,
        "high_watermark": log.high_watermark,
        "next_offset": next_offset,
        "search": search,
        "format": format,
        "formats": [*FORMATS],
        "records": rows,
    }


async def first_offset(visitor: Visitor, log: PartitionLog, beginning: Beginning) -> int:
    """Return the offset where the records begin that a request asks for."""
    if beginning.offset is not None:
        return max(log.log_start_offset, min(beginning.offset, log.high_watermark))
    if beginning.time:
        key = log.topic, log.index
        offset = (await offsets_at(visitor, [key], milliseconds(beginning.time)))[key]
        return log.high_watermark if offset < 0 else offset
    return max(log.log_start_offset, log.high_watermark - beginning.last)
