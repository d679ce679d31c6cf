"""Groups of KIP-848 whose coordinator moves: members keep their partitions, and read each record once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pylogbroker.blocking.admin import BlockingAdmin
from pylogbroker.client.admin import GroupDescription
from tests.clients.members.base import UNIFORM
from tests.clients.members.member_process import Member, until_shared
from tests.clients.members.read_once import Records
from tests.cluster.cluster import Cluster
from tests.cluster.members import own
from tests.support.waiting import wait_until

PARTITIONS = 6
TOPIC, GROUP = "t", "g"
OFFSETS = "__consumer_offsets"
SETTINGS = {
    "api.versions.release": "4.4",
    "offsets.topic.num.partitions": "1",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
KINDS = ("confluent", "pylogbroker", "confluent")
NewCluster = Callable[..., Cluster]


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    started = new_cluster(own, own, own, settings=SETTINGS)
    started.create(TOPIC, PARTITIONS)
    return started


@pytest.fixture
def members(cluster: Cluster) -> Iterator[list[Member]]:
    """Members of both protocols, of which the last one is classic."""
    assignors = (UNIFORM, UNIFORM, "cooperative-sticky")
    started = [
        Member(kind, cluster.bootstrap, GROUP, TOPIC, assignor=assignor)
        for kind, assignor in zip(KINDS, assignors, strict=True)
    ]
    until_shared(started, PARTITIONS)
    yield started
    for member in started:
        member.process.kill()


def stable(cluster: Cluster) -> GroupDescription:
    """Wait until the group is stable, and return it."""
    with BlockingAdmin({"bootstrap.servers": cluster.bootstrap}, 60.0) as admin:
        group = admin.groups.describe([GROUP])[GROUP]

        def is_stable() -> bool:
            nonlocal group
            group = admin.groups.describe([GROUP])[GROUP]
            return group.state == "Stable"

        wait_until(is_stable, what=lambda: group)
    return group


def test_members_keep_their_partitions_when_the_coordinator_moves(cluster: Cluster, members: list[Member]) -> None:
    """Stop the coordinator, start it again, and kill the next one."""
    before = stable(cluster)
    assert sorted(member.is_classic for member in before.members) == [False, False, True]
    records = Records(cluster.bootstrap, TOPIC, PARTITIONS)
    records.go_through(members)
    first = cluster.leader(OFFSETS, 0)
    cluster.stop(first)
    second = cluster.wait_for_leader(OFFSETS, 0, other_than=first)
    records.go_through(members)
    assert described(stable(cluster)) == described(before)
    cluster.start(first)
    cluster.wait_until_in_isr(OFFSETS, 0, 1, 2, 3)
    cluster.wait_until_in_sync(TOPIC)
    cluster.kill(second)
    cluster.wait_for_leader(OFFSETS, 0, other_than=second)
    records.go_through(members)
    assert described(stable(cluster)) == described(before)
    members[0].leave()
    until_shared(members[1:], PARTITIONS)
    records.go_through(members[1:], members[:1])


def described(group: GroupDescription) -> tuple[object, ...]:
    """Return the epochs of a group, and what each member has."""
    return group.epoch, group.target_epoch, sorted((member.member_id, member.assignment) for member in group.members)
