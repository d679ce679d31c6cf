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

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID

import attrs

from pylogbroker.errors import ErrorCode, KafkaError, OffsetOutOfRange, StorageFailure
from pylogbroker.records import Buffer, Prepared, convert, is_costly, prepare
from pylogbroker.storage import names, producer_snapshots
from pylogbroker.storage.appending import epochs_of, follow, rules_of
from pylogbroker.storage.epochs import LeaderEpochs
from pylogbroker.storage.files import NO_ROOM, PASSING, FileRegion
from pylogbroker.storage.log_config import LogConfig
from pylogbroker.storage.producer_loading import load_producers
from pylogbroker.storage.producers import Origin, ProducerStates, WrittenBatch
from pylogbroker.storage.reading import Reader
from pylogbroker.storage.retention import DeletePolicy, SegmentView, agreed_run, policies_of
from pylogbroker.storage.segment import DeletedFiles, Pools, Segment
from pylogbroker.storage.syncing import sync_segments
from pylogbroker.storage.timestamps import Candidate, find_candidate


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


class Log:
    """One partition's log.  `topic`, `partition` and `path` name it; offsets are read as attributes."""

    def __init__(
        self,
        topic: str,
        partition: int,
        path: str,
        config: LogConfig,
        pools: Pools,
        segments: tuple[Segment, ...],
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        epochs: LeaderEpochs,
        producers: ProducerStates,
        snapshot_offset: int,
        now_ms: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.path = path
        self.topic_id: UUID | None = None  # None if the directory does not say
        self.fault = 0  # the number of the error that broke the log, if one did
        self.segments = segments
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset  # followed by the broker
        self.recovery_point = recovery_point
        self.epochs = epochs
        self.producers = producers
        self._pools = pools
        self._active = segments[-1]
        self._synced_ms = now_ms
        self._snapshot_offset = snapshot_offset
        self._broken = ""
        self._truncations = 0
        self._sync_lock = threading.Lock()
        self._reader = Reader()
        self.config = config

    @property
    def config(self) -> LogConfig:
        """The topic's settings; a new value counts from the next append on."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._client_rules = rules_of(config, Origin.CLIENT)
        self._converted_rules = self._client_rules.after_conversion
        self._coordinator_rules = rules_of(config, Origin.COORDINATOR)
        self._active.index_interval = config.index_interval_bytes

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def last_stable_offset(self) -> int:
        """Up to where all transactions are decided, and not beyond the high watermark."""
        undecided = self.producers.first_undecided_offset
        return self.high_watermark if undecided is None else min(undecided, self.high_watermark)

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
        if origin is Origin.REPLICATION:
            for epoch, start in epochs_of(buffer):
                self.epochs.assign(epoch, start)
        elif leader_epoch != self.epochs.latest and self._config.magic == 2:
            self.epochs.assign(leader_epoch, prepared.base_offset)
        for entry in prepared.entries:
            if entry.producer_id >= 0:
                self.producers.record(entry)
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

    def is_costly(self, buffer: Buffer) -> bool:
        """Whether to append a client's records means to decode them: better `convert` them in a worker first."""
        return is_costly(buffer, self._client_rules)

    def convert(self, buffer: Buffer, now_ms: int) -> bytes:
        """A client's records, checked and converted as the topic wants them, for `append` with Origin.CONVERTED.

        Any thread.  Raises what `append` raises for records.
        """
        return convert(buffer, self._client_rules, now_ms)

    def _prepare(self, buffer: Buffer, now_ms: int, leader_epoch: int, origin: Origin) -> Prepared:
        if origin is Origin.CLIENT:
            return prepare(buffer, self._client_rules, self.log_end_offset, now_ms, leader_epoch)
        if origin is Origin.CONVERTED:
            return prepare(buffer, self._converted_rules, self.log_end_offset, now_ms, leader_epoch)
        if origin is Origin.COORDINATOR:
            return prepare(buffer, self._coordinator_rules, self.log_end_offset, now_ms, leader_epoch)
        return follow(buffer, self.log_end_offset)

    def _repeated(self, batch: WrittenBatch) -> Appended:
        append_time = batch.timestamp if self._client_rules.timestamp_type else -1
        count = batch.last_offset - batch.first_offset + 1
        must_sync = self.log_end_offset - self.recovery_point >= self._config.flush_messages
        return Appended(
            batch.first_offset, batch.last_offset, count, append_time, self.log_start_offset, True, must_sync
        )

    def _write(self, prepared: Prepared, now_ms: int) -> None:
        size, config, segment = prepared.size, self._config, self._active
        if size > config.segment_bytes:
            detail = f"{size} bytes of records exceed a segment's {config.segment_bytes}"
            raise KafkaError(detail, ErrorCode.RECORD_LIST_TOO_LARGE)
        try:
            if segment.must_roll(size, prepared.last_offset, prepared.max_timestamp, now_ms, config):
                segment = self._roll(prepared.base_offset, now_ms)
            segment.append(prepared.chunks, size, prepared.entries)
        except OSError as error:
            raise self.failed(error) from error

    def failed(self, error: OSError, passing: frozenset[int] = PASSING) -> StorageFailure:
        """What to raise for an error of the disk.  Unless it is a `passing` one, the log takes no more appends."""
        failure = StorageFailure(f"{self.path}: {error.strerror or error}")
        if error.errno not in passing:
            self.fault, self._broken = error.errno or 0, failure.detail
        return failure

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        """Errors of the disk within a `with` block become StorageFailure."""
        try:
            yield
        except OSError as error:
            raise self.failed(error) from error

    @property
    def broken(self) -> str:
        """Why the log is offline; empty if it is not."""
        return self._broken

    def take_offline(self, reason: str) -> None:
        """Refuse appends from now on, and give back descriptors."""
        self._broken = self._broken or reason
        for segment in self.segments:
            segment.close()

    # Rolling

    def roll(self, now_ms: int) -> None:
        """Seal the active segment, unless it is empty, and begin a new one."""
        if not self._active.size:
            return
        with self._on_disk():
            self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        active = self._active
        active.seal()
        self._write_snapshot(base_offset)
        segment = self._new_segment(base_offset, now_ms)
        if active.size:
            self.segments = (*self.segments, segment)
        else:  # too far away for an empty segment's relative offsets
            active.delete().unlink()
            self.segments = (*self.segments[:-1], segment)
            self._start_at(self.segments[0].base_offset)
        self._active = segment
        return segment

    def _write_snapshot(self, offset: int) -> None:
        """Keep what is known of producers, as of the log's end, unless a snapshot says it already."""
        if offset != self._snapshot_offset:
            producer_snapshots.write(names.file_of(self.path, offset, names.SNAPSHOT), self.producers)
            self._snapshot_offset = offset

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        config = self._config
        preallocate = config.segment_bytes if config.preallocate else 0
        segment = Segment.create(self.path, base_offset, self._pools, preallocate, now_ms)
        segment.index_interval = config.index_interval_bytes
        segment.jitter_ms = config.random_jitter_ms()
        return segment

    # Reading

    def read(self, offset: int, max_bytes: int, *, upto: int, min_one: bool = True) -> FileRegion | None:
        """Whole entries from the one that holds `offset` on, all below `upto`, in at most `max_bytes`.

        The first entry is returned even if it is larger, unless `min_one` is false.  None: there is nothing to
        return.  OffsetOutOfRange: the log does not reach so far.  The region's bytes are not read here.
        """
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise OffsetOutOfRange(f"offset {offset} is not within {self.log_start_offset} to {end}")
        if offset >= upto:
            return None
        try:
            return self._reader.region(self.segments, offset, max_bytes, upto, end, min_one)
        except OSError as error:
            raise self.failed(error) from error

    # Time

    def largest_timestamp(self) -> int:
        """The largest timestamp of all records; -1 without records or timestamps."""
        with self._on_disk():
            return max(segment.largest()[0] for segment in self.segments)

    def find_timestamp(self, timestamp: int, start: int = 0) -> Candidate | None:
        """The first entry that may have a record as young as `timestamp`, at or behind offset `start`.

        If a worker finds none in there, ask again with a `start` behind the entry.  StorageFailure: the log is offline.
        """
        if self._broken:
            raise StorageFailure(self._broken)
        with self._on_disk():
            return find_candidate(self.segments, timestamp, max(start, self.log_start_offset))

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

    # Deleting

    def delete_records_before(self, offset: int) -> int:
        """Let the log begin at `offset`, if it does not begin later; says where it begins.

        Segments that lie before go at the next `expire`.
        """
        if offset > self.high_watermark or offset < 0:
            raise OffsetOutOfRange(f"offset {offset} is beyond the high watermark, {self.high_watermark}")
        self._start_at(offset)
        return self.log_start_offset

    def _start_at(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_start(offset)

    def expire(self, now_ms: int, policies: Iterable[DeletePolicy] | None = None) -> list[DeletedFiles]:
        """Take away the segments that may go; a worker has to `unlink` what is returned.

        Those are what lies before the log's start, and what the policies, the built-in ones unless others are given,
        name.  When all may go, a new segment is begun first.
        """
        views = self.views()
        run = sum(1 for view in views if not view.active and view.next_offset <= self.log_start_offset)
        for policy in policies_of(self._config) if policies is None else policies:
            run = max(run, agreed_run(policy, views[run:], now_ms, self.high_watermark) + run)
        if run == len(views):
            self.roll(now_ms)
        return self._drop(run)

    def views(self) -> tuple[SegmentView, ...]:
        """The segments as delete policies see them."""
        segments = self.segments
        ends = [segment.base_offset for segment in segments[1:]] + [self.log_end_offset]
        with self._on_disk():
            return tuple(
                segment.view(end, segment is self._active) for segment, end in zip(segments, ends, strict=True)
            )

    def _drop(self, run: int) -> list[DeletedFiles]:
        gone, self.segments = self.segments[:run], self.segments[run:]
        if gone:
            self._start_at(self.segments[0].base_offset)
        with self._on_disk():
            return [segment.delete() for segment in gone]

    def truncate_to(self, offset: int) -> list[DeletedFiles]:
        """Cut off the entry that reaches `offset` and all behind it, as a follower does that diverged."""
        if offset >= self.log_end_offset:
            return []
        if offset < self.segments[0].base_offset:
            return self.restart_at(offset, self._synced_ms)
        kept = tuple(segment for segment in self.segments if segment.base_offset <= offset)
        gone, self.segments, self._active = self.segments[len(kept) :], kept, kept[-1]
        with self._on_disk():
            cut = self._active.truncate(offset)
            self._ends_at(offset if cut is None else min(cut, offset))
            return [segment.delete() for segment in gone]

    def restart_at(self, offset: int, now_ms: int) -> list[DeletedFiles]:
        """Drop all entries; the next one will have `offset`."""
        with self._on_disk():
            deleted = [segment.delete() for segment in self.segments]
            self._active = self._new_segment(offset, now_ms)
            self.segments = (self._active,)
            self.log_start_offset = offset
            self._ends_at(offset)
        return deleted

    def _ends_at(self, offset: int) -> None:
        """The log was cut: all that knew of more forgets it."""
        self._truncations += 1
        self._reader.forget()
        self.log_end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.epochs.truncate_end(offset)
        self.producers, self._snapshot_offset = load_producers(
            self.path, names.snapshots_in(self.path), self.segments, offset
        )

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
            cuts, end, segments = self._truncations, self.log_end_offset, self.segments
            end = end if upto is None else min(end, upto)
            if end <= self.recovery_point:
                return self.recovery_point
            with self._on_disk():
                has_new_epochs = self.epochs.save()
            try:
                sync_segments(self.path, segments, self.recovery_point, end, has_new_epochs)
            except OSError as error:
                raise self.failed(error, PASSING - NO_ROOM) from error
            if cuts == self._truncations:
                self.recovery_point = end
            return self.recovery_point

    def close(self) -> None:
        """Bring all files up to date, on the disk too, and close them.  Blocks."""
        try:
            if not self._broken:
                self.sync()
                with self._on_disk():
                    self._active.seal()
                    self._write_snapshot(self.log_end_offset)
        finally:
            self.take_offline("closed")
