"""Bugs planted into brokers of a cluster with KRaft's controllers: some seed finds each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pytest

from pylogbroker.broker.kraft.role import KraftRole
from pylogbroker.errors import ErrorCode
from pylogbroker.kraft import metadata_log
from pylogbroker.kraft.metadata_log import CommittedMetadata, MetadataLog
from pylogbroker.kraft.registration import KraftRegistration
from pylogbroker.replication import LeaderReplica
from pylogbroker.replication.actions import IsrChange
from pylogbroker.replication.isr import InSyncReplicas
from pylogbroker.replication.progress import UNKNOWN_BROKER_EPOCH
from pylogbroker.wire.messages.broker_registration import BrokerRegistrationResponse
from pylogbroker.wire.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)
from tests.simulation.network import Latency
from tests.simulation.test_planted_bugs import check_found

KRAFT: Final = {"engine": "kraft", "has_elr": False, "metadata_transactions": 0.0, "raced_isr_changes": 0.0}
REGISTRATION_REQUEST: Final = KraftRegistration.request
MOVES: Final = ("kill", "isolate", "pause")
SLOW: Final = Latency(0.002, 0.5, 0.05)
SLOWER: Final = Latency(0.02, 0.5, 0.3)


def test_records_of_an_open_metadata_transaction_that_are_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(transactions: object, records: Iterable[MetadataRecord]) -> Iterator[MetadataRecord]:
        kinds = BeginTransactionRecord | EndTransactionRecord | AbortTransactionRecord
        return (record for record in records if not isinstance(record, kinds))

    monkeypatch.setattr(metadata_log._Transactions, "ended", ended)
    check_found(("fail_over", "stall_commits"), "22", likely=1, **{**KRAFT, "metadata_transactions": 1.0})


def test_records_that_are_applied_before_they_are_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    committed = MetadataLog.committed

    def all_fetched(log: MetadataLog) -> Iterator[CommittedMetadata]:
        log.high_watermark = log.end_offset
        return committed(log)

    monkeypatch.setattr(MetadataLog, "committed", all_fetched)
    check_found(("fail_over",), "22", "an unexpected error was logged", likely=2, **KRAFT)


def test_a_heartbeat_that_is_ahead_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KraftRole, "_published_offset", lambda role: role._reader._log.end_offset - 1)
    check_found(("fail_over", "stall_commits"), "23", likely=2, **KRAFT)


def test_replicas_that_take_roles_before_the_broker_has_read_its_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_replicas(role: KraftRole) -> None:
        role.replicas.start()
        await role._publisher.begin(role.replicas, {}, -1)

    monkeypatch.setattr(KraftRole, "open_replicas", open_replicas)
    monkeypatch.setattr(KraftRole, "_registered", lambda role, epoch: None)
    check_found(("lose_power",), "1", "2", "3", "7", likely=1, **KRAFT)


def test_a_broker_that_says_that_it_was_stopped_cleanly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a registration that keeps a broker eligible (KIP-966), although it may lack committed records."""
    epochs: dict[int, int] = {}
    registered = KraftRegistration.registered

    def note_epoch(registration: KraftRegistration, answer: BrokerRegistrationResponse) -> ErrorCode:
        code = registered(registration, answer)
        epochs[registration._identity.broker_id] = registration.epoch
        return code

    def request(registration: KraftRegistration, published_offset: int) -> object:
        registration.previous_epoch = epochs.get(registration._identity.broker_id, -1)
        return REGISTRATION_REQUEST(registration, published_offset)

    monkeypatch.setattr(KraftRegistration, "registered", note_epoch)
    monkeypatch.setattr(KraftRegistration, "request", request)
    fixed = {"replicas": 2, "min_insync_replicas": 2, "has_elr": True}
    check_found(("lose_power",), "1", "2", "3", "7", likely=8, **{**KRAFT, **fixed})


def test_an_isr_change_that_names_no_life_of_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant KIP-903: a member that has restarted since may lack records."""
    monkeypatch.setattr(LeaderReplica, "_broker_epoch", lambda leader, replica_id: UNKNOWN_BROKER_EPOCH)
    check_found(("kill", "lose_joining"), "1", "2", "3", "7", likely=1, **KRAFT)


def test_an_answer_to_an_isr_change_of_an_earlier_state(monkeypatch: pytest.MonkeyPatch) -> None:
    def commit(isr: InSyncReplicas, members: tuple[int, ...], partition_epoch: int) -> bool:
        isr.committed = isr.maximal = members
        isr.partition_epoch, isr.pending = partition_epoch, None
        return True

    monkeypatch.setattr(InSyncReplicas, "commit", commit)
    check_found((*MOVES, "fence"), "2", "4", "25", likely=11, **{**KRAFT, "latency": SLOW})


def test_an_error_of_an_isr_change_that_drops_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a leader that does not wait for a new member, although the later change is stored."""

    def failed(isr: InSyncReplicas, change: IsrChange, error: ErrorCode) -> bool:
        isr.pending, isr.maximal = None, isr.committed
        return False

    monkeypatch.setattr(InSyncReplicas, "failed", failed)
    fixed = {"latency": SLOWER, "raced_isr_changes": 0.7, "fault_seconds": 0.3, "partitions": 3}
    check_found(("pause", "kill"), "1", "2", "4", likely=5, **{**KRAFT, **fixed})
