"""Invariants of the model, checked after each step.

    1  leader completeness     the stored leader has every committed record
    2  candidate completeness  each member of the stored ISR has every committed record, crashed or not
    3  log matching            replicas agree below their high watermarks; an epoch and offset name one record
    4  quorums                 the leader's maximal ISR contains the stored one
    5  states                  leader in ISR, ISR in replicas, ISR not empty; epochs never fall
    6  fetchers                only followers ask, one request at a time: by the types of roles
    7  reads                   what is below any high watermark stays; a listed latest offset does not fall
    8  acknowledgements        a record acknowledged with acks=all is committed, so kept by 1 and 2
    10 one leader per epoch    appends; images converge once faults stop (`Cluster.heal`)

Transactions (9) are not part of the model. With unclean elections committed records may be lost: then 3, of the names
alone, 5 and 10 are checked.

A record is committed once it was below the high watermark of any leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pylogbroker.metadata.image import NO_LEADER, PartitionState
from tests.replication.model_broker import ModelBroker
from tests.replication.model_log import Record

if TYPE_CHECKING:
    from tests.replication.cluster import Cluster


class Violation(AssertionError):
    pass


class Invariants:
    def __init__(self, cluster: Cluster) -> None:
        self.committed: list[Record] = []
        self.acknowledgements = 0
        self._cluster = cluster
        self._unclean = cluster.setup.unclean
        self._appenders: dict[int, int] = {}
        self._names: set[tuple[int, int]] = set()
        self._state: PartitionState = cluster.controller.stored

    # Events

    def appended(self, broker: ModelBroker, offset: int, records: Sequence[Record]) -> None:
        epoch = records[0][0]
        if self._appenders.setdefault(epoch, broker.id) != broker.id:
            raise Violation(f"10: brokers {self._appenders[epoch]} and {broker.id} append in leader epoch {epoch}")
        for name in ((epoch, offset + index) for index in range(len(records))):
            if name in self._names:
                raise Violation(f"3: epoch and offset {name} name two records")
            self._names.add(name)

    def acknowledged(self, offset: int, records: Sequence[Record]) -> None:
        self.acknowledgements += 1
        if not self._unclean and self.committed[offset : offset + len(records)] != records:
            raise Violation(f"8: records at {offset} were acknowledged and are not committed")

    def high_watermark_advanced(self, broker: ModelBroker) -> None:
        if self._unclean:
            return
        leader = broker.leader
        if leader is not None and leader.high_watermark > len(self.committed):
            self.committed += broker.log.records[len(self.committed) : leader.high_watermark]
        self._check_reads(broker)

    # States

    def check(self) -> None:
        self._check_state()
        if self._unclean:
            return
        cluster = self._cluster
        for broker in cluster.brokers:
            if broker.replica is not None:
                self._check_reads(broker)
        committed = self.committed
        count = len(committed)
        state = cluster.controller.stored
        for member in state.isr:
            if member in cluster.lossy and not cluster.setup.flushes:
                continue
            log = cluster.brokers[member].log
            start = min(log.log_start_offset, count)
            if log.records[start:count] != committed[start:]:
                raise Violation(f"2: broker {member} is in the ISR and has not all {count} committed records")
        self._check_leader(state)

    def _check_reads(self, broker: ModelBroker) -> None:
        assert broker.replica is not None
        end, log = broker.replica.high_watermark, broker.log
        start = log.log_start_offset
        if end > len(self.committed) or log.records[start:end] != self.committed[start:end]:
            raise Violation(f"7: broker {broker.id} shows uncommitted or wrong records below {end}")

    def _check_leader(self, state: PartitionState) -> None:
        if state.leader == NO_LEADER:
            return
        broker = self._cluster.brokers[state.leader]
        leader = broker.leader
        if leader is None or leader.leader_epoch != state.leader_epoch or broker.id in self._cluster.lossy:
            return
        if broker.log.log_end_offset < len(self.committed):
            raise Violation(f"1: leader {broker.id} lacks committed records")
        if not set(state.isr) <= set(leader.isr.maximal):
            raise Violation(f"4: the ISR {state.isr} is stored, leader {broker.id} knows of {leader.isr.maximal}")
        if leader.epoch_start_offset <= leader.high_watermark < len(self.committed):
            raise Violation(f"7: leader {broker.id} lists offset {leader.high_watermark} after a later one")
        low = leader.low_watermark
        for member in state.replicas:
            follower = self._cluster.brokers[member]
            role = follower.follower if member in broker.brokers else None
            if role is not None and role.leader_epoch == leader.leader_epoch and follower.log.log_start_offset < low:
                raise Violation(f"7: broker {member} has records before the low watermark {low}")

    def _check_state(self) -> None:
        state, before = self._cluster.controller.stored, self._state
        if state is before:
            return
        self._state = state
        if state.leader != NO_LEADER and state.leader not in state.isr:
            raise Violation(f"5: leader not in ISR: {state}")
        if not state.isr or not set(state.isr) <= set(state.replicas):
            raise Violation(f"5: ISR empty or beyond replicas: {state}")
        if state.leader_epoch < before.leader_epoch or state.partition_epoch <= before.partition_epoch:
            raise Violation(f"5: epochs fell from {before} to {state}")
