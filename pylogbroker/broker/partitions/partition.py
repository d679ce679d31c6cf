"""A partition as its leader has it: the log, the leader epoch, and the fetches that wait for it to grow.

On one node every replica is this one: the high watermark is the log's end as soon as the records are in, or, where the
flush policy says so, as soon as they are on the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

import attrs
from twisted.internet.defer import DeferredLock

from pylogbroker.broker.runtime import InThread
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.records import Buffer, TooCostly
from pylogbroker.storage import Appended, GuardedPolicy, Log, Origin

CONVERT_INLINE_BYTES_MAX = 16 * 1024
"""Size of records up to which they are converted, or decompressed, where they are appended."""

_EMPTY_RANGES_MAX = 64

Check = Callable[[], None]


class PartitionWatcher(Protocol):
    """Something that waits for a partition."""

    def on_growth(self, size: int) -> None:
        """`size` more bytes can be read."""

    def on_closed(self) -> None:
        """The partition is no longer here, or its log failed."""


@attrs.define(eq=False)
class Partition:
    """One partition that this broker leads."""

    topic: str
    index: int
    log: Log
    leader_epoch: int = 0
    min_insync_replicas: int = 1
    is_internal: bool = False
    may_down_convert: bool = True
    delete_policies: tuple[GuardedPolicy, ...] = ()
    watchers: set[PartitionWatcher] = attrs.field(factory=set, init=False)
    _append_lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)
    _syncing: int = attrs.field(default=0, init=False)
    _hidden: deque[tuple[int, int]] = attrs.field(factory=deque, init=False)  # end offset and size of appends
    _empty_ranges: dict[int, int] = attrs.field(factory=dict, init=False)  # offsets with no record, where one may be

    def append(self, records: Buffer, now_ms: int, origin: Origin = Origin.CLIENT) -> Appended:
        """Append records and let consumers see them.

        Where the answer has `must_sync`, they are hidden until the caller, after a sync of the log, calls `synced`
        or `sync_failed`.
        """
        log = self.log
        appended = log.append(records, now_ms, self.leader_epoch, origin)
        if appended.must_sync or self._syncing:
            self._syncing += appended.must_sync
            self._hidden.append((log.log_end_offset, len(records)))
        else:
            log.high_watermark = log.log_end_offset
            if self.watchers and not appended.duplicate:
                self._notify(len(records))
        return appended

    def append_now(
        self, records: Buffer, now_ms: int, check: Check | None = None, origin: Origin = Origin.CLIENT
    ) -> Appended | None:
        """`append`, after `check`, which raises a KafkaError if that may not be.

        None, and nothing is done, if that would keep the reactor's thread busy, or overtake records that are looked
        into: `append_in_line` then.
        """
        if self._append_lock.locked or (
            len(records) > CONVERT_INLINE_BYTES_MAX and self.log.is_costly(records, origin)
        ):
            return None
        if check is not None:
            check()
        try:
            return self.append(records, now_ms, origin)
        except TooCostly:
            return None

    async def append_queued(
        self,
        records: Buffer | Callable[[], Buffer],
        now_ms: int,
        in_thread: InThread,
        check: Check | None = None,
        origin: Origin = Origin.CLIENT,
    ) -> Appended:
        """The same, in the order of the calls; what is costly is done in a worker thread.  `check` comes behind it.

        Records may be given as a function that makes them, which is called in a worker thread.
        """
        await self._append_lock.acquire()
        try:
            converted = await in_thread(records) if callable(records) else records
            if self.log.is_costly(converted, origin):
                converted = await in_thread(self.log.convert, converted, now_ms, origin)
                origin = Origin.CONVERTED
            if check is not None:
                check()
            return self.append(converted, now_ms, origin)
        finally:
            self._append_lock.release()

    def synced(self) -> None:
        """A sync that an append asked for is done."""
        self.sync_failed()
        log = self.log
        log.high_watermark = max(log.high_watermark, log.recovery_point if self._syncing else log.log_end_offset)
        hidden, size = self._hidden, 0
        while hidden and hidden[0][0] <= log.high_watermark:
            size += hidden.popleft()[1]
        if size:
            self._notify(size)

    def sync_failed(self) -> None:
        """A sync that an append asked for is over, and nothing is safer than before."""
        self._syncing -= 1

    def _notify(self, size: int) -> None:
        for watcher in tuple(self.watchers):
            watcher.on_growth(size)

    def pass_over(self, offset: int, next_offset: int) -> None:
        """There are no records from `offset` up to `next_offset`, as who looked into the entry there has found."""
        if len(self._empty_ranges) >= _EMPTY_RANGES_MAX:
            del self._empty_ranges[next(iter(self._empty_ranges))]
        self._empty_ranges[offset] = next_offset

    def after_empty_range(self, offset: int) -> int:
        """Where to begin to read, so that there is a record if there is an entry; for a log by position."""
        return self._empty_ranges.get(offset, offset)

    def check_epoch(self, epoch: int) -> None:
        """Refuse a client that knows another leader epoch (KIP-320); -1 is a client that knows none."""
        if epoch in (-1, self.leader_epoch):
            return
        code = ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise KafkaError(f"{self.topic}-{self.index} has leader epoch {self.leader_epoch}, the request {epoch}", code)

    def close(self) -> None:
        """The partition is deleted or its log failed: whoever waits learns it."""
        for watcher in tuple(self.watchers):
            watcher.on_closed()
