"""Records of a partition.

The reactor finds the place in the log, as for a fetch. A worker thread reads and decodes, up to a number of bytes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from pylogbroker.broker.apis import list_offsets
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.fetch.readahead import read_ahead
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.errors import code_of
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.storage import FileRegion, NotCached
from pylogbroker.web.decoding import FORMATS, SHOWN_SUM_MAX, Wanted, decode, shown_characters
from pylogbroker.web.query import BadQuery, Query
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

RECORDS_MAX: Final = 500
RECORDS_DEFAULT: Final = 50
REGION_BYTES_MAX: Final = 1024 * 1024
REGIONS_MAX: Final = 16
"""Regions that one search reads: then it returns where to go on."""

_LIST_OFFSETS_VERSION: Final = 7


async def records(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Return records of a partition from an offset or a time on, or its last ones."""
    services = visitor.services
    topic, index = query.required("topic"), query.count("partition", 0, 2**31 - 1)
    visitor.check(AclOperation.READ, AclResourceType.TOPIC, topic)
    partition = services.partitions.find(topic, index)
    log = partition.log
    if log.byte_addressed:
        raise KafkaError("records of a topic of 0.7 are not shown", ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    count = max(1, query.count("count", RECORDS_DEFAULT, RECORDS_MAX))
    shape = query.choice("format", FORMATS)
    offset = await _first_offset(services, partition, query, count)
    rows: list[dict[str, Any]] = []
    upto = log.high_watermark
    for _ in range(REGIONS_MAX):
        region = await _region(services, partition, offset, upto)
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
        "records": rows,
    }


async def _first_offset(services: Services, partition: Partition, query: Query, count: int) -> int:
    log = partition.log
    if (offset := query.number("offset")) is not None:
        return max(log.log_start_offset, min(offset, log.high_watermark))
    if time := query.text("time"):
        return await _offset_at(services, partition, _milliseconds(time))
    return max(log.log_start_offset, log.high_watermark - query.count("last", count))


def _milliseconds(text: str) -> int:
    """Return milliseconds since 1970 of a number, or of a time in ISO 8601, which is UTC unless it says."""
    if text.isascii() and text.isdigit() and len(text) <= len(str(2**63)):
        return min(int(text), 2**63 - 1)
    try:
        time = datetime.fromisoformat(text)
        return max(0, int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise BadQuery("time must be milliseconds since 1970, or like 2026-01-31T12:00") from None


async def _offset_at(services: Services, partition: Partition, timestamp: int) -> int:
    wanted = ListOffsetsPartition(partition_index=partition.index, timestamp=timestamp)
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(partition.topic, [wanted])])
    answer = await list_offsets.handle(services, RequestContext(_LIST_OFFSETS_VERSION), request)
    [found] = answer.topics[0].partitions
    if found.error_code:
        raise KafkaError("the offset of a time was not found", code_of(found.error_code))
    return partition.log.high_watermark if found.offset < 0 else int(found.offset)


async def _region(services: Services, partition: Partition, offset: int, upto: int) -> FileRegion | None:
    """Return records; a worker thread brings parts of indexes that are on the disk."""
    while True:
        try:
            return partition.log.read(offset, REGION_BYTES_MAX, upto=upto, may_wait=False)
        except NotCached as missing:
            await services.runtime.in_reading_thread(read_ahead, missing.region)
