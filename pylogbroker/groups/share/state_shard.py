"""The share partitions of one partition of `__share_group_state`, loaded and unloaded together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import attrs

from pylogbroker.coordinators import PartitionReplay, Reply
from pylogbroker.errors import CorruptRecords, ErrorCode
from pylogbroker.groups.share.state_records import (
    SNAPSHOT,
    SharePartitionKey,
    decode_key,
    decode_snapshot,
    decode_update,
)
from pylogbroker.groups.share.stored_state import StoredState
from pylogbroker.groups.share.values import StateBatch
from pylogbroker.long_loops import give_way
from pylogbroker.records import Record

NOT_STORED: Final = -1


@attrs.frozen
class Work:
    """A change of a state that waits for the append under way, and its reply.

    `batches` are what the change writes. With `is_snapshot`, all of the state is stored again, also if nothing changes.
    """

    change: Callable[[StoredState | None], StoredState | ErrorCode | None]
    reply: Reply[ErrorCode]
    batches: Sequence[StateBatch] = ()
    is_snapshot: bool = False


@attrs.define(eq=False, repr=False)
class StateEntry:
    """`snapshot_at` is an offset of the log that is not above the state's last snapshot.

    `storing_at` is one that is not above the append under way.
    """

    state: StoredState | None = None
    snapshot_at: int = NOT_STORED
    storing_at: int = NOT_STORED
    is_storing: bool = False
    waiting: list[Work] = attrs.field(factory=list)


@attrs.define(eq=False, repr=False)
class StateShard:
    partition: int
    entries: dict[SharePartitionKey, StateEntry] = attrs.field(factory=dict)
    active: bool = True

    def entry(self, key: SharePartitionKey) -> StateEntry:
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = StateEntry()
        return entry

    def oldest_snapshot(self) -> int | None:
        """Return the offset from which the log is needed; None if it has no state."""
        offsets = (offset for entry in self.entries.values() for offset in (entry.snapshot_at, entry.storing_at))
        return min((offset for offset in offsets if offset != NOT_STORED), default=None)

    def forget_if_empty(self, key: SharePartitionKey, entry: StateEntry) -> None:
        if entry.state is None and not entry.waiting:
            self.entries.pop(key, None)


@attrs.define(eq=False, repr=False)
class ReplayedStates:
    states: dict[SharePartitionKey, StoredState] = attrs.field(factory=dict, init=False)
    snapshots: dict[SharePartitionKey, int] = attrs.field(factory=dict, init=False)  # offsets in the log

    def apply(self, record: Record, producer_id: int | None) -> None:
        kind_and_key = None if record.key is None else decode_key(record.key)
        if kind_and_key is None:
            raise CorruptRecords("the key is not of a known version")
        kind, key = kind_and_key
        if record.value is None:
            self.states.pop(key, None)
            self.snapshots.pop(key, None)
        elif kind == SNAPSHOT:
            self.states[key] = StoredState.of_snapshot(decode_snapshot(record.value))
            self.snapshots[key] = record.offset
        else:
            update = decode_update(record.value)
            state = self.states.get(key)
            if state is not None and state.snapshot_epoch == update.snapshot_epoch:
                self.states[key] = state.updated(update)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Do nothing: this topic has no transactional records."""


@attrs.frozen
class StateShardHandler:
    sweep_interval_ms: int
    _prune: Callable[[StateShard, int], Awaitable[None]]

    def new_state(self) -> ReplayedStates:
        return ReplayedStates()

    async def make_shard(self, replay: PartitionReplay[ReplayedStates], now_ms: int) -> StateShard:
        shard = StateShard(replay.partition)
        for key, state in replay.state.states.items():
            shard.entries[key] = StateEntry(state, replay.state.snapshots.get(key, NOT_STORED))
            await give_way()
        return shard

    async def on_active(self, shard: StateShard, state: ReplayedStates, now_ms: int) -> None:
        """Do nothing: leaders write again what was not stored."""

    def on_unload(self, shard: StateShard, now_ms: int) -> None:
        """Answer the changes that wait; the end of the append under way answers the others."""
        shard.active = False
        for entry in shard.entries.values():
            waiting, entry.waiting = entry.waiting, []
            for work in waiting:
                work.reply(ErrorCode.NOT_COORDINATOR)

    async def sweep(self, shard: StateShard, now_ms: int) -> None:
        """Prune the log: states do not expire, groups delete them."""
        await self._prune(shard, now_ms)
