"""Handlers of Kafka 0.7 requests, for topics of its message format.

A fetch never waits. Its response is a region of the log's file from exactly the requested position, even within a
message, of at most the requested size. A produce has no response. A failed or invalid request closes the connection:
the protocol cannot report it otherwise.

The first produce creates a topic if auto.create.topics.enable is set; until then it reads as empty. Topics of other
formats are not served: their offsets are not positions.

A request of several parts is handled by a coroutine, which gives way to other connections.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

import attrs
from twisted.logger import Logger

from pylogbroker.broker.fetch.readahead import READ_INLINE_BYTES_MAX, is_cached, read_ahead, read_if_cached
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.segment_offsets import visible_offsets_before
from pylogbroker.broker.requests.context import Caller
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.visibility import may_create_topic
from pylogbroker.broker.services import HasConfig, HasController, HasMetadata, HasPartitions, HasRuntime
from pylogbroker.errors import ErrorCode, KafkaError, OffsetOutOfRange, ProtocolViolation, StorageFailure
from pylogbroker.legacy07.wire import (
    ANY_PARTITION,
    EARLIEST,
    HEAD_SIZE,
    LATEST,
    RESPONSE_BYTES_MAX,
    Fetch,
    FetchRange,
    Legacy07ErrorCode,
    Legacy07Request,
    MultiFetch,
    MultiProduce,
    Offsets,
    Produce,
    Production,
    encode_offsets,
    encode_set,
    encode_sets,
)
from pylogbroker.long_loops import over
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.metadata.topic_names import INTERNAL_TOPICS, check_name
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.storage import FileRegion, Log, Origin
from pylogbroker.wire import Chunk

FORMAT = {"message.format.version": "0.7"}
"""Settings of topics created by a produce."""

_IN_MEMORY_BYTES_MAX = 1 << 20  # of a response; further regions are sent from their files

Answer = list[Chunk] | None  # None: no response
log = Logger()


class _Services(HasConfig, HasRuntime, HasMetadata, HasController, HasPartitions, Protocol):
    """Services that this module uses."""


@attrs.frozen
class _ReadResult:
    error: Legacy07ErrorCode
    region: FileRegion | None = None
    log: Log | None = None


def handle(
    services: _Services, request: Legacy07Request, caller: Caller | None = None, access: Access | None = None
) -> Answer | Coroutine[Any, Any, Answer]:
    """Return the encoded response, or a coroutine of it; raise ProtocolViolation for a failed produce.

    Workers stop reading for a gone `caller`. Without an authorizer `access` is None.
    """
    caller = caller or Caller()
    match request:
        case Produce(part):
            return _produce(services, access, part)
        case MultiProduce(productions):
            return _produce_all(services, access, productions)
        case Fetch(fetch_range):
            return _fetch(services, caller, access, fetch_range)
        case MultiFetch(ranges):
            return _fetch_all(services, caller, access, ranges)
        case Offsets():
            return _offsets(services, access, request)


# Produce


def _produce(services: _Services, access: Access | None, part: Production) -> Coroutine[Any, Any, None] | None:
    if access is not None:
        _check_topic(services, access, part.topic)
    return None if _append_at_once(services, part) else _append_late(services, part)


async def _produce_all(services: _Services, access: Access | None, parts: Sequence[Production]) -> None:
    if access is not None:
        async for topic in over({part.topic for part in parts}):
            _check_topic(services, access, topic)
    async for part in over(parts):
        if not _append_at_once(services, part):
            await _append_late(services, part)


def _check_topic(services: _Services, access: Access, topic: str) -> None:
    """Raise ProtocolViolation unless the client may write to a topic, and create it if it is missing."""
    is_allowed = access.allows_on_topic(AclOperation.WRITE, topic)
    if not is_allowed or not (topic in services.metadata.topics or may_create_topic(access, topic)):
        raise ProtocolViolation(f"a produce to {topic!r} is not authorized")


def _append_at_once(services: _Services, part: Production) -> bool:
    """Append, or return False if that must wait."""
    if not part.messages:
        return True
    try:
        if part.topic not in services.metadata.topics:
            return False
        part = _placed(services, part)
        partition = _writable(services, part)
        appended = partition.append_now(part.messages, services.runtime.now_ms(), origin=Origin.NATIVE)
    except KafkaError as error:
        raise _violation(services, part, error) from error
    return appended is not None


async def _append_late(services: _Services, part: Production) -> None:
    try:
        if part.topic not in services.metadata.topics:
            await _create(services, part)
        part = _placed(services, part)
        partition = _writable(services, part)
        now_ms, origin = services.runtime.now_ms(), Origin.NATIVE
        await partition.append_queued(part.messages, now_ms, services.runtime.in_thread, origin=origin)
    except KafkaError as error:
        raise _violation(services, part, error) from error


async def _create(services: _Services, part: Production) -> None:
    """Create the topic; raise KafkaError if not allowed, or for a missing partition."""
    name = part.topic
    check_name(name)
    if name in INTERNAL_TOPICS or not services.config.auto_create_topics_enable:
        raise KafkaError(f"there is no topic {name!r}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not ANY_PARTITION <= part.partition < services.config.num_partitions:
        raise KafkaError(f"there is no partition {name}-{part.partition}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        await services.controller.create_topic(NewTopic(name, settings=FORMAT))
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


def _placed(services: _Services, part: Production) -> Production:
    if part.partition != ANY_PARTITION:
        return part
    partitions = services.metadata.require_topic(part.topic).partitions
    online = [number for number in partitions if (part.topic, number) in services.partitions.led]
    return attrs.evolve(part, partition=random.choice(online or list(partitions)))


def _writable(services: _Services, part: Production) -> Partition:
    partition = services.partitions.find(part.topic, part.partition)
    if not partition.log.byte_addressed:
        raise KafkaError("the topic is not of format 0.7", ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    return partition


def _violation(services: _Services, part: Production, error: KafkaError) -> ProtocolViolation:
    if isinstance(error, StorageFailure) and (partition := services.partitions.led.get((part.topic, part.partition))):
        services.partitions.request_failed(partition.log, error)
    return ProtocolViolation(f"a produce to {part.topic!r}, partition {part.partition}, failed: {error}")


# Fetch


def _fetch(
    services: _Services, caller: Caller, access: Access | None, fetch_range: FetchRange
) -> Answer | Coroutine[Any, Any, Answer]:
    read = _read(services, access, fetch_range, RESPONSE_BYTES_MAX - HEAD_SIZE)
    chunk = _chunk_if_cached(read, _IN_MEMORY_BYTES_MAX)
    return _fetch_uncached(services, caller, read) if chunk is None else encode_set(read.error, chunk)


async def _fetch_uncached(services: _Services, caller: Caller, read: _ReadResult) -> Answer:
    return encode_set(*await _read_ahead(services, caller, read))


async def _fetch_all(
    services: _Services, caller: Caller, access: Access | None, ranges: Sequence[FetchRange]
) -> Answer:
    reads: list[_ReadResult] = []
    bytes_left = RESPONSE_BYTES_MAX - HEAD_SIZE * (1 + len(ranges))
    async for fetch_range in over(ranges):
        reads.append(_read(services, access, fetch_range, bytes_left))
        bytes_left -= len(reads[-1].region or b"")
    parts: list[tuple[Legacy07ErrorCode, Chunk]] = []
    bytes_left = _IN_MEMORY_BYTES_MAX
    async for read in over(reads):
        chunk = _chunk_if_cached(read, bytes_left)
        if chunk is None:
            parts.append(await _read_ahead(services, caller, read))
        else:
            bytes_left -= 0 if isinstance(chunk, FileRegion) else len(chunk)
            parts.append((read.error, chunk))
    return await encode_sets(parts)


def _read(services: _Services, access: Access | None, fetch_range: FetchRange, bytes_left: int) -> _ReadResult:
    if fetch_range.max_size <= 0:
        return _ReadResult(Legacy07ErrorCode.INVALID_FETCH_SIZE)
    error, partition = _find(services, access, AclOperation.READ, fetch_range.topic, fetch_range.partition)
    if partition is None:
        return _ReadResult(error)
    log = partition.log
    try:
        region = log.read_bytes(fetch_range.offset, min(fetch_range.max_size, bytes_left), upto=log.high_watermark)
        return _ReadResult(error, region, log)
    except OffsetOutOfRange:
        return _ReadResult(Legacy07ErrorCode.OFFSET_OUT_OF_RANGE)
    except StorageFailure as failure:
        services.partitions.request_failed(log, failure)
        return _ReadResult(Legacy07ErrorCode.UNKNOWN)


def _find(
    services: _Services, access: Access | None, operation: AclOperation, topic: str, index: int
) -> tuple[Legacy07ErrorCode, Partition | None]:
    """Return the partition; None without an error for a missing topic. Denied access is the error UNKNOWN."""
    if access is not None and not access.allows_on_topic(operation, topic):
        return Legacy07ErrorCode.UNKNOWN, None
    topic_image = services.metadata.topics.get(topic)
    count = services.config.num_partitions if topic_image is None else len(topic_image.partitions)
    if not 0 <= index < count:
        return Legacy07ErrorCode.WRONG_PARTITION, None
    if topic_image is None:
        return Legacy07ErrorCode.NONE, None
    partition = services.partitions.led.get((topic, index))
    if partition is None or not partition.log.byte_addressed:
        why = "it is offline" if partition is None else "it is not of format 0.7"
        if services.runtime.may_log(f"{topic} over the simple protocol"):
            log.warn("{topic}-{index} is asked for over the simple protocol: {why}", topic=topic, index=index, why=why)
        return Legacy07ErrorCode.UNKNOWN, None
    return Legacy07ErrorCode.NONE, partition


def _chunk_if_cached(read: _ReadResult, bytes_left: int) -> Chunk | None:
    """Return a small region's bytes, or the region; None unless it is in the page cache."""
    region = read.region
    if region is None:
        return b""
    if region.length <= min(READ_INLINE_BYTES_MAX, bytes_left):
        return read_if_cached(region)
    return region if is_cached(region) else None


async def _read_ahead(services: _Services, caller: Caller, read: _ReadResult) -> tuple[Legacy07ErrorCode, Chunk]:
    if read.region is None or read.log is None:
        return read.error, b""
    try:
        await services.runtime.in_reading_thread(read_ahead, read.region, lambda: caller.is_gone)
    except OSError as error:
        services.partitions.request_failed(read.log, read.log.record_failure(error))
        return Legacy07ErrorCode.UNKNOWN, b""
    return read.error, read.region


# Offsets


def _offsets(services: _Services, access: Access | None, request: Offsets) -> Answer:
    error, partition = _find(services, access, AclOperation.DESCRIBE, request.topic, request.partition)
    if partition is None:
        is_empty = error is Legacy07ErrorCode.NONE and request.time in (LATEST, EARLIEST) and request.max_count > 0
        return encode_offsets(error, [0] if is_empty else [])
    partition_log = partition.log
    try:
        offsets = visible_offsets_before(
            partition_log, request.time, request.max_count, services.runtime.now_ms(), partition_log.high_watermark
        )
    except StorageFailure as failure:
        services.partitions.request_failed(partition_log, failure)
        return encode_offsets(Legacy07ErrorCode.UNKNOWN)
    return encode_offsets(error, offsets)
