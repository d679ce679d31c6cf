"""Copiers: each transaction has some records of one partition, copied to another topic, and their offset.

Two copiers with one transactional id fence each other. After any error a copier begins a new life: it gets a new
producer epoch, which aborts what was open, and reads its offsets again.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any, Final

from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import NO_LEADER, PartitionKey
from pylogbroker.records import Record, build
from pylogbroker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pylogbroker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from pylogbroker.wire.messages.fetch import PartitionData
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.cluster.replica_logs import LogRecord, records_in
from tests.replication.invariants import Violation
from tests.simulation.clients import GROUP_COORDINATOR, TRANSACTION_COORDINATOR, Client, Failed, ProducerIdentity
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.groups import fetch_offsets
from tests.simulation.setup import COPIES, TOPIC

COPIERS: Final = "copiers"
_TRANSACTIONAL_ID: Final = "copy"
_TIMEOUT_MS: Final = 1500
_RECORDS_MAX: Final = 20
_ABORTED_SHARE: Final = 0.2
_ATTEMPTS_MAX: Final = 10
_FENCED_SECONDS_MAX: Final = 3.0
_FENCED: Final = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH))
_TRANSIENT: Final = frozenset(
    (*_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.REQUEST_TIMED_OUT)
)
_VERSION_OF_CLIENTS: Final = 3  # of AddPartitionsToTxn
_PRODUCE_V2: Final = 12
_OFFSETS_V2: Final = 5
_END_V2: Final = 5
_MARKER_TYPE: Final = Struct(">2xh")  # behind the version: 0 aborts, 1 commits


class Copier(Client):
    def __init__(self, cluster: SimulatedCluster, number: int) -> None:
        super().__init__(cluster, number)
        self.commits = 0
        self._identity: ProducerIdentity | None = None
        self._positions: dict[PartitionKey, int] = {}
        self._sequences: dict[PartitionKey, int] = {}
        self._is_v2 = cluster.setup.transactions_v2

    async def act(self) -> None:
        try:
            if self._identity is None:
                self._identity = await self._begin_life()
            for index in range(self.cluster.setup.partitions):
                await self._copy(self._identity, (TOPIC, index))  # which may change the identity
        except Violation:
            raise
        except Failed as error:
            self._end_life(error.code)
            if error.code in _FENCED:  # the other copier is at work
                await self.pause(self.rng.random() * _FENCED_SECONDS_MAX)
        except Exception:  # no answer
            self._end_life()

    def _end_life(self, why: ErrorCode | None = None) -> None:
        self._identity = None
        if why in _TRANSIENT:
            return
        self.forget_coordinator(TRANSACTION_COORDINATOR, _TRANSACTIONAL_ID)
        self.forget_coordinator(GROUP_COORDINATOR, COPIERS)
        for index in range(self.cluster.setup.partitions):
            self.forget_leader((TOPIC, index))
            self.forget_leader((COPIES, index))

    async def _begin_life(self) -> ProducerIdentity:
        found = await self._ask_coordinator(InitProducerIdRequest(_TRANSACTIONAL_ID, _TIMEOUT_MS))
        self._sequences = {}
        keys = [(TOPIC, index) for index in range(self.cluster.setup.partitions)]
        committed = await fetch_offsets(self, COPIERS, keys, stable=True)
        self._positions = {(TOPIC, index): max(offset, 0) for index, offset in committed.items()}
        return ProducerIdentity(found.producer_id, found.producer_epoch)

    async def _copy(self, identity: ProducerIdentity, key: PartitionKey) -> None:
        position = self._positions[key]
        records = (await self._read(key, position))[:_RECORDS_MAX]
        if not records:
            return
        target = (COPIES, key[1])
        if not self._is_v2:
            await self._add_partition(identity, target)
        await self._produce(identity, target, [record.value or b"" for record in records])
        await self._commit_offset(identity, key, position + len(records))
        committed = self.rng.random() >= _ABORTED_SHARE
        await self._end(identity, committed)
        if committed:
            self._positions[key] = position + len(records)
            self.commits += 1

    async def _end(self, identity: ProducerIdentity, committed: bool) -> None:
        """End a transaction; in transactions v2 the next one has another identity."""
        request = EndTxnRequest(_TRANSACTIONAL_ID, identity.id, identity.epoch, committed)
        answer = await self._ask_coordinator(request, _END_V2 if self._is_v2 else None)
        if self._is_v2:
            self._identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
            self._sequences = {}

    async def _read(self, key: PartitionKey, position: int) -> list[LogRecord]:
        leader = await self._known_leader(key)
        answer = await self.fetch(leader, key, position)
        if answer is None:
            raise Failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return [record for record in records_in(bytes(answer.records or b"")) if record.offset >= position]

    async def _known_leader(self, key: PartitionKey) -> int:
        leader = await self.leader_of(key)
        if leader == NO_LEADER:
            raise Failed(ErrorCode.LEADER_NOT_AVAILABLE)
        return leader

    async def _add_partition(self, identity: ProducerIdentity, target: PartitionKey) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=_TRANSACTIONAL_ID,
            v3_and_below_producer_id=identity.id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(target[0], [target[1]])],
        )
        coordinator = await self.coordinator_of(TRANSACTION_COORDINATOR, _TRANSACTIONAL_ID)
        for _ in range(_ATTEMPTS_MAX):
            response = await self.ask(coordinator, request, _VERSION_OF_CLIENTS)
            [added] = response.results_by_topic_v3_and_below[0].results_by_partition
            if added.partition_error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            await self.pause(0.05)  # the last transaction's markers are being written
        self.check(added.partition_error_code)

    async def _produce(self, identity: ProducerIdentity, target: PartitionKey, values: list[bytes]) -> None:
        leader = await self._known_leader(target)
        now_ms = int(self.cluster.world.now * 1000)
        sequence = self._sequences.get(target, 0)
        batch = build(
            [Record(index, now_ms, None, value) for index, value in enumerate(values)],
            producer_id=identity.id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = TopicProduceData(target[0], [PartitionProduceData(target[1], batch)])
        request = ProduceRequest(transactional_id=_TRANSACTIONAL_ID, acks=-1, timeout_ms=2000, topic_data=[data])
        for _ in range(_ATTEMPTS_MAX):
            response = await self.ask(leader, request, _PRODUCE_V2 if self._is_v2 else None)
            [answer] = response.responses[0].partition_responses
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            await self.pause(0.05)
        self.check(answer.error_code)
        self._sequences[target] = sequence + len(values)

    async def _commit_offset(self, identity: ProducerIdentity, key: PartitionKey, offset: int) -> None:
        if not self._is_v2:
            added = AddOffsetsToTxnRequest(_TRANSACTIONAL_ID, identity.id, identity.epoch, COPIERS)
            await self._ask_coordinator(added)
        partition = TxnOffsetCommitRequestPartition(key[1], offset)
        request = TxnOffsetCommitRequest(
            _TRANSACTIONAL_ID,
            COPIERS,
            identity.id,
            identity.epoch,
            topics=[TxnOffsetCommitRequestTopic(key[0], [partition])],
        )
        version = _OFFSETS_V2 if self._is_v2 else None
        response = await self.ask(await self.coordinator_of(GROUP_COORDINATOR, COPIERS), request, version)
        self.check(response.topics[0].partitions[0].error_code)

    async def _ask_coordinator(self, request: Any, version: int | None = None) -> Any:
        """Return an answer without an error."""
        coordinator = await self.coordinator_of(TRANSACTION_COORDINATOR, _TRANSACTIONAL_ID)
        response = await self.ask(coordinator, request, version)
        self.check(response.error_code)
        return response


class CopyReader(Client):
    """Compares the committed copies with their source once all is at rest."""

    def __init__(self, cluster: SimulatedCluster, number: int) -> None:
        super().__init__(cluster, number)
        self.copied = 0

    async def act(self) -> None:
        keys = [(TOPIC, index) for index in range(self.cluster.setup.partitions)]
        try:
            committed = await fetch_offsets(self, COPIERS, keys, stable=True)
            for key in keys:
                source = await self._values(key)
                copies = await self._values((COPIES, key[1]))
                offset = max(committed[key[1]], 0)
                if copies != source[:offset]:
                    raise Violation(f"12: {offset} records of {key} are copied, the copies are {copies}")
                self.copied += offset
        except Violation:
            raise
        except Exception:
            self.forget_coordinator(GROUP_COORDINATOR, COPIERS)
            return
        self.stop()

    async def _values(self, key: PartitionKey) -> list[bytes]:
        """Return the values of all committed records."""
        values: list[bytes] = []
        position = 0
        while True:
            answer = await self.fetch(await self.leader_of(key), key, position, committed=True)
            if answer is None:
                raise Failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            records = list(records_in(bytes(answer.records or b"")))
            if not records:
                return values
            values += _committed(answer, records)
            position = records[-1].offset + 1


def committed_values(records: Iterable[LogRecord]) -> dict[int, bytes]:
    """Return the values of committed records by offset, as the markers in the log decide."""
    values: dict[int, bytes] = {}
    pending: dict[int, dict[int, bytes]] = {}
    for record in records:
        if record.is_control:
            written = pending.pop(record.producer_id, {})
            if _MARKER_TYPE.unpack(record.key or b"")[0]:
                values |= written
        else:
            pending.setdefault(record.producer_id, {})[record.offset] = record.value or b""
    return values


def _committed(answer: PartitionData, records: list[LogRecord]) -> list[bytes]:
    """Return the values without those of aborted transactions, each of which ends with its producer's next marker."""
    starts = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
    aborted: set[int] = set()
    values = []
    for record in records:
        while starts and starts[0][0] <= record.offset:
            aborted.add(starts.pop(0)[1])
        if record.is_control:
            aborted.discard(record.producer_id)
        elif record.producer_id not in aborted:
            values.append(record.value or b"")
    return values
