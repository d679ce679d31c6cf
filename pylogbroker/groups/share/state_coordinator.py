"""The share coordinator: keeps the states of share partitions in `__share_group_state` (KIP-932).

Leaders of partitions write what their groups do with the records; the group coordinator initializes and deletes.

    initialize   a snapshot, with the state epoch of this life of the group
    write        an update, or a snapshot after `updates_per_snapshot` of them
    delete       a tombstone

The log is pruned up to the oldest snapshot that a state needs. A state that has not changed for long would hold back
its log, so all of it is stored again.

One append of a share partition is under way at a time. Writes that come meanwhile wait, and their batches are appended
together. A state counts when its record is stored; if that fails, the former one holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs

from pylogbroker.coordinators import (
    APPEND_ERRORS,
    CoordinatorContext,
    CoordinatorRuntime,
    EventQueue,
    LazyRecords,
    LogPort,
    RecordWriter,
    Reply,
    record,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.state_records import (
    SNAPSHOT,
    UNCHANGED,
    UPDATE,
    SharePartitionKey,
    ShareUpdateValue,
    encode_key,
    encode_value,
    to_schema,
)
from pylogbroker.groups.share.state_shard import (
    NOT_STORED,
    ReplayedStates,
    StateEntry,
    StateShard,
    StateShardHandler,
    Work,
)
from pylogbroker.groups.share.stored_state import StoredState, batches_from, replaced
from pylogbroker.groups.share.values import StateBatch
from pylogbroker.long_loops import give_way

_HELD_RECORDS_MIN: Final = 1_000
_HELD_RECORDS_PER_STATE: Final = 4
_WRITE_ERRORS: Final = {**APPEND_ERRORS, ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR}


@attrs.frozen
class ShareStateSettings:
    partitions: int = 50  # share.coordinator.state.topic.num.partitions
    updates_per_snapshot: int = 500  # share.coordinator.snapshot.update.records.per.snapshot
    prune_interval_ms: int = 300_000  # share.coordinator.state.topic.prune.interval.ms


@attrs.frozen
class StateWrite:
    """`start_offset` and `delivery_complete_count` are -1 if they do not change or are not known."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


class PrunedLog(Protocol):
    """Partitions of `__share_group_state` that grow, and are pruned."""

    def end_offset(self, partition: int, /) -> int: ...
    def delete_before(self, partition: int, offset: int, /) -> None: ...


