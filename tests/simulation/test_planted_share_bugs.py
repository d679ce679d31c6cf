"""Bugs planted into the share groups of whole brokers: some seed finds each."""

from __future__ import annotations

from typing import Any, Final

import pytest
from twisted.internet.defer import ensureDeferred

from pylogbroker.broker.share.dead_letters import DeadLetters
from pylogbroker.broker.share.led_partition import LedSharePartition
from pylogbroker.broker.share.led_partitions import LedSharePartitions
from pylogbroker.broker.share.persister import SharePersister
from pylogbroker.broker.share.service import ShareGroupService
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.share.partition import SharePartition, StateChange
from pylogbroker.groups.share.record_range import RecordRange
from pylogbroker.groups.share.state_coordinator import StateWrite
from pylogbroker.groups.share.state_records import UPDATE, SharePartitionKey
from pylogbroker.groups.share.state_shard import ReplayedStates, decode_key
from pylogbroker.groups.share.states import StateKeeper
from pylogbroker.groups.share.values import RecordState, StateBatch
from pylogbroker.records import Record
from tests.simulation.test_planted_bugs import check_found

MOVES: Final = ("kill", "isolate", "pause")
NEVER_MS: Final = 3_600_000
TWO: Final = {"share_members": 2, "partitions": 2}


def test_a_state_that_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async def write(persister: SharePersister, key: SharePartitionKey, write: StateWrite) -> ErrorCode:
        return ErrorCode.NONE

    monkeypatch.setattr(SharePersister, "write", write)
    check_found(MOVES, "18", "19", likely=1, **TWO)


def test_a_state_without_its_updates_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = ReplayedStates.apply

    def apply_snapshots(states: ReplayedStates, record: Record, producer_id: int | None) -> None:
        kind_and_key = None if record.key is None else decode_key(record.key)
        if kind_and_key is not None and kind_and_key[0] != UPDATE:
            apply(states, record, producer_id)

    monkeypatch.setattr(ReplayedStates, "apply", apply_snapshots)
    check_found(MOVES, "18", "19", "20", likely=8, **TWO)


def test_a_leader_that_goes_on_with_records_of_an_earlier_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    def led(partitions: LedSharePartitions, key: SharePartitionKey, partition: Any) -> LedSharePartition | None:
        share_partition = partitions._led.get(key)
        return None if share_partition is None or share_partition.is_closed else share_partition

    monkeypatch.setattr(LedSharePartitions, "led", led)
    monkeypatch.setattr(LedSharePartitions, "resign", lambda partitions, topic, index: None)
    check_found(("expire_session", "isolate"), "18", "19", "20", likely=154, fault_seconds=0.5, **TWO)


def test_an_acknowledgement_that_is_answered_before_it_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    async def store(led: LedSharePartition, change: StateChange) -> ErrorCode:
        if not change.is_empty:
            ensureDeferred(led._persister.write(led.key, led._write(change)))
        change.commit()
        led.wake_next()
        led._on_dead_letters(led)
        return ErrorCode.NONE

    monkeypatch.setattr(LedSharePartition, "_store", store)
    check_found(MOVES, "18", "19", likely=3, **TWO)


def test_locks_that_do_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LedSharePartition, "_expire", lambda led: None)
    check_found(("cut_one_way", "isolate"), "20", "no rest without faults", likely=46, **TWO)


def test_a_start_offset_that_steps_over_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharePartition, "_progress_after", lambda records, outcomes: (records.end_offset, 0))
    check_found(MOVES, "20", "no rest without faults", likely=1, **TWO)


def test_a_dead_member_that_keeps_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShareGroupService, "_connection_lost", lambda groups, connection: None)
    check_found((), "no rest without faults", likely=1, share_lock_ms=NEVER_MS, **TWO)


def test_records_that_several_members_get(monkeypatch: pytest.MonkeyPatch) -> None:
    is_available = property(lambda piece: piece.state in (RecordState.AVAILABLE, RecordState.ACQUIRED))
    monkeypatch.setattr(RecordRange, "is_available", is_available)
    check_found((), "17", "18", likely=3, **TWO)


def test_states_that_are_made_in_an_epoch_of_the_coordinator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    run = StateKeeper._run

    def run_at_newest(keeper: StateKeeper, group: Any, work: Any, error: ErrorCode, now_ms: int) -> None:
        work.epoch = group.epoch
        run(keeper, group, work, error, now_ms)

    monkeypatch.setattr(StateKeeper, "_run", run_at_newest)
    fixed = {"share_members": 3, "partitions": 2, "prunes_share_states": True}
    faults = ("expire_session", "kill", "lose_power", "expire_session", "lose_zookeeper", "expire_session")
    check_found(faults, "18", "19", likely=23, **fixed)


def test_dead_letters_that_are_not_stored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store_batch = DeadLetters._store_batch

    async def try_to_store(letters: DeadLetters, led: LedSharePartition, batch: StateBatch, appended: Any) -> None:
        try:
            await store_batch(letters, led, batch, appended)
        except KafkaError:
            await led.dead_letters_stored(batch.first, batch.last)

    monkeypatch.setattr(DeadLetters, "_store_batch", try_to_store)
    check_found(MOVES, "20", likely=19, **TWO)
