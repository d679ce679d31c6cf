"""Records of a fetch that an archived log has in its remote storage alone.

A request reads one such partition, after the others; further ones have no records in the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from pylogbroker.broker.fetch.conversion import FIRST_WITH_V2
from pylogbroker.broker.fetch.readahead import read_ahead
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.services import HasPartitions, HasRuntime
from pylogbroker.errors import ErrorCode, KafkaError, OffsetTiered, StorageFailure
from pylogbroker.records import MAGIC_AT
from pylogbroker.storage import NotCached
from pylogbroker.storage.files import region_of
from pylogbroker.wire.messages.fetch import AbortedTransaction, FetchRequest, PartitionData

if TYPE_CHECKING:
    from pylogbroker.broker.fetch.session import RequestedPartition
    from pylogbroker.broker.partitions.archived import ArchivedRecords
    from pylogbroker.storage.log.transaction_index import AbortedTxn

_READ_ROUNDS_MAX: Final = 10


class _Services(HasRuntime, HasPartitions, Protocol):
    """Services that this module uses."""


@attrs.define(eq=False, repr=False)
class ArchivedRead:
    """Partition that is read from its remote storage, and its limits."""

    requested: RequestedPartition
    partition: Partition
    answer: PartitionData
    upto: int
    max_bytes: int = 0
    min_one: bool = False


class ArchiveFetchReader(Protocol):
    """`broker.fetch.reader.FetchReader`, as far as it is used here."""

    request: FetchRequest
    limit: int
    left: int
    is_urgent: bool
    archived: list[ArchivedRead]
    is_committed: bool
    needs_v2: bool

    @property
    def api_version(self) -> int: ...
    def fail(self, answer: PartitionData, code: ErrorCode) -> None: ...


def read_later(reader: ArchiveFetchReader, read: ArchivedRead, error: OffsetTiered) -> None:
    """Let a partition be read from its remote storage, if it is the first one of the request."""
    if read.partition.archive is None:
        raise StorageFailure(f"{error.detail}; this broker has no remote storage")
    if reader.archived:
        return
    read.min_one = reader.left == reader.limit
    read.max_bytes = min(read.requested.partition.partition_max_bytes, max(0, reader.left))
    if read.max_bytes or read.min_one:
        reader.is_urgent = True
        reader.left -= read.max_bytes  # others may not use it
        reader.archived.append(read)


async def read_archived(services: _Services, reader: ArchiveFetchReader, is_abandoned: Callable[[], bool]) -> None:
    """Fill the answers of partitions that are read from their remote storage."""
    for read in reader.archived:
        offset, partition = read.requested.partition.fetch_offset, read.partition
        try:
            if partition.archive is None:
                raise StorageFailure(f"{partition.topic}-{partition.index} is archived no more")
            records = await partition.archive.reads.read_within(
                offset, read.max_bytes, read.upto, min_one=read.min_one, is_committed=reader.is_committed
            )
            local: Sequence[AbortedTxn] = ()
            if records is not None and not records.is_all_aborted:
                local = await _local_aborted(services, partition, offset, records.next_offset, is_abandoned)
            _fill(reader, read, records, local)
        except KafkaError as error:
            services.partitions.traffic.of(partition.topic).fetch_errors[error.code] += 1
            _fill(reader, read, None, ())
            reader.fail(read.answer, error.code)


async def _local_aborted(
    services: _Services, partition: Partition, first_offset: int, upto: int, is_abandoned: Callable[[], bool]
) -> Sequence[AbortedTxn]:
    """Return aborted transactions whose markers are in the local part of an archived log."""
    for left in reversed(range(_READ_ROUNDS_MAX)):
        try:
            return partition.log.aborted_transactions(first_offset, upto, may_wait=not left)
        except NotCached as missing:
            await services.runtime.in_reading_thread(read_ahead, missing.region, is_abandoned)
    return ()


def _fill(
    reader: ArchiveFetchReader, read: ArchivedRead, records: ArchivedRecords | None, local_aborted: Sequence[AbortedTxn]
) -> None:
    """Put records of the remote storage into an answer; None if they did not come in time."""
    reader.left += read.max_bytes
    if records is None or not records.data:
        return
    reader.left -= len(records.data)
    answer = read.answer
    answer.records = records.data
    if reader.is_committed:
        aborted = (*records.aborted, *local_aborted)
        answer.aborted_transactions = [AbortedTransaction(transaction[0], transaction[1]) for transaction in aborted]
    is_v2 = len(records.data) > MAGIC_AT and records.data[MAGIC_AT] == 2
    if reader.api_version < FIRST_WITH_V2 or (reader.needs_v2 and not is_v2):
        answer.records = region_of(records.data, records.next_offset)  # for the conversion
