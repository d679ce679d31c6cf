"""Harness of a group coordinator: its own clock, a log port that can be held back, and short requests."""

import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

from pylogbroker.assignors.group import BUILT_IN
from pylogbroker.coordinators import AppendCallback, ProducerIdAndEpoch
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import (
    Commit,
    CommitResult,
    CommittedOffset,
    GroupCoordinator,
    GroupSettings,
    Heartbeat,
    Join,
    JoinResult,
    Leaving,
    ReplayedGroups,
    Sync,
    SyncResult,
    TransactionalCommit,
)
from pylogbroker.groups.consumer.port import NO_TOPICS, GroupPort
from pylogbroker.groups.shard import GroupShard
from pylogbroker.groups.share.port import NO_SHARES, SharePort
from pylogbroker.groups.streams.port import NO_STREAMS, StreamsPort
from pylogbroker.long_loops import at_once
from pylogbroker.records import Record, build, entries
from tests.coordinators.harness import Answer, RuntimeHarness

SETTINGS = GroupSettings(initial_rebalance_delay_ms=0, partitions=4)  # each partition is swept: few make days short
SESSION = 10_000
PRODUCER = 70
REBALANCE = 60_000


class FakeLogPort:
    """Keeps records in lists. `hold` delays the reports until `release`; `error` makes appends fail.

    With `failing_now` appends fail at once, also while others are held: too few replicas are in sync for them.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.logs: dict[int, list[Record]] = defaultdict(list)
        self.batches: dict[int, list[bytes]] = defaultdict(list)
        self.error = ErrorCode.NONE
        self.held: list[Callable[[], None]] | None = None
        self._clock = clock

    def append(
        self,
        partition: int,
        records: Collection[Record],
        done: AppendCallback,
        producer: ProducerIdAndEpoch | None = None,
        on_disk: bool = False,
    ) -> None:
        def report() -> None:
            if not self.error:
                base = len(self.logs[partition])
                stored = [
                    Record(base + index, record.timestamp, record.key, record.value)
                    for index, record in enumerate(records)
                ]
                self.logs[partition] += stored
                self.batches[partition].append(build(stored, base_offset=base, **_transaction(producer)))
            done(self.error, self._clock())

        if self.held is None:
            report()
        else:
            self.held.append(report)

    def append_unreplicated(self, partition: int, records: Collection[Record]) -> None:
        self.append(partition, records, lambda error, done_ms: None)

    def end_transaction(self, partition: int, producer_id: int, committed: bool) -> None:
        """Write a marker, as Kafka does: version 0 and the type, version 0 and the coordinator's epoch."""
        marker = Record(0, self._clock(), bytes([0, 0, 0, committed]), bytes(6))
        self.batches[partition].append(
            build(
                [marker],
                base_offset=len(self.logs[partition]),
                control=True,
                **_transaction(ProducerIdAndEpoch(producer_id, 0)),
            )
        )
        self.logs[partition].append(marker)

    def hold(self) -> None:
        self.held = []

    @contextmanager
    def failing_now(self, error: ErrorCode) -> Iterator[None]:
        held, self.held, self.error = self.held, None, error
        yield
        self.held, self.error = held, ErrorCode.NONE

    def release(self) -> None:
        """Store what is held, and what that causes, in the order of the appends."""
        while self.held:
            self.held.pop(0)()
        self.held = None


def _transaction(producer: ProducerIdAndEpoch | None) -> dict[str, Any]:
    if producer is None:
        return {}
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "base_sequence": 0,
        "transactional": True,
    }


