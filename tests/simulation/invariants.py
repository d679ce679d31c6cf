"""Invariants of a simulated cluster, checked after each event.

    1  leader completeness     the stored leader has every committed record
    2  candidate completeness  each member of the stored ISR has every committed record, running or not
    3  log matching            replicas agree below their high watermarks; an epoch and offset name one record
    4  quorums                 the leader's maximal ISR contains the stored one
    5  states                  leader in ISR, ISR in replicas, ISR not empty; epochs never fall (tests.controller)
    6  fetchers                one at most for a partition that follows, none for one that leads
    7  reads                   what a consumer may read, or has read, stays
    8  acknowledgements        records acknowledged with acks=all are committed, so kept by 1 and 2
    9  idempotent producers    each record is stored once, in the order in which it was sent (`rest`, `pipeliners`)
    10 one leader per epoch    appends; images agree with the tree once faults stop (`rest`)
    11 committed offsets       an acknowledged commit of a group is not lost, and later ones replace it (`groups`)
    12 transactions            committed copies are their source up to the committed offset, each once (`copiers`)
    13 deletions               a topic that is created again begins empty (`recreator`); deleted ones are gone (`rest`)
    14 settings and ACLs       those of the last acknowledged change are stored (`administrator`), and in force (`rest`)
    15 committed offsets       as 11, of a group of KIP-848 (`consumer_groups`)
    16 one owner               of a partition in such a group, as long as its session cannot be over (`consumer_groups`)
    17 one member              has a record of a share group, as long as its lock and its session hold (`share_ledger`)
    18 finished records        of a share group are not delivered again, once their acknowledgement was answered
    19 delivery counts         of records only grow, up to the limit
    20 all records             are accepted in the end, or are dead letters, at least once, that say from where and why
    21 committed records       alone are delivered to a share group that reads these

    22 applied metadata        are those that are committed, in a metadata transaction at its end (`applied_metadata`)
    23 heartbeats              name no offset whose records are not applied (`quorum`)
    24 leaders                 lead in epochs that are committed, one in each
    25 in-sync replicas        as a leader knows them are committed, with their partition epoch

22 to 25 are of clusters with KRaft's controllers; there, 2 holds for eligible leader replicas, too.

They hold over reassignments, too, and for internal topics; of a topic that is deleted or pruned, only 5, 6 and
13 are checked.

A record is committed once it was below the high watermark of any leader. The records come from the replicas' files.
"""

from __future__ import annotations

from typing import Any

from pylogbroker.metadata.image import NO_LEADER, PartitionKey, PartitionState
from pylogbroker.replication import LeaderReplica
from tests.replication.invariants import Violation
from tests.simulation.broker import SimulatedBroker
from tests.simulation.clients import Acknowledged
from tests.simulation.cluster import Replica, SimulatedCluster
from tests.simulation.replica_log import Record, ReplicaLog, batches
from tests.simulation.world import Process


