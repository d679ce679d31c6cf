"""A share group: members acquire records at the leaders of partitions, and accept, release, reject or renew them.

Some members die without a word. Members drop what they have acquired when their session ends, or the leader changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import NO_LEADER, PartitionKey
from pylogbroker.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from pylogbroker.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pylogbroker.wire.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pylogbroker.wire.messages.share_fetch import (
    AcknowledgementBatch,
    ForgottenShareTopic,
    ShareFetchPartition,
    ShareFetchPartitionData,
    ShareFetchRequest,
    ShareFetchTopic,
)
from pylogbroker.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.cluster.replica_logs import LogRecord, records_in
from tests.replication.invariants import Violation
from tests.simulation.clients import GROUP_COORDINATOR, Client, Failed
from tests.simulation.cluster import Leadership, SimulatedCluster
from tests.simulation.groups import COORDINATOR_MOVED
from tests.simulation.setup import LETTERS, SHARE_GROUP
from tests.simulation.share_ledger import ACCEPT, REJECT, RELEASE, RENEW, Delivery, MemberSession, ShareLedger

_HEARTBEAT_VERSION: Final = 1
_SHARE_VERSION: Final = 2
_OFFSETS_VERSION: Final = 1
_JOINING: Final = 0
_LEAVING: Final = -1
_FINAL_EPOCH: Final = -1
_LEAVES: Final = 0.05
_DIES: Final = 0.05
"""Shares of its turns in which a member leaves, or dies."""
_RESETS: Final = 0.05
"""Share of turns in which the only member sets where the group begins."""
_IDLE: Final = 0.1
"""Share of turns in which a member keeps what it has acquired."""
_RESET_SECONDS: Final = 0.2
_WAIT_MS: Final = 100
_BYTES_MAX: Final = 1 << 20
_EXPELLED: Final = frozenset((ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND))
_EXPECTED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
"""Errors of partitions under faults."""
Acknowledgements = Mapping[PartitionKey, list[tuple[Delivery, int]]]


@attrs.frozen
class _Sent:
    """Time of a request, and who led the partitions then."""

    at: float
    leaders: Mapping[PartitionKey, Leadership | None]


class ShareMember(Client):
    resets_offsets = True
    """Whether it does so with `share_resets`."""

    def __init__(self, cluster: SimulatedCluster, number: int, ledger: ShareLedger) -> None:
        super().__init__(cluster, number)
        self._ledger = ledger
        self._topic = cluster.setup.shared_topic
        self._lives = 1
        self._epoch = _JOINING
        self._topic_id = UUID(int=0)
        self._assigned: list[PartitionKey] = []
        self._sessions: dict[int, MemberSession] = {}
        self._fetched: dict[int, set[PartitionKey]] = {}
        self._held: dict[int, list[Delivery]] = {}

    @property
    def _member(self) -> str:
        return f"{self.name}.{self._lives}"

    async def act(self) -> None:
        if self.rng.random() < _DIES:
            self.die()
        if self.resets_offsets and self.cluster.setup.share_resets and self.rng.random() < _RESETS:
            await self._reset_offsets()
        try:
            if self._epoch != _JOINING and self.rng.random() < _LEAVES:
                await self._leave()
            await self._beat()
        except Failed as error:
            self.forget_coordinator(GROUP_COORDINATOR, SHARE_GROUP)
            if error.code in _EXPELLED:
                self._epoch = _JOINING
            elif error.code not in COORDINATOR_MOVED | _EXPECTED:
                raise
        except Exception:  # no answer
            self.forget_coordinator(GROUP_COORDINATOR, SHARE_GROUP)
        await self._work()

    async def _run(self) -> None:
        await super()._run()
        self._reset_all()

    def die(self) -> None:
        """Lose all connections; live on as another member."""
        self._reset_all()
        self._lives += 1
        self._epoch = _JOINING
        self._assigned = []

    def _reset_all(self) -> None:
        self._sessions.clear()
        self._fetched.clear()
        self._held.clear()
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()

    async def _reset_offsets(self) -> None:
        """Let the group begin elsewhere in a partition, once it has no member any more; try until that is answered."""
        self.die()
        key = self._topic, self.rng.randrange(self.cluster.setup.partitions)
        start = self.rng.randint(0, self._ledger.end_of(key))
        topic = AlterShareGroupOffsetsRequestTopic(self._topic, [AlterShareGroupOffsetsRequestPartition(key[1], start)])
        while True:
            try:
                coordinator = await self.coordinator_of(GROUP_COORDINATOR, SHARE_GROUP)
                answer = await self.ask(coordinator, AlterShareGroupOffsetsRequest(SHARE_GROUP, [topic]), 0)
                self.check(answer.error_code)
                for partition in _partitions(answer):
                    self.check(partition.error_code)
                break
            except Exception:  # an error, or no answer
                self.forget_coordinator(GROUP_COORDINATOR, SHARE_GROUP)
                await self.pause(_RESET_SECONDS)
        self._ledger.reset(key, start)

    # -- membership --------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        request = ShareGroupHeartbeatRequest(
            SHARE_GROUP, self._member, self._epoch, subscribed_topic_names=[self._topic]
        )
        coordinator = await self.coordinator_of(GROUP_COORDINATOR, SHARE_GROUP)
        answer = await self.ask(coordinator, request, _HEARTBEAT_VERSION)
        self.check(answer.error_code)
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self._topic_id = next((topic.topic_id for topic in topics), self._topic_id)
            self._assigned = [(self._topic, index) for topic in topics for index in topic.partitions]

    async def _leave(self) -> None:
        """End the sessions in an orderly way, and leave the group."""
        for broker in list(self._sessions):
            await self._acknowledge(broker, is_last=True)
        request = ShareGroupHeartbeatRequest(SHARE_GROUP, self._member, _LEAVING)
        self._epoch = _JOINING
        self._assigned = []
        coordinator = await self.coordinator_of(GROUP_COORDINATOR, SHARE_GROUP)
        self.check((await self.ask(coordinator, request, _HEARTBEAT_VERSION)).error_code)

    # -- records -----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        by_leader: dict[int, set[PartitionKey]] = {broker: set() for broker in self._sessions}
        for key in self._assigned:
            leader = await self.leader_of(key)
            if leader != NO_LEADER:
                by_leader.setdefault(leader, set()).add(key)
        for broker, keys in by_leader.items():
            if self.rng.random() < _IDLE:
                continue
            if self._held.get(broker) and self.rng.random() < 0.5:
                await self._acknowledge(broker)
            await self._fetch(broker, keys)

    def kind_of(self, delivery: Delivery) -> int:
        """Choose what becomes of a record."""
        return self.rng.choice((ACCEPT, ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT))

    def _choose(self, broker: int) -> Acknowledgements:
        """Acknowledge some of the records that are held, in order."""
        chosen: dict[PartitionKey, list[tuple[Delivery, int]]] = {}
        kept = []
        for delivery in sorted(self._held.pop(broker, []), key=lambda held: held.record):
            if self.rng.random() < _IDLE:
                kept.append(delivery)
                continue
            kind = self.kind_of(delivery)
            self._ledger.acknowledging(delivery, kind)
            chosen.setdefault(delivery.record[0], []).append((delivery, kind))
        if kept:
            self._held[broker] = kept
        return chosen

    async def _fetch(self, broker: int, keys: set[PartitionKey]) -> None:
        session = self._sessions.get(broker)
        if session is None:
            if not keys:
                return
            session = self._sessions[broker] = MemberSession(self._member, broker)
        former = self._fetched.get(broker, set())
        chosen = self._choose(broker) if session.epoch else {}
        request = ShareFetchRequest(
            SHARE_GROUP,
            self._member,
            session.epoch,
            _WAIT_MS,
            min_bytes=1,
            max_bytes=_BYTES_MAX,
            max_records=self.rng.choice((1, 3, 10)),
            batch_size=self.rng.choice((1, 10)),
            share_acquire_mode=self.rng.choice((0, 1)),
        )
        request.topics = self._topics((keys - former) | chosen.keys(), chosen, ShareFetchTopic, ShareFetchPartition)
        if gone := former - keys:
            request.forgotten_topics_data = [ForgottenShareTopic(self._topic_id, sorted(index for _, index in gone))]
        self._fetched[broker] = set(keys)
        asked_for = keys | former | chosen.keys()
        sent = _Sent(self.cluster.world.now, {key: self.cluster.leadership(broker, key) for key in asked_for})
        answer = await self._ask_in_session(session, request)
        if answer is None:
            return
        for topic in answer.responses:
            for partition in topic.partitions:
                key = self._topic, partition.partition_index
                self._settle(chosen.get(key, ()), partition.acknowledge_error_code)
                self._take(session, key, partition, sent)
        for key in chosen.keys() - {(self._topic, partition.partition_index) for partition in _partitions(answer)}:
            raise Violation(f"18: acknowledgements of {key} are not answered")

    async def _acknowledge(self, broker: int, *, is_last: bool = False) -> None:
        """Acknowledge what is held; renew the locks of some."""
        session = self._sessions.get(broker)
        if session is None or not session.epoch:
            return
        is_renewal = not is_last and self.rng.random() < 0.2
        chosen = self._renewals(broker) if is_renewal else self._choose(broker)
        if not chosen and not is_last:
            return
        if is_last:
            session.epoch = _FINAL_EPOCH
        request = ShareAcknowledgeRequest(SHARE_GROUP, self._member, session.epoch, is_renewal)
        request.topics = self._topics(chosen, chosen, AcknowledgeTopic, AcknowledgePartition)
        sent_at = self.cluster.world.now
        answer = await self._ask_in_session(session, request)
        if is_last:
            self._end(session)
        if answer is None:
            return
        for partition in _partitions(answer):
            key = self._topic, partition.partition_index
            if is_renewal:
                self._renewed(broker, [delivery for delivery, _ in chosen[key]], partition.error_code, sent_at)
            else:
                self._settle(chosen[key], partition.error_code)

    def _renewals(self, broker: int) -> Acknowledgements:
        chosen: dict[PartitionKey, list[tuple[Delivery, int]]] = {}
        for delivery in sorted(self._held.pop(broker, []), key=lambda held: held.record):
            delivery.is_settled = True  # until the answer
            chosen.setdefault(delivery.record[0], []).append((delivery, RENEW))
        return chosen

    def _renewed(self, broker: int, deliveries: Iterable[Delivery], error_code: int, sent_at: float) -> None:
        for delivery in deliveries:
            if not error_code:
                delivery.is_settled = False
                delivery.locked_until = sent_at + self.cluster.setup.share_lock_ms / 1000
                self._held.setdefault(broker, []).append(delivery)

    def _topics(
        self, keys: Iterable[PartitionKey], chosen: Acknowledgements, topic_type: Any, partition_type: Any
    ) -> list[Any]:
        partitions = [
            partition_type(
                key[1],
                [AcknowledgementBatch(delivery.record[1], delivery.record[1], [kind]) for delivery, kind in some],
            )
            for key in sorted(keys)
            for some in [chosen.get(key, [])]
        ]
        return [topic_type(self._topic_id, partitions)] if partitions else []

    async def _ask_in_session(self, session: MemberSession, request: Any) -> Any:
        """Return the answer; None after an error, which ends the session."""
        sent_at = self.cluster.world.now
        answer = await self.try_to_ask(session.broker, request, _SHARE_VERSION)
        if answer is None or answer.error_code:
            self._end(session)
            return None
        session.went_on(sent_at)
        session.epoch += session.epoch >= 0
        return answer

    def _end(self, session: MemberSession) -> None:
        if self._sessions.get(session.broker) is session:
            del self._sessions[session.broker]
            self._fetched.pop(session.broker, None)
            self._held.pop(session.broker, None)

    def _settle(self, chosen: Iterable[tuple[Delivery, int]], error_code: int) -> None:
        if error_code and ErrorCode(error_code) not in _EXPECTED | {ErrorCode.INVALID_RECORD_STATE}:
            raise Violation(f"18: an acknowledgement got {ErrorCode(error_code).name}")
        for delivery, kind in chosen:
            if not error_code:
                self._ledger.acknowledge(delivery, kind)

    def _take(self, session: MemberSession, key: PartitionKey, partition: ShareFetchPartitionData, sent: _Sent) -> None:
        """Take over the records that were acquired; drop those of a leader that is none."""
        broker = session.broker
        if partition.error_code:
            if ErrorCode(partition.error_code) not in _EXPECTED:
                raise Violation(f"18: a share fetch of {key} got {ErrorCode(partition.error_code).name}")
            self.forget_leader(key)
            self._held[broker] = [held for held in self._held.get(broker, []) if held.record[0] != key]
            return
        if not partition.acquired_records:
            return
        now = self.cluster.world.now
        present = {record.offset for record in records_in(bytes(partition.records))}
        led_after = self.cluster.leadership(broker, key)
        again = {
            (key, offset)
            for acquired in partition.acquired_records
            for offset in range(acquired.first_offset, acquired.last_offset + 1)
        }
        self._held[broker] = [held for held in self._held.get(broker, []) if held.record not in again]
        for acquired in partition.acquired_records:
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                if offset not in present:
                    raise Violation(f"20: {key} at {offset} is acquired, and its record is not there")
                locked_until = sent.at + self.cluster.setup.share_lock_ms / 1000
                record, led_before = (key, offset), sent.leaders.get(key)
                delivery = Delivery(
                    record, acquired.delivery_count, session, sent.at, now, locked_until, led_before, led_after
                )
                self._ledger.deliver(delivery)
                self._held[broker].append(delivery)


def _partitions(answer: Any) -> list[Any]:
    return [partition for topic in answer.responses for partition in topic.partitions]


class LastShareMember(ShareMember):
    """Accepts all that is left once all is at rest, until the group has finished each record."""

    resets_offsets = False  # the group would come to no end

    def __init__(
        self,
        cluster: SimulatedCluster,
        number: int,
        ledger: ShareLedger,
        values: Mapping[PartitionKey, Mapping[int, bytes]],
        ends: Mapping[PartitionKey, int],
    ) -> None:
        super().__init__(cluster, number, ledger)
        self._values, self._ends = values, ends

    def kind_of(self, delivery: Delivery) -> int:
        return ACCEPT

    async def act(self) -> None:
        await super().act()
        try:
            is_finished = await self._has_finished()
            letters = await self._letters() if is_finished else []
        except Exception:  # an error, or no answer
            self.forget_coordinator(GROUP_COORDINATOR, SHARE_GROUP)
            return
        if is_finished:
            self._ledger.check_finished(letters, self._values)
            self.stop()

    async def _has_finished(self) -> bool:
        """Return whether the group's start offsets are the ends of the partitions."""
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(SHARE_GROUP, None)])
        coordinator = await self.coordinator_of(GROUP_COORDINATOR, SHARE_GROUP)
        answer = await self.try_to_ask(coordinator, request, _OFFSETS_VERSION)
        if answer is None:
            raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        [group] = answer.groups
        self.check(group.error_code)
        starts = {
            (topic.topic_name, partition.partition_index): (partition.start_offset, partition.lag)
            for topic in group.topics
            for partition in topic.partitions
        }
        return starts == {key: (end, 0) for key, end in self._ends.items()}

    async def _letters(self) -> list[LogRecord]:
        key, letters = (LETTERS, 0), []
        while True:
            answer = await self.fetch(await self.leader_of(key), key, len(letters))
            if answer is None:
                self.forget_leader(key)
                raise Failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            records = [record for record in records_in(bytes(answer.records or b"")) if record.offset >= len(letters)]
            if not records:
                return letters
            letters += records