@attrs.define(eq=False, repr=False)
class ShareStateCoordinator:
    """States of the active shards. The driver loads shards into `runtime` and calls its `tick`."""

    settings: ShareStateSettings
    _log_port: LogPort
    _log: PrunedLog
    writes: int = attrs.field(default=0, init=False)
    """Changes of states that leaders of partitions have asked for."""
    runtime: CoordinatorRuntime[ReplayedStates, StateShard] = attrs.field(init=False)
    _events: EventQueue = attrs.field(init=False)
    _writer: RecordWriter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        context = CoordinatorContext(self._log_port)
        self._events = context.events
        self._writer = context.writer
        self.runtime = CoordinatorRuntime(
            self.settings.partitions, context, StateShardHandler(self.settings.prune_interval_ms, self._prune)
        )

    def partition_for(self, key: SharePartitionKey) -> int:
        return self.runtime.partition_for(str(key))

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, reply: Reply[ErrorCode], now_ms: int
    ) -> None:
        """Begin a life of the group: forget what an earlier one had. FENCED_STATE_EPOCH for an earlier epoch."""

        def begin(state: StoredState | None) -> StoredState | ErrorCode:
            if state is not None and state.state_epoch > state_epoch:
                return ErrorCode.FENCED_STATE_EPOCH
            if state is not None and state.state_epoch == state_epoch:
                return state  # repeated
            finished = 0 if start_offset >= 0 else UNCHANGED
            return StoredState(
                state_epoch, start_offset=start_offset, delivery_complete_count=finished, created_ms=now_ms
            )

        self._change(key, begin, reply, now_ms)

    def write(self, key: SharePartitionKey, write: StateWrite, reply: Reply[ErrorCode], now_ms: int) -> None:
        """FENCED_STATE_EPOCH for an earlier life of the group, FENCED_LEADER_EPOCH for a former leader."""
        self.writes += 1

        def apply(state: StoredState | None) -> StoredState | ErrorCode:
            state = state or StoredState(write.state_epoch, created_ms=now_ms)
            if state.state_epoch > write.state_epoch:
                return ErrorCode.FENCED_STATE_EPOCH
            if state.leader_epoch > write.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            return state.written(write.leader_epoch, write.start_offset, write.delivery_complete_count, write.batches)

        self._change(key, apply, reply, now_ms, write.batches)

    def read(
        self, key: SharePartitionKey, leader_epoch: int, reply: Reply[StoredState | ErrorCode], now_ms: int
    ) -> None:
        """Reply with the state, and fence earlier leaders; a state without start offset if there is none."""

        def take_over(state: StoredState | None) -> StoredState | ErrorCode | None:
            if state is None or state.leader_epoch == leader_epoch:
                return state
            if state.leader_epoch > leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            return state.written(leader_epoch, UNCHANGED, state.delivery_complete_count, ())

        def answer(error: ErrorCode) -> None:
            reply(error or self._state(key) or StoredState())

        self._change(key, take_over, answer, now_ms)

    def summary(self, key: SharePartitionKey) -> StoredState | ErrorCode:
        """Return the state; one without start offset if there is none."""
        shard = self._find_shard(key)
        return shard if isinstance(shard, ErrorCode) else self._state(key) or StoredState()

    def delete(self, key: SharePartitionKey, reply: Reply[ErrorCode], now_ms: int) -> None:
        """Delete the state; NONE also if there is none."""
        self._change(key, lambda state: None, reply, now_ms)

    # -- pruning -----------------------------------------------------------------------------------------------------

    async def _prune(self, shard: StateShard, now_ms: int) -> None:
        """Delete the log before the oldest snapshot, and take new ones of states that hold much of it back."""
        end = self._log.end_offset(shard.partition)
        oldest = shard.oldest_snapshot()
        self._log.delete_before(shard.partition, end if oldest is None else oldest)
        held_max = max(_HELD_RECORDS_MIN, _HELD_RECORDS_PER_STATE * len(shard.entries))
        for key, entry in tuple(shard.entries.items()):
            await give_way()
            if entry.snapshot_at != NOT_STORED and end - entry.snapshot_at > held_max:
                self._change(key, lambda state: state, _ignore, now_ms, is_snapshot=True)

    # -- appends -----------------------------------------------------------------------------------------------------

    def _change(
        self,
        key: SharePartitionKey,
        change: Callable[[StoredState | None], StoredState | ErrorCode | None],
        reply: Reply[ErrorCode],
        now_ms: int,
        batches: Sequence[StateBatch] = (),
        *,
        is_snapshot: bool = False,
    ) -> None:
        """Store what `change` makes of the state, after the changes before it; None deletes the state.

        `batches` are what it writes.
        """
        with self._events:
            shard = self._find_shard(key)
            if isinstance(shard, ErrorCode):
                self._events.reply(reply, shard)
                return
            entry = shard.entry(key)
            entry.waiting.append(Work(change, reply, batches, is_snapshot))
            if not entry.is_storing:
                self._store_next(shard, key, entry, now_ms)

    def _store_next(self, shard: StateShard, key: SharePartitionKey, entry: StateEntry, now_ms: int) -> None:
        """Append one record with all changes that wait."""
        target, done = entry.state, []
        written: tuple[StateBatch, ...] = ()
        is_snapshot = any(work.is_snapshot for work in entry.waiting)
        for work in entry.waiting:
            result = work.change(target)
            if isinstance(result, ErrorCode):
                self._events.reply(work.reply, result)
            else:
                target = result
                written = replaced(written, work.batches)
                done.append(work.reply)
        entry.waiting.clear()
        if target is entry.state and not (is_snapshot and target is not None):
            self._answer(done, ErrorCode.NONE)
            shard.forget_if_empty(key, entry)
            return
        entry.is_storing = True
        stored_target, records = self._records(key, entry.state, target, written, now_ms, is_snapshot)
        appended_at = entry.storing_at = self._log.end_offset(shard.partition)  # or behind it

        def stored(error: ErrorCode, done_ms: int) -> None:
            entry.is_storing, entry.storing_at = False, NOT_STORED
            if not shard.active:
                error = ErrorCode.NOT_COORDINATOR
            elif not error:
                entry.state = stored_target
                if stored_target is None:
                    entry.snapshot_at = NOT_STORED
                elif not stored_target.updates:
                    entry.snapshot_at = appended_at
            self._answer(done, error)
            if shard.active:
                self._store_next(shard, key, entry, done_ms)

        self._writer.append(shard.partition, records, now_ms, stored, _WRITE_ERRORS)

    def _records(
        self,
        key: SharePartitionKey,
        former: StoredState | None,
        target: StoredState | None,
        written: tuple[StateBatch, ...],
        now_ms: int,
        is_snapshot: bool,
    ) -> tuple[StoredState | None, LazyRecords]:
        """Return the state with the epoch of its snapshot, and the record that stores it."""
        if target is None:
            return None, LazyRecords(1, lambda: iter([record(encode_key(key, SNAPSHOT), None, now_ms)]))
        if former is None or is_snapshot or self._needs_snapshot(former, target):
            epoch = 0 if former is None else former.snapshot_epoch + 1
            state = attrs.evolve(target, snapshot_epoch=epoch, updates=0)
            snapshot = record(encode_key(key, SNAPSHOT), encode_value(state.snapshot(now_ms)), now_ms)
            return state, LazyRecords(1, lambda: iter([snapshot]))
        state = target if target.updates == former.updates + 1 else attrs.evolve(target, updates=former.updates + 1)
        update = ShareUpdateValue(
            state.snapshot_epoch,
            state.leader_epoch,
            state.start_offset,
            state.delivery_complete_count,
            to_schema(batches_from(state.start_offset, written)),
        )
        return state, LazyRecords(1, lambda: iter([record(encode_key(key, UPDATE), encode_value(update), now_ms)]))

    def _needs_snapshot(self, former: StoredState, target: StoredState) -> bool:
        return former.state_epoch != target.state_epoch or former.updates >= self.settings.updates_per_snapshot

    def _answer(self, replies: Sequence[Reply[ErrorCode]], error: ErrorCode) -> None:
        for reply in replies:
            self._events.reply(reply, error)

    def _find_shard(self, key: SharePartitionKey) -> StateShard | ErrorCode:
        if not key.group_id or key.partition < 0:
            return ErrorCode.INVALID_REQUEST
        return self.runtime.find(str(key))

    def _state(self, key: SharePartitionKey) -> StoredState | None:
        shard = self._find_shard(key)
        entry = None if isinstance(shard, ErrorCode) else shard.entries.get(key)
        return None if entry is None else entry.state


def _ignore(error: ErrorCode) -> None:
    """Leave it to the next sweep."""
