"""Logs of partitions to show records of: those that this broker leads, and those that others lead, by requests.

In its own logs, the broker finds the place as for a fetch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import attrs

from pylogbroker.broker.fetch.readahead import read_ahead
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError, OffsetTiered
from pylogbroker.records import Buffer, complete_entries, entries
from pylogbroker.rpc.answer_rows import sole_row
from pylogbroker.rpc.errors import code_of
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.storage import NotCached
from pylogbroker.storage.files import region_of
from pylogbroker.web.offsets import offsets_at
from pylogbroker.web.record_rows import RecordRegion
from pylogbroker.web.responsible_brokers import leader_of
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST

_REGION_BYTES_MAX: Final = 1024 * 1024
_ARCHIVE_SECONDS: Final = 10.0
_FETCH_VERSION: Final = 12
"""The last one that names topics."""


class PartitionLog(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    async def region_at(self, offset: int, upto: int, size: int = _REGION_BYTES_MAX) -> RecordRegion | None:
        """Return records from an offset on, or from before it; None if there are none."""


async def open_logs(visitor: Visitor, topic: str, indexes: Iterable[int]) -> list[PartitionLog]:
    """Return logs of partitions of a topic that the visitor may read; raise KafkaError."""
    visitor.check(AclOperation.READ, AclResourceType.TOPIC, topic)
    services = visitor.services
    leaders = {index: leader_of(visitor, topic, index) for index in indexes}
    elsewhere = [(topic, index) for index, leader in leaders.items() if leader != services.node.id]
    starts, ends = await offsets_at(visitor, elsewhere, EARLIEST), await offsets_at(visitor, elsewhere, LATEST)
    return [
        RemoteLog(services, leader, topic, index, starts[topic, index], ends[topic, index])
        if (topic, index) in ends
        else LedLog.find(services, topic, index)
        for index, leader in leaders.items()
    ]


@attrs.frozen(eq=False, repr=False)
class LedLog:
    """Log of a partition that this broker leads."""

    _services: Services
    _partition: Partition

    @classmethod
    def find(cls, services: Services, topic: str, index: int) -> LedLog:
        """Raise KafkaError."""
        partition = services.partitions.find(topic, index)
        if partition.log.byte_addressed:
            raise KafkaError("records of a topic of 0.7 are not shown", ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        return cls(services, partition)

    @property
    def topic(self) -> str:
        return self._partition.topic

    @property
    def index(self) -> int:
        return self._partition.index

    @property
    def log_start_offset(self) -> int:
        return self._partition.log.log_start_offset

    @property
    def high_watermark(self) -> int:
        return self._partition.log.high_watermark

    async def region_at(self, offset: int, upto: int, size: int = _REGION_BYTES_MAX) -> RecordRegion | None:
        """Worker threads bring parts of indexes that are on the disk."""
        while True:
            try:
                return self._partition.log.read(offset, size, upto=upto, may_wait=False)
            except NotCached as missing:
                await self._services.runtime.in_reading_thread(read_ahead, missing.region)
            except OffsetTiered:
                return await self._archived_region_at(offset, upto, size)

    async def _archived_region_at(self, offset: int, upto: int, size: int) -> RecordRegion | None:
        archive = self._partition.archive
        records = None
        if archive is not None:
            records = await archive.reads.read_within(
                offset, size, upto, min_one=True, is_committed=False, seconds=_ARCHIVE_SECONDS
            )
        if records is None:
            where = f"{self.topic}-{self.index} at offset {offset}"
            raise KafkaError(f"the archive of {where} cannot be read now", ErrorCode.KAFKA_STORAGE_ERROR)
        return region_of(records.data, records.next_offset) if records.data else None


@attrs.frozen(eq=False, repr=False)
class RemoteLog:
    """Log of a partition that another broker leads, with the bounds that it had."""

    _services: Services
    _leader: int
    topic: str
    index: int
    log_start_offset: int
    high_watermark: int

    async def region_at(self, offset: int, upto: int, size: int = _REGION_BYTES_MAX) -> RecordRegion | None:
        if offset >= upto:
            return None
        partition = FetchPartition(self.index, fetch_offset=offset, partition_max_bytes=size)
        request = FetchRequest(max_bytes=size, topics=[FetchTopic(self.topic, partitions=[partition])])
        answer = await self._services.peers.send(self._leader, request, _FETCH_VERSION)
        self._check(answer.error_code)
        row = sole_row(answer, "responses.partitions", self._leader, partition_index=self.index)
        self._check(row.error_code)
        fetched = FetchedRecords(row.records or b"")
        return fetched if fetched.data else None

    def _check(self, number: int) -> None:
        if number:
            code, where = code_of(number), f"records of {self.topic}-{self.index} at broker {self._leader}"
            raise KafkaError(f"{where}: {code.meaning}", code)


@attrs.frozen(eq=False, repr=False)
class FetchedRecords:
    """Records of a response, whose last batch may be cut off."""

    data: Buffer

    def read(self) -> Buffer:
        return complete_entries(self.data)

    @property
    def next_offset(self) -> int:
        return max((entry.next_offset for entry in entries(self.data, partial=True)), default=-1)