class Harness(RuntimeHarness[ReplayedGroups, GroupShard]):
    """A coordinator of all partitions, and the time."""

    def __init__(
        self,
        settings: GroupSettings = SETTINGS,
        loaded: bool = True,
        ids: Iterator[int] | None = None,
        port: GroupPort = NO_TOPICS,
        share_port: SharePort = NO_SHARES,
        streams_port: StreamsPort = NO_STREAMS,
    ) -> None:
        self.log_port = FakeLogPort(lambda: self.now)
        self.ids = ids = ids or count(1)
        self.woken: list[int] = []
        self.coordinator = GroupCoordinator(
            settings,
            self.log_port,
            lambda: f"id{next(ids)}",
            port=port,
            share_port=share_port,
            make_streams_port=lambda: streams_port,
            assignors=BUILT_IN,
        )
        super().__init__(self.coordinator.runtime)
        self.runtime.watch_deadlines(self.woken.append)
        if loaded:
            self.load_all()

    def restarted(self, settings: GroupSettings | None = None) -> "Harness":
        """Another coordinator that has loaded what this one has written."""
        other = Harness(settings or self.coordinator.settings, loaded=False, ids=self.ids)
        other.now = self.now
        for partition in range(self.coordinator.settings.partitions):
            log = b"".join(self.log_port.batches[partition])
            other.load(partition, entries(log))
        return other

    def records(self, group_id: str = "g") -> list[Record]:
        return self.log_port.logs[self.coordinator.partition_for(group_id)]

    def join(
        self,
        member_id: str = "",
        group_id: str = "g",
        protocols: Mapping[str, bytes] | None = None,
        instance_id: str | None = None,
        session: int = SESSION,
        rebalance: int = REBALANCE,
        version: int = 3,
        protocol_type: str = "consumer",
    ) -> Answer[JoinResult]:
        answer: Answer[JoinResult] = Answer()
        join = Join(
            group_id,
            member_id,
            "client",
            "/127.0.0.1",
            session,
            rebalance,
            protocol_type,
            tuple(({"range": subscription("t")} if protocols is None else protocols).items()),
            instance_id,
            needs_known_id=version >= 4,
            can_skip_assignment=version >= 9,
        )
        self.coordinator.join(join, answer, self.now)
        return answer

    def sync(
        self, joined: JoinResult, assignments: Mapping[str, bytes] | None = None, **fields: object
    ) -> Answer[SyncResult]:
        answer: Answer[SyncResult] = Answer()
        sync = Sync("g", joined.generation, joined.member_id, assignments=assignments or {})
        for name, value in fields.items():
            object.__setattr__(sync, name, value)
        self.coordinator.sync(sync, answer, self.now)
        return answer

    def heartbeat(self, joined: JoinResult, instance_id: str | None = None, group_id: str = "g") -> ErrorCode:
        beat = Heartbeat(group_id, joined.generation, joined.member_id, instance_id)
        return self.coordinator.heartbeat(beat, self.now)

    def leave(self, member_id: str, instance_id: str | None = None) -> ErrorCode:
        (error,) = self.coordinator.leave("g", [Leaving(member_id, instance_id)], self.now).members
        return error

    def delete_partitions(self, partitions: Collection[tuple[str, int]]) -> None:
        at_once(self.coordinator.delete_partitions(partitions, self.now))

    def commit(
        self,
        offsets: Mapping[tuple[str, int], CommittedOffset | int],
        joined: JoinResult | None = None,
        group_id: str = "g",
    ) -> Answer[CommitResult]:
        answer: Answer[CommitResult] = Answer()
        full = self._full(offsets)
        generation, member_id = (joined.generation, joined.member_id) if joined else (-1, "")
        self.coordinator.commit(Commit(group_id, generation, member_id, full), answer, self.now)
        return answer

    def commit_in_transaction(
        self,
        offsets: Mapping[tuple[str, int], CommittedOffset | int],
        producer_id: int = PRODUCER,
        group_id: str = "g",
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
    ) -> Answer[CommitResult]:
        answer: Answer[CommitResult] = Answer()
        commit = TransactionalCommit(
            group_id, generation, member_id, self._full(offsets), instance_id, producer_id, producer_epoch=0
        )
        self.coordinator.commit_in_transaction(commit, answer, self.now)
        return answer

    def end_transaction(self, committed: bool, producer_id: int = PRODUCER, group_id: str = "g") -> None:
        """Write a marker into the group's partition, and notify the coordinator."""
        partition = self.coordinator.partition_for(group_id)
        self.log_port.end_transaction(partition, producer_id, committed)
        self.coordinator.end_transaction(partition, producer_id, committed)

    def stable_offset(self, topic: str = "t", partition: int = 0, group_id: str = "g") -> int | ErrorCode | None:
        """Return what a consumer of committed records gets."""
        found = self.coordinator.fetch(group_id, [(topic, partition)], require_stable=True).offsets[topic, partition]
        return found.offset if isinstance(found, CommittedOffset) else found

    def _full(self, offsets: Mapping[tuple[str, int], CommittedOffset | int]) -> dict[tuple[str, int], CommittedOffset]:
        return {
            partition: CommittedOffset(offset, committed=self.now) if isinstance(offset, int) else offset
            for partition, offset in offsets.items()
        }

    def offset(self, topic: str = "t", partition: int = 0, group_id: str = "g") -> int | None:
        found = self.coordinator.fetch(group_id, [(topic, partition)]).offsets[topic, partition]
        assert found is None or isinstance(found, CommittedOffset)
        return None if found is None else found.offset

    def state(self, group_id: str = "g") -> str:
        return self.coordinator.describe(group_id).state

    def stable(self, members: int = 1, **terms: object) -> list[JoinResult]:
        """A stable group of so many dynamic members, the leader first; each one's assignment is its own id."""
        waiting = [self.join(**terms) for _ in range(members)]  # type: ignore[arg-type]
        self.advance(self.coordinator.settings.initial_rebalance_delay_ms)
        results = sorted((answer.value for answer in waiting), key=lambda result: result.member_id != result.leader)
        assignments = {result.member_id: result.member_id.encode() for result in results}
        syncs = [self.sync(result, assignments if result.member_id == result.leader else None) for result in results]
        assert [answer.value.error for answer in syncs] == [ErrorCode.NONE] * members
        assert self.state() == "Stable"
        return results


def subscription(*topics: str) -> bytes:
    """A consumer's subscription, version 0: the topics and no user data."""
    listed = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + listed + struct.pack(">i", -1)
