"""Bugs planted into brokers of a cluster with KRaft's controllers: some seed finds each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pytest

from pylogbroker.broker.kraft.role import KraftRole
from pylogbroker.kraft import metadata_log
from pylogbroker.kraft.metadata_log import CommittedMetadata, MetadataLog
from pylogbroker.replication.isr import InSyncReplicas
from pylogbroker.wire.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)
from tests.simulation.network import Latency
from tests.simulation.test_planted_bugs import check_found

KRAFT: Final = {"engine": "kraft", "has_elr": False, "metadata_transactions": 0.0}
MOVES: Final = ("kill", "isolate", "pause")
SLOW: Final = Latency(0.002, 0.5, 0.05)


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
    check_found(("fail_over",), "22", "an unexpected error was logged", likely=1, **KRAFT)


def test_a_heartbeat_that_is_ahead_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KraftRole, "_published_offset", lambda role: role._reader._log.end_offset - 1)
    check_found(("fail_over", "stall_commits"), "23", likely=1, **KRAFT)


def test_replicas_that_take_roles_before_the_broker_has_read_its_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_replicas(role: KraftRole) -> None:
        role.replicas.start()
        await role._publisher.begin(role.replicas, {}, -1)

    monkeypatch.setattr(KraftRole, "open_replicas", open_replicas)
    monkeypatch.setattr(KraftRole, "_registered", lambda role, epoch: None)
    check_found(("lose_power",), "1", "2", "3", "7", likely=4, **KRAFT)


def test_an_answer_to_an_isr_change_of_an_earlier_state(monkeypatch: pytest.MonkeyPatch) -> None:
    def commit(isr: InSyncReplicas, members: tuple[int, ...], partition_epoch: int) -> bool:
        isr.committed = isr.maximal = members
        isr.partition_epoch, isr.pending = partition_epoch, None
        return True

    monkeypatch.setattr(InSyncReplicas, "commit", commit)
    check_found((*MOVES, "fence"), "2", "4", "25", likely=20, **{**KRAFT, "latency": SLOW})
