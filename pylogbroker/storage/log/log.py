"""The log of one partition: segments one after the other, and where it begins, ends and is readable up to.

```
 log start         recovery point            high watermark     log end offset
     |                    |                        |                  |
  ---[ sealed segment ][ sealed segment ][ active segment              ]
                      on disk up to here   consumers read up to here
```

An append is: prepare the records, ask the producer states, roll if it is time, one write, note it in the indexes.  It
happens as a whole or not at all.  A read finds a place and returns a region of a file; the bytes are not looked at.

Thread rules: everything runs on the reactor's thread, except `sync`, and `unlink` of what `expire` returns, which block
on the disk and run in workers.  The tuple of segments is replaced whole, never changed: a worker sees one or another.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from operator import attrgetter

import attrs

from pylogbroker.errors import ErrorCode, KafkaError, OffsetOutOfRange, StorageFailure
from pylogbroker.records import Buffer, PreparedRecords, convert, is_costly, prepare
from pylogbroker.storage.files import DISK_FULL_ERRNOS, TRANSIENT_ERRNOS, FileRegion
from pylogbroker.storage.log.append_rules import (
    convert_byte_addressed,
    epochs_of,
    follow,
    is_costly_byte_addressed,
    prepare_byte_addressed,
)
from pylogbroker.storage.log.log_segments import LogSegments
from pylogbroker.storage.log.log_sync import sync_segments
from pylogbroker.storage.log.producer_states import EndedTransaction, Origin, WrittenBatch
from pylogbroker.storage.log.timestamp_lookup import TimestampCandidate, find_candidate
from pylogbroker.storage.log.transaction_index import AbortedTxn

_base_offset = attrgetter("base_offset")


@attrs.define
class Appended:
    """What became of an append."""

    base_offset: int
    last_offset: int
    count: int
    log_append_time: int  # -1 unless the topic's timestamps are the broker's
    log_start_offset: int
    duplicate: bool  # the log held these records already: the offsets are those of then
    must_sync: bool  # by flush.messages, `sync` is to be called before the append is acknowledged


class Log(LogSegments):
    """One partition's log.  `topic`, `partition` and `path` name it; offsets are read as attributes."""

    @property
    def last_stable_offset(self) -> int:
        """Up to where all transactions are decided, by markers below the high watermark, and not beyond that."""
        high_watermark = self.high_watermark
        unstable = self.producers.first_unstable_offset(high_watermark)
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log_start_offset)

    # Appending

    def append(self, buffer: Buffer, now_ms: int, leader_epoch: int = 0, origin: Origin = Origin.CLIENT) -> Appended:
        """Append records.

        Raises a KafkaError with the code for who sent them; nothing is appended then.  StorageFailure: the disk is
        full (another try may succeed) or failed (the log is offline from now on).
        """
        if self._broken:
            raise StorageFailure(self._broken)
        prepared = self._prepare(buffer, now_ms, leader_epoch, origin)
        if prepared.entries[0].producer_id >= 0:
            repeated = self.producers.admit(prepared.entries, origin)
            if repeated is not None:
                return self._repeated(repeated)
        self._write(prepared, now_ms)
        if origin is Origin.REPLICATION and not self.byte_addressed:
            for epoch, start in epochs_of(buffer):
                self.epochs.assign(epoch, start)
        elif leader_epoch != self.epochs.latest and self._config.magic == 2 and not self.byte_addressed:
            self.epochs.assign(leader_epoch, prepared.base_offset)
        for entry in prepared.entries:
            if entry.producer_id >= 0 and (ended := self.producers.record(entry)) is not None:
                self._ended(ended)
        self.log_end_offset = end = prepared.last_offset + 1
        return Appended(
            prepared.base_offset,
            prepared.last_offset,
            prepared.count,
            prepared.log_append_time,
            self.log_start_offset,
            False,
            end - self.recovery_point >= self._config.flush_messages,
        )

    def is_costly(self, buffer: Buffer, origin: Origin = Origin.CLIENT) -> bool:
        """Whether to append a client's records means to decode them: better `convert` them in a worker first."""
        return (
            is_costly_byte_addressed(buffer, origin) if self.byte_addressed else is_costly(buffer, self._client_rules)
        )

    def convert(self, buffer: Buffer, now_ms: int, origin: Origin = Origin.CLIENT) -> Buffer:
        """A client's records, checked and converted as the topic wants them, for `append` with Origin.CONVERTED.

        Any thread.  Raises what `append` raises for records.
        """
        if self.byte_addressed:
            return convert_byte_addressed(buffer, self._client_rules, origin, now_ms)
        return convert(buffer, self._client_rules, now_ms)

    def _prepare(self, buffer: Buffer, now_ms: int, leader_epoch: int, origin: Origin) -> PreparedRecords:
        if self.byte_addressed:
            return prepare_byte_addressed(buffer, self._client_rules, origin, self.log_end_offset, now_ms)
        if origin is Origin.CLIENT:
            return prepare(buffer, self._client_rules, self.log_end_offset, now_ms, leader_epoch)
        if origin is Origin.CONVERTED:
            return prepare(buffer, self._converted_rules, self.log_end_offset, now_ms, leader_epoch)
        if origin is Origin.COORDINATOR:
            rules = self._coordinator_rules
            if rules.magic < 2 and self.producers.first_undecided_offset is not None:  # begun in the format before
                rules = attrs.evolve(rules, magic=2)
            return prepare(buffer, rules, self.log_end_offset, now_ms, leader_epoch)
        return follow(buffer, self.log_end_offset)

    def _repeated(self, batch: WrittenBatch) -> Appended:
        append_time = batch.timestamp if self._client_rules.timestamp_type else -1
        count = batch.last_offset - batch.first_offset + 1
        must_sync = self.log_end_offset - self.recovery_point >= self._config.flush_messages
        return Appended(
            batch.first_offset, batch.last_offset, count, append_time, self.log_start_offset, True, must_sync
        )

    def _write(self, prepared: PreparedRecords, now_ms: int) -> None:
        size, config, segment = prepared.size, self._config, self._active
        if size > config.segment_bytes:
            detail = f"{size} bytes of records exceed a segment's {config.segment_bytes}"
            raise KafkaError(detail, ErrorCode.RECORD_LIST_TOO_LARGE)
        try:
            must_roll = segment.must_roll(size, prepared.last_offset, prepared.max_timestamp, now_ms, config)
            if must_roll or (config.magic < self._written_magic and segment.size):
                segment = self._roll(prepared.base_offset, now_ms)
            segment.append(prepared.chunks, size, prepared.entries)
            self._written_magic = config.magic
        except OSError as error:
            raise self.failed(error) from error

    def _ended(self, ended: EndedTransaction) -> None:
        """What was appended last ended a transaction."""
        self._active.transaction_index.note(ended, self.producers.first_undecided_offset)
        self._aborted.changed()
        self.producers.forget_visible(self.high_watermark)

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, upto: int, min_one: bool = True, may_wait: bool = True
    ) -> FileRegion | None:
        """Whole entries from the one that holds `offset` on, all below `upto`, in at most `max_bytes`.

        The first entry is returned even if it is larger, unless `min_one` is false.  None: there is nothing to
        return.  OffsetOutOfRange: the log does not reach so far.  The region's bytes are not read here; where indexes
        or headers must be, and are not in the page cache, NotCached is raised unless the caller `may_wait`.
        """
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise OffsetOutOfRange(f"offset {offset} is not within {self.log_start_offset} to {end}")
        if offset >= upto:
            return None
        try:
            return self._reader.region(self.segments, offset, max_bytes, upto, end, min_one, may_wait)
        except OSError as error:
            raise self.failed(error) from error

    def read_bytes(self, offset: int, max_bytes: int, *, upto: int) -> FileRegion | None:
        """Bytes from a position on, wherever messages begin or end, for a log by position; None: there are none.

        OffsetOutOfRange: the log does not reach so far.
        """
        if not self.log_start_offset <= offset <= upto:
            raise OffsetOutOfRange(f"position {offset} is not within {self.log_start_offset} to {upto}")
        segment = self.segments[bisect_right(self.segments, offset, key=_base_offset) - 1]
        start = offset - segment.base_offset
        length = min(max_bytes, segment.size - start, upto - offset)
        with self._on_disk():
            return segment.region(start, length, offset + length) if length > 0 else None

    def aborted_transactions(self, first_offset: int, upto: int, *, may_wait: bool = True) -> list[AbortedTxn]:
        """The aborted transactions that reach into `first_offset` to `upto`, which must not be undecided anywhere.

        NotCached as above.
        """
        with self._on_disk():
            return self._aborted.overlapping(self.segments, first_offset, upto, may_wait)

    # Time

    def largest_timestamp(self, *, may_wait: bool = True) -> int:
        """The largest timestamp of all records; -1 without records or timestamps.

        StorageFailure: the log is offline.  NotCached as above.
        """
        if self._broken:
            raise StorageFailure(self._broken)
        with self._on_disk():
            return max(segment.largest(may_wait)[0] for segment in self.segments)

    def find_timestamp(self, timestamp: int, start: int = 0, *, may_wait: bool = True) -> TimestampCandidate | None:
        """The first entry that may have a record as young as `timestamp`, at or behind offset `start`.

        If a worker finds none in there, ask again with a `start` behind the entry.  StorageFailure: the log is offline.
        NotCached as above.
        """
        if self._broken:
            raise StorageFailure(self._broken)
        with self._on_disk():
            return find_candidate(self.segments, timestamp, max(start, self.log_start_offset), may_wait)

    # Epochs

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    def assign_epoch(self, epoch: int) -> None:
        """A leader epoch begins at the end of the log."""
        self.epochs.assign(epoch, self.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch known up to `epoch`, and where it ended; (-1, -1) if that cannot be said."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # The disk

    def sync_target(self, now_ms: int) -> int | None:
        """Up to where the log is due to be synced: what was sealed, and by flush.ms all; None if nothing is due."""
        if self.recovery_point >= self.log_end_offset:
            self._synced_ms = now_ms
            return None
        if now_ms - self._synced_ms >= self._config.flush_ms:
            self._synced_ms = now_ms
            return self.log_end_offset
        sealed = self._active.base_offset
        return sealed if sealed > self.recovery_point else None

    def sync(self, upto: int | None = None) -> int:
        """Force all that lies before `upto` to the disk; says up to where the log is safe there now.

        Blocks; for workers, any number at a time.  StorageFailure: another try may succeed, or the log is offline from
        now on, or was before: if it is deleted, another log may have its files' names by now.
        """
        with self._sync_lock:
            if self._broken:
                raise StorageFailure(self._broken)
            cuts, end, segments = self.truncations, self.log_end_offset, self.segments
            end = end if upto is None else min(end, upto)
            if end <= self.recovery_point:
                return self.recovery_point
            with self._on_disk():
                has_new_names = self.epochs.save() | self._aborted.save(segments)
            try:
                sync_segments(self.path, segments, self.recovery_point, end, has_new_names)
                os.stat(self.path)  # if the directory is gone, what is in open files is lost
            except OSError as error:
                raise self.failed(error, TRANSIENT_ERRNOS - DISK_FULL_ERRNOS) from error
            if cuts == self.truncations:
                self.recovery_point = end
            return self.recovery_point

    def close(self) -> None:
        """Bring all files up to date, on the disk too, and close them.  Blocks."""
        try:
            if not self._broken:
                self.sync()
                with self._on_disk():
                    self.epochs.save()  # if all was on the disk already, but the epochs were found anew
                    self._active.seal()
                    self._aborted.save(self.segments)
                    self._write_snapshot(self.log_end_offset)
        finally:
            self.take_offline("closed")
