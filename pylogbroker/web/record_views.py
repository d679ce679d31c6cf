"""Records of a partition.

The reactor finds the place in the log, as for a fetch. A worker thread reads and decodes, up to a number of bytes.
"""

from __future__ import annotations

from typing import Any, Final

from pylogbroker.broker.fetch.readahead import read_ahead
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.storage import FileRegion, NotCached
from pylogbroker.web.decoding import FORMATS, SHOWN_SUM_MAX, Wanted, decode, shown_characters
from pylogbroker.web.offsets import offsets_at
from pylogbroker.web.query import Query, milliseconds
from pylogbroker.web.visitors import Visitor

RECORDS_MAX: Final = 500
RECORDS_DEFAULT: Final = 50
REGION_BYTES_MAX: Final = 1024 * 1024
REGIONS_MAX: Final = 16
"""Regions that one search reads: then it returns where to go on."""


async def records(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Return records of a partition from an offset or a time on, or its last ones."""
    services = visitor.services
    topic, index = query.required("topic"), query.count("partition", 0, 2**31 - 1)
    visitor.check(AclOperation.READ, AclResourceType.TOPIC, topic)
    partition = found_partition(services, topic, index)
    log = partition.log
    count = max(1, query.count("count", RECORDS_DEFAULT, RECORDS_MAX))
    shape = query.choice("format", FORMATS)
    offset = await first_offset(visitor, partition, query, count)
    rows: list[dict[str, Any]] = []
    upto = log.high_watermark
    for _ in range(REGIONS_MAX):
        region = await region_at(services, partition, offset, upto)
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


def found_partition(services: Services, topic: str, index: int) -> Partition:
    """Return a partition that this broker leads; raise KafkaError."""
    partition = services.partitions.find(topic, index)
    if partition.log.byte_addressed:
        raise KafkaError("records of a topic of 0.7 are not shown", ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    return partition


async def first_offset(visitor: Visitor, partition: Partition, query: Query, count: int) -> int:
    """Return the offset that a request names, or that of the last `count` records."""
    log = partition.log
    if (offset := query.number("offset")) is not None:
        return max(log.log_start_offset, min(offset, log.high_watermark))
    if time := query.text("time"):
        key = partition.topic, partition.index
        offset = (await offsets_at(visitor, [key], milliseconds(time)))[key]
        return log.high_watermark if offset < 0 else offset
    return max(log.log_start_offset, log.high_watermark - query.count("last", count))


async def region_at(
    services: Services, partition: Partition, offset: int, upto: int, size: int = REGION_BYTES_MAX
) -> FileRegion | None:
    """Return records; a worker thread brings parts of indexes that are on the disk."""
    while True:
        try:
            return partition.log.read(offset, size, upto=upto, may_wait=False)
        except NotCached as missing:
            await services.runtime.in_reading_thread(read_ahead, missing.region)
