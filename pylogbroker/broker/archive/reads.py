"""Reads of one archived partition for consumers: records by offset, and an offset by time."""

from __future__ import annotations

from typing import Final

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.broker.archive.catalog import ArchiveCatalog
from pylogbroker.broker.archive.listing import ArchiveListing
from pylogbroker.broker.partitions.archived import ArchivedRecords, ArchiveTotals
from pylogbroker.errors import KafkaError, OffsetOutOfRange, OffsetTiered
from pylogbroker.records.batch import HEADER_V2
from pylogbroker.storage import NotCached, TimestampedOffset
from pylogbroker.storage.log.transaction_index import AbortedTxn
from pylogbroker.storage.remote.checked_store import MissingObject
from pylogbroker.storage.remote.lineage import find
from pylogbroker.storage.remote.manifest import DamagedObject
from pylogbroker.storage.remote.reading import RemoteRecords

READ_BYTES_MAX: Final = 8 << 20
"""Bytes that one fetch reads from the remote storage, unless a batch is larger."""

_READ_ROUNDS_MAX: Final = 10
_EMPTY_BATCHES_SKIPPED_MAX: Final = 200
_EMPTY_BATCH_SIZE: Final = HEADER_V2.size
_SIZES_WITHOUT_RECORDS: Final = (0, _EMPTY_BATCH_SIZE)


@attrs.define(eq=False, repr=False)
class ArchiveReads:
    _catalog: ArchiveCatalog
    totals: ArchiveTotals

    def read_within(
        self,
        offset: int,
        max_bytes: int,
        upto: int,
        *,
        min_one: bool,
        is_committed: bool,
        seconds: float | None = None,
    ) -> Deferred[ArchivedRecords | None]:
        """Return a Deferred of records from the remote storage, or of None when the time is over.

        The time is by default `remote.fetch.max.wait.ms`. The Deferred fails with KafkaError. A later call with the
        same offset waits for the same read.
        """
        access = self._catalog.access
        key = self, self._catalog.partition.leader_epoch, offset, max_bytes, min_one, is_committed
        if seconds is None:
            seconds = access.wait_ms() / 1000
        return access.reads.wait(
            key, seconds, lambda: self._read_listed(offset, max_bytes, upto, min_one, is_committed)
        )

    async def _read_listed(
        self, offset: int, max_bytes: int, upto: int, min_one: bool, is_committed: bool
    ) -> ArchivedRecords:
        catalog, size = self._catalog, min(max_bytes, READ_BYTES_MAX)
        limits = catalog.access.read_limits
        await limits.begin(size)
        self.totals.fetch_requests += 1
        try:
            listing = await catalog.listed()
            if find(listing.pieces, offset) is None:
                listing = await catalog.listed(again=catalog.may_list_again())
            try:
                records = await self._read(listing, offset, max_bytes, upto, min_one, is_committed)
            except MissingObject:  # deleted since the listing
                listing = await catalog.listed(again=catalog.may_list_again())
                records = await self._read(listing, offset, max_bytes, upto, min_one, is_committed)
            if records.next_offset > offset and len(records.data) in _SIZES_WITHOUT_RECORDS:
                local = await self._read_local(records.next_offset, size, upto, min_one)
                records = local if local.data else records
        except KafkaError as error:
            log_start = catalog.log.log_start_offset
            if isinstance(error, MissingObject) and offset < log_start:  # deleted while it was read
                raise OffsetOutOfRange(f"offset {offset} is not within {log_start} and the end") from error
            self.totals.fetch_errors += 1
            if isinstance(error, DamagedObject):
                catalog.report(f"records at offset {offset} cannot be read: {error.detail}")
            raise
        finally:
            limits.end(size)
        self.totals.fetched_bytes += len(records.data)
        return records

    async def _read(
        self, listing: ArchiveListing, offset: int, max_bytes: int, upto: int, min_one: bool, is_committed: bool
    ) -> ArchivedRecords:
        catalog = self._catalog

        def read() -> ArchivedRecords:
            records = self._read_records(listing, offset, min(max_bytes, READ_BYTES_MAX), upto, min_one)
            aborted, is_all = list[AbortedTxn](), True
            if is_committed:
                aborted, is_all = catalog.reader.aborted_transactions(listing.aborted, offset, records.next_offset)
            return ArchivedRecords(records.data, records.next_offset, aborted, is_all)

        return await catalog.access.calls.read(read)

    def _read_records(
        self, listing: ArchiveListing, offset: int, max_bytes: int, upto: int, min_one: bool
    ) -> RemoteRecords:
        """Return records of the archive. Skip batches that a compaction has emptied, as the local log's reader does."""
        catalog = self._catalog
        records = catalog.reader.read(listing.pieces, offset, max_bytes, upto, min_one=min_one)
        end = offset if records is None else records.next_offset
        if records is None or (not records.data and offset < end < min(catalog.log.local_start_offset, upto)):
            name = f"{catalog.partition.topic}-{catalog.partition.index}"
            raise MissingObject(f"the remote storage has no record of {name} at {end}")
        for _ in range(_EMPTY_BATCHES_SKIPPED_MAX):
            if len(records.data) != _EMPTY_BATCH_SIZE:
                break
            behind = catalog.reader.read(listing.pieces, records.next_offset, max_bytes, upto, min_one=min_one)
            if behind is None or not behind.data:
                break
            records = behind
        return records

    async def _read_local(self, offset: int, max_bytes: int, upto: int, min_one: bool) -> ArchivedRecords:
        """Return local records from an offset on; none if it is below the local part, or at the end.

        The archive has none there: a compaction has removed those at the end of its last segment.
        """
        log_, in_thread = self._catalog.log, self._catalog.access.runtime.in_reading_thread
        if offset < log_.local_start_offset:
            return ArchivedRecords(b"", offset)
        for left in reversed(range(_READ_ROUNDS_MAX)):
            try:
                region = log_.read(offset, max_bytes, upto=upto, min_one=min_one, may_wait=not left)
            except NotCached as missing:
                await in_thread(missing.region.read)
            except OffsetTiered as error:  # local retention has gone on: the next fetch gets it from the archive
                raise MissingObject(error.detail) from error
            else:
                if region is not None:
                    return ArchivedRecords(await in_thread(region.read), region.next_offset, is_all_aborted=False)
                break
        return ArchivedRecords(b"", offset)

    def find_timestamp(
        self, timestamp: int, start: int, seconds: float
    ) -> Deferred[tuple[TimestampedOffset | None] | None]:
        """Return a Deferred of the first remote record with at least this timestamp, or of None when the time is over.

        The record is below the local start, and in a tuple: there may be none. The Deferred fails with KafkaError. A
        later call with the same arguments waits for the same search.
        """
        key = self, self._catalog.partition.leader_epoch, "time", timestamp, start
        return self._catalog.access.reads.wait(key, seconds, lambda: self._find_timestamp(timestamp, start))

    async def _find_timestamp(self, timestamp: int, start: int) -> tuple[TimestampedOffset | None]:
        catalog = self._catalog
        await catalog.listed()
        pieces, _ = catalog.below_local_start()
        return (await catalog.access.calls.read(catalog.reader.find_timestamp, pieces, timestamp, start),)
