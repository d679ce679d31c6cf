"""Random work of a share group on whole brokers, beside a model of what members may see (KIP-932).

    one_owner               a record is acquired by one member at a time, unless its leader has changed
    never_again             an acknowledged record is never delivered again, also after a restart and elections
    limit                   no record is delivered more often than the limit
    everything_in_the_end   what is not acknowledged is delivered in the end

An acknowledgement that fails may have been stored: its record may be delivered again or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Protocol
from uuid import UUID

import attrs
import pytest
from twisted.internet.defer import Deferred

from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.delta import ConfigChanged, Delta
from pylogbroker.metadata.image import group_resource
from tests.broker.members import Members, opened_members
from tests.broker.nodes import Node, opened_node
from tests.broker.share_members import ACCEPT, REJECT, RELEASE, ShareMember, offsets
from tests.broker.trees import now

LOCK_SECONDS = 15
DELIVERIES_MAX = 4
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
}
GROUP = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": str(LOCK_SECONDS * 1000),
    "share.delivery.count.limit": str(DELIVERIES_MAX),
    "share.partition.max.record.locks": "100",
}
NAMES = ("anna", "berta", "carla")


def set_group(node: Node) -> None:
    now(node.broker.metadata.publish(Delta.of(ConfigChanged(group_resource("g"), GROUP))))


class Cluster(Protocol):
    """Brokers with a topic "t" of one partition; `leader` has it now."""

    @property
    def leader(self) -> Node: ...
    def result(self, waiting: Deferred[Any]) -> Any: ...
    def advance(self, seconds: float) -> None: ...
    def disturb(self, random: Random) -> bool:
        """Restart, or elect; return whether the leader of "t" has lost what it had in memory."""


@attrs.define
class OneBroker:
    directory: str
    stack: ExitStack = attrs.field(factory=ExitStack)
    leader: Node = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._open()
        self.leader.create("t")

    def _open(self) -> None:
        self.leader = self.stack.enter_context(opened_node((self.directory,), SETTINGS))
        set_group(self.leader)

    def result(self, waiting: Deferred[Any]) -> Any:
        results: list[Any] = []
        waiting.addBoth(results.append)
        for _ in range(200):
            if results:
                break
            self.leader.clock.advance(0.01)
        [result] = results
        return result

    def advance(self, seconds: float) -> None:
        self.leader.clock.advance(seconds)

    def disturb(self, random: Random) -> bool:
        elapsed = self.leader.clock.seconds()
        self.stack.close()
        self._open()
        self.leader.clock.advance(elapsed - self.leader.clock.seconds())
        return True


@attrs.define
class TwoBrokers:
    cluster: Members
    leader_id: int = 1

    @property
    def leader(self) -> Node:
        return self.cluster[self.leader_id]

    def result(self, waiting: Deferred[Any]) -> Any:
        return self.cluster.result(waiting, 20)

    def advance(self, seconds: float) -> None:
        self.cluster.run(seconds)

    def disturb(self, random: Random) -> bool:
        if random.random() < 0.5:
            self.cluster.lead("__share_group_state", random.randrange(2), random.choice((1, 2)))
            self.cluster.run(0.1)
            return False
        self.leader_id = 3 - self.leader_id
        self.cluster.lead("t", 0, self.leader_id)
        self.cluster.run(0.1)
        return True


@attrs.define
class Model:
    cluster: Cluster
    random: Random
    clock: float = 0
    produced: int = 0
    members: dict[str, ShareMember] = attrs.field(factory=dict)
    held: dict[int, tuple[str, float]] = attrs.field(factory=dict)  # member, and when its lock ends
    acknowledged: set[int] = attrs.field(factory=set)
    unknown: set[int] = attrs.field(factory=set)  # acknowledgements failed
    deliveries: dict[int, int] = attrs.field(factory=dict)

    @property
    def partition(self) -> tuple[UUID, int]:
        return self.cluster.leader.broker.metadata.topics["t"].id, 0

    def member(self) -> ShareMember:
        name = self.random.choice(NAMES)
        if name not in self.members:
            self.members[name] = ShareMember(self.cluster.leader, name, records_max=self.random.choice((1, 3, 50)))
        member = self.members[name]
        member.is_exact = self.random.random() < 0.5
        return member

    # -- steps -------------------------------------------------------------------------------------------------------

    def produce(self) -> None:
        count = self.random.randint(1, 6)
        self.cluster.leader.produce("t", 0, *[1000] * count)
        self.produced += count
        log = self.cluster.leader.broker.partitions.find("t", 0).log
        for _ in range(50):  # else an election may lose records
            if log.high_watermark == self.produced:
                return
            self.advance(0.1)
        raise AssertionError("the follower does not follow")

    def fetch(self) -> None:
        self.deliver(self.member())

    def deliver(self, member: ShareMember) -> list[int]:
        added = (self.partition,) if not member.epoch else ()
        response = self.cluster.result(member.fetch_later(*added, wait_ms=1000))
        if response.error_code:
            self.forget(member.name)
            return []
        errors = {partition.error_code for topic in response.responses for partition in topic.partitions}
        assert errors <= {ErrorCode.NONE}, errors
        delivered = offsets(response)
        counts = {
            offset: acquired.delivery_count
            for topic in response.responses
            for partition in topic.partitions
            for acquired in partition.acquired_records
            for offset in range(acquired.first_offset, acquired.last_offset + 1)
        }
        for offset in delivered:
            assert offset not in self.acknowledged, f"never_again: {offset}"
            owner = self.held.get(offset)
            assert owner is None or owner[1] <= self.now + 0.002, f"one_owner: {offset} is held by {owner}"
            self.held[offset] = member.name, self.now + LOCK_SECONDS
            self.deliveries[offset] = self.deliveries.get(offset, 0) + 1
            assert counts[offset] <= DELIVERIES_MAX, f"limit: {offset}"
        return delivered

    def acknowledge(self) -> None:
        member = self.member()
        mine = sorted(offset for offset, (name, _) in self.held.items() if name == member.name)
        if not mine:
            return
        kinds = {offset: self.random.choice((ACCEPT, ACCEPT, RELEASE, REJECT)) for offset in mine}
        batches = [(offset, offset, kind) for offset, kind in kinds.items()]
        response = self.cluster.result(member.acknowledge_later(self.partition, *batches))
        error = response.error_code or response.responses[0].partitions[0].error_code
        for offset, kind in kinds.items():
            del self.held[offset]
            if error:
                self.unknown.add(offset)
                self.held[offset] = "", self.now + LOCK_SECONDS
            elif kind != RELEASE:
                self.acknowledged.add(offset)
        if error:  # some may still be held, nobody knows by whom
            self.release_all(mine)

    def release_all(self, some: list[int]) -> None:
        for offset in some:
            self.held.pop(offset, None)

    def lose_connection(self) -> None:
        self.forget(self.random.choice(NAMES))

    def forget(self, name: str) -> None:
        member = self.members.pop(name, None)
        if member is not None:
            member.caller.leave()
            self.advance(0.1)
            self.release_all([offset for offset, (owner, _) in self.held.items() if owner == name])

    def wait(self) -> None:
        self.advance(self.random.choice((1, 5, LOCK_SECONDS + 1)))

    def disturb(self) -> None:
        if self.cluster.disturb(self.random):
            for member in self.members.values():
                member.caller.leave()
            self.members.clear()
            self.held.clear()

    # -- time --------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.cluster.leader.clock.seconds()

    def advance(self, seconds: float) -> None:
        self.cluster.advance(seconds)

    # -- the end -----------------------------------------------------------------------------------------------------

    def check_end(self) -> None:
        for name in NAMES:
            self.forget(name)
        self.advance(LOCK_SECONDS + 1)
        last = ShareMember(self.cluster.leader, "last", records_max=50)
        while delivered := self.deliver(last):
            response = self.cluster.result(
                last.acknowledge_later(self.partition, *[(offset, offset, ACCEPT) for offset in delivered])
            )
            assert response.responses[0].partitions[0].error_code == ErrorCode.NONE
            self.release_all(delivered)
            self.acknowledged.update(delivered)
        exhausted = {offset for offset, count in self.deliveries.items() if count >= DELIVERIES_MAX}
        missing = set(range(self.produced)) - self.acknowledged - self.unknown - exhausted
        assert not missing, f"everything_in_the_end: {sorted(missing)}"


def run(cluster: Cluster, seed: int, steps: int) -> Model:
    model = Model(cluster, Random(seed))
    works: list[Callable[[], None]] = [
        *[model.produce] * 3,
        *[model.fetch] * 6,
        *[model.acknowledge] * 5,
        model.lose_connection,
        model.wait,
        model.disturb,
    ]
    for _ in range(steps):
        model.random.choice(works)()
    model.check_end()
    return model


@pytest.fixture
def two_brokers(tmp_path: Path) -> Iterator[TwoBrokers]:
    directories = [tmp_path / "1", tmp_path / "2"]
    for directory in directories:
        directory.mkdir()
    settings = {**SETTINGS, "api.versions.release": "4.4"}
    with opened_members([str(directory) for directory in directories], settings) as cluster:
        cluster.create("__share_group_state", [1, 2], replicas=[1, 2])
        cluster.create("t", [1], replicas=[1, 2])
        for number in (1, 2):
            set_group(cluster[number])
        yield TwoBrokers(cluster)


@pytest.mark.parametrize("seed", range(8))
def test_one_broker_with_restarts(tmp_path: Path, seed: int) -> None:
    with ExitStack() as stack:
        assert run(OneBroker(str(tmp_path), stack), seed, 150).acknowledged


@pytest.mark.parametrize("seed", range(8))
def test_two_brokers_with_elections(two_brokers: TwoBrokers, seed: int) -> None:
    assert run(two_brokers, seed, 100).acknowledged
