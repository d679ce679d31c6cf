"""Archived partitions as other services see them; `broker.archive` implements this, where it is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from uuid import UUID

    from twisted.internet.defer import Deferred

    from pylogbroker.records import Buffer
    from pylogbroker.storage import DeletedFiles, TimestampedOffset
    from pylogbroker.storage.log.transaction_index import AbortedTxn
    from pylogbroker.storage.remote.reading import RestoredState


@attrs.frozen
class ArchivedRecords:
    """Batches for a consumer, and the aborted transactions that overlap them."""

    data: Buffer
    next_offset: int
    aborted: Sequence[AbortedTxn] = ()
    is_all_aborted: bool = True
    """False if markers of others may be in the local log."""


@attrs.define(eq=False, repr=False)
class ArchiveTotals:
    """Counts of one partition since the broker's start, by Kafka's metrics."""

    copied_bytes: int = 0
    copy_requests: int = 0
    copy_errors: int = 0
    fetched_bytes: int = 0
    fetch_requests: int = 0
    fetch_errors: int = 0
    delete_requests: int = 0
    delete_errors: int = 0


class ArchiveReader(Protocol):
    """Records of an archived partition. The Deferreds fail with KafkaError, and have None when the time is over."""

    def read_within(
        self,
        offset: int,
        max_bytes: int,
        upto: int,
        *,
        min_one: bool,
        is_committed: bool,
        seconds: float | None = None,
    ) -> Deferred[ArchivedRecords | None]: ...
    def find_timestamp(
        self, timestamp: int, start: int, /, seconds: float
    ) -> Deferred[tuple[TimestampedOffset | None] | None]: ...


class Archive(Protocol):
    """Remote segments of an archived partition."""

    @property
    def reads(self) -> ArchiveReader: ...
    @property
    def topic_id(self) -> UUID: ...
    @property
    def is_listed(self) -> bool: ...
    @property
    def has_segments(self) -> bool: ...
    @property
    def stored_end(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def segment_count(self) -> int: ...
    @property
    def lag(self) -> tuple[int, int]: ...
    @property
    def totals(self) -> ArchiveTotals: ...
    def listed_within(self, seconds: float, /) -> Deferred[tuple[None] | None]: ...
    async def state_at(self, offset: int, /) -> RestoredState:
        """Return the state of the log at an offset from the archive."""

    def restore(self, state: RestoredState, /) -> list[DeletedFiles]:
        """Let the log begin again, empty, at such a state."""

    def expire(self, now_ms: int, *, is_leader: bool) -> Iterator[DeletedFiles | None]: ...