class Invariants:
    def __init__(self, cluster: SimulatedCluster) -> None:
        self.committed: dict[PartitionKey, list[Record]] = {}
        self.acknowledged: list[Acknowledged] = []
        self.records_read = 0
        self._cluster = cluster
        self._unchecked = cluster.setup.unchecked_topics
        self._logs: dict[tuple[int, PartitionKey], ReplicaLog] = {}
        self._seen: dict[tuple[int, PartitionKey], Any] = {}
        self._names: dict[tuple[PartitionKey, int, int], Record] = {}
        self._appenders: dict[tuple[PartitionKey, int], int] = {}
        self._states: dict[PartitionKey, PartitionState] = {}
        self._may_differ = False
        """There may be other topics or states than `_states`."""
        cluster.stored.watch(self._metadata_changed, self._metadata_applied)
        for broker in cluster.brokers.values():
            broker.on_ended.append(self.ended)

    # what clients see

    def acknowledge(self, acknowledged: Acknowledged) -> None:
        """Check 8: the batch's records are committed at its offsets."""
        end = acknowledged.offset + len(acknowledged.values)
        if len(self.committed[acknowledged.key]) < end:
            raise Violation(f"8: {acknowledged} is acknowledged and not committed")
        self.acknowledged.append(acknowledged)

    def read(self, key: PartitionKey, data: bytes) -> None:
        """Check 7: a consumer reads committed records only."""
        committed = self.committed.get(key, [])
        for base, records, _end in batches(data):
            self.records_read += len(records)
            if committed[base : base + len(records)] != records:
                raise Violation(f"7: a consumer of {key} read uncommitted or wrong records at {base}")

    # events

    def check(self, process: Process | None) -> None:
        """Check what an event of a process may have changed."""
        cluster = self._cluster
        for number in tuple(cluster.lossy):
            if cluster.stored.has_registered(cluster.brokers[number]):
                del cluster.lossy[number]
        changed = self._update_states()
        broker = None if process is None else cluster.broker_of(process)
        if broker is not None:
            cluster.stored.check_broker(broker)
            changed |= self._check_broker(broker)
        for key in sorted(changed):
            self._check_partition(key)

    def ended(self, broker: SimulatedBroker) -> None:
        """Read the files of a broker whose process has ended."""
        for (number, key), log in self._logs.items():
            if number == broker.id:
                log.read_all()
                self._seen.pop((number, key), None)
        for key in self._states:
            self._check_partition(key)

    def log_of(self, broker: SimulatedBroker, key: PartitionKey) -> ReplicaLog:
        found = self._logs.get((broker.id, key))
        if found is None:
            found = self._logs[broker.id, key] = ReplicaLog(f"{broker.directory}/{key[0]}_{key[1]}")
            found.read_all()
        return found

    def _metadata_changed(self) -> None:
        self._may_differ = True

    def _metadata_applied(self, broker_id: int) -> None:
        """Check a broker within an event: it may lead and commit records before the next change that it applies."""
        broker = self._cluster.brokers[broker_id]
        if broker.role is not None:
            self._check_broker(broker)

    def _update_states(self) -> set[PartitionKey]:
        if not self._may_differ:
            return set()
        self._may_differ = False
        before, self._states = (
            self._states,
            {k: v for k, v in self._cluster.states().items() if k[0] not in self._unchecked},
        )
        return {key for key, state in self._states.items() if state != before.get(key)}

    def _check_broker(self, broker: SimulatedBroker) -> set[PartitionKey]:
        changed = set()
        for replica in self._cluster.replicas_of(broker):
            key, log, role = replica.key, replica.log, replica.role
            if key[0] in self._unchecked:
                continue
            isr = (role.isr.committed, role.isr.maximal) if isinstance(role, LeaderReplica) else None
            seen = (log, log.log_end_offset, log.truncations, log.high_watermark, role, isr)
            if self._seen.get((broker.id, key)) != seen:
                self._seen[broker.id, key] = seen
                self._check_replica(replica)
                changed.add(key)
        if changed:
            self._check_fetchers(broker)
        return changed

    # replicas

    def _check_replica(self, replica: Replica) -> None:
        broker, key, log, role = replica.broker, replica.key, replica.log, replica.role
        mirror = self.log_of(broker, key)
        former = mirror.records
        mirror.update(log)
        records = mirror.records
        if len(records) != log.log_end_offset:
            raise Violation(
                f"broker {broker.id} has {len(records)} records in {key}, its log ends at {log.log_end_offset}"
            )
        for offset in range(_common(former, records), len(records)):
            self._check_name(broker, key, offset, records[offset], isinstance(role, LeaderReplica))
        committed = self.committed.setdefault(key, [])
        end = log.high_watermark
        if isinstance(role, LeaderReplica) and end > len(committed):
            committed += records[len(committed) : end]
        if end > len(committed) or records[:end] != committed[:end]:
            raise Violation(f"7: broker {broker.id} shows uncommitted or wrong records of {key} below {end}")

    def _check_name(self, broker: SimulatedBroker, key: PartitionKey, offset: int, record: Record, leads: bool) -> None:
        epoch = record[0]
        if self._names.setdefault((key, epoch, offset), record) != record:
            raise Violation(f"3: epoch {epoch} and offset {offset} of {key} name two records")
        if leads and self._appenders.setdefault((key, epoch), broker.id) != broker.id:
            raise Violation(
                f"10: brokers {self._appenders[key, epoch]} and {broker.id} append to {key} in epoch {epoch}"
            )

    def _check_fetchers(self, broker: SimulatedBroker) -> None:
        role = broker.role
        assert role is not None
        fetchers = [key for fetcher in role.replicas._fetchers.values() for key in fetcher.replicas.by_key]
        if len(set(fetchers)) != len(fetchers):
            raise Violation(f"6: broker {broker.id} has several fetchers for a partition")
        for replica in self._cluster.replicas_of(broker):
            if isinstance(replica.role, LeaderReplica) and replica.key in fetchers:
                raise Violation(f"6: broker {broker.id} leads {replica.key} and fetches")

    # partitions

    def _check_partition(self, key: PartitionKey) -> None:
        state = self._states.get(key)
        if state is None or not state.is_stored:
            return
        committed = self.committed.get(key, [])
        for member in (*state.isr, *self._cluster.stored.eligible(key)):
            if member in self._cluster.lossy:
                continue
            log = self.log_of(self._cluster.brokers[member], key)
            if log.records[: len(committed)] != committed:
                raise Violation(
                    f"2: broker {member} is in the ISR of {key} and has not all {len(committed)} committed records"
                )
        if state.leader != NO_LEADER:
            self._check_leader(key, state)

    def _check_leader(self, key: PartitionKey, state: PartitionState) -> None:
        broker = self._cluster.brokers[state.leader]
        for replica in self._cluster.replicas_of(broker):
            role = replica.role
            if replica.key != key or not isinstance(role, LeaderReplica) or role.leader_epoch != state.leader_epoch:
                continue
            if replica.log.log_end_offset < len(self.committed.get(key, ())):
                raise Violation(f"1: leader {broker.id} of {key} lacks committed records")
            if not set(state.isr) <= set(role.isr.maximal):
                raise Violation(
                    f"4: the ISR {state.isr} of {key} is stored, leader {broker.id} knows {role.isr.maximal}"
                )


def _common(one: list[Record], other: list[Record]) -> int:
    """Return the length of the common beginning."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    return next(index for index in range(length) if one[index] != other[index])
