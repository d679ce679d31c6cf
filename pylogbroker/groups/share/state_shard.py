"""The share partitions of one partition of `__share_group_state`, loaded and unloaded together."""

from __future__ import annotations

from collections.abc import Callable
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
from pylogbroker.long_loops import give_way
from pylogbroker.records import Record

_SWEEP_INTERVAL_MS: Final = 600_000


@attrs.frozen
class Work:
    """A change of a state that waits for the append under way, and its reply."""

    change: Callable[[StoredState | None], StoredState | ErrorCode | None]
    reply: Reply[ErrorCode]


@attrs.define(eq=False, repr=False)
class StateEntry:
    state: StoredState | None = None
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

    def forget_if_empty(self, key: SharePartitionKey, entry: StateEntry) -> None:
        if entry.state is None and not entry.waiting:
            self.entries.pop(key, None)


@attrs.define(eq=False, repr=False)
class ReplayedStates:
    states: dict[SharePartitionKey, StoredState] = attrs.field(factory=dict, init=False)

    def apply(self, record: Record, producer_id: int | None) -> None:
        kind_and_key = None if record.key is None else decode_key(record.key)
        if kind_and_key is None:
            raise CorruptRecords("the key is not of a known version")
        kind, key = kind_and_key
        if record.value is None:
            self.states.pop(key, None)
        elif kind == SNAPSHOT:
            self.states[key] = StoredState.of_snapshot(decode_snapshot(record.value))
        else:
            update = decode_update(record.value)
            state = self.states.get(key)
            if state is not None and state.snapshot_epoch == update.snapshot_epoch:
                self.states[key] = state.updated(update)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Do nothing: this topic has no transactional records."""


@attrs.frozen
class StateShardHandler:
    @property
    def sweep_interval_ms(self) -> int:
        return _SWEEP_INTERVAL_MS

    def new_state(self) -> ReplayedStates:
        return ReplayedStates()

    async def make_shard(self, replay: PartitionReplay[ReplayedStates], now_ms: int) -> StateShard:
        shard = StateShard(replay.partition)
        for key, state in replay.state.states.items():
            shard.entries[key] = StateEntry(state)
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
        """Do nothing: states do not expire, groups delete them."""
