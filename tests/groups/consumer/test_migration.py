"""Groups that change their protocol while they have members, and classic members in groups of KIP-848."""

from __future__ import annotations

import attrs
import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import JoinResult
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.settings import ConsumerGroupSettings
from pylogbroker.interfaces import Subscription
from pylogbroker.wire.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from tests.groups.consumer.harness import ConsumerHarness
from tests.groups.harness import SETTINGS

ALL = [("t", number) for number in range(4)]


@pytest.fixture
def harness() -> ConsumerHarness:
    return ConsumerHarness()


def protocols(*owned: tuple[str, int]) -> dict[str, bytes]:
    return {"cooperative-sticky": encode_subscription(Subscription(("t",), owned))}


def classic_group(harness: ConsumerHarness) -> JoinResult:
    """Return the member of a stable classic group, which has all partitions."""
    joining = harness.join(protocols=protocols())
    harness.advance(0)
    joined = joining.value
    harness.sync(joined, {joined.member_id: encode_assignment(ALL)})
    assert harness.state() == "Stable"
    return joined


def assigned(harness: ConsumerHarness, joined: JoinResult) -> set[tuple[str, int]]:
    return set(decode_assignment(harness.sync(joined).value.assignment))


def owned(harness: ConsumerHarness, member_id: str) -> frozenset[TopicIdPartition]:
    return frozenset(harness.group.members[member_id].assigned)


def upgraded(harness: ConsumerHarness) -> JoinResult:
    """Return the classic member of a group with a new member `b`; each has two partitions."""
    classic = classic_group(harness)
    assert harness.join_group("b").value.assignment == frozenset()
    assert harness.heartbeat(classic) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = harness.join(classic.member_id, protocols=protocols(*ALL)).value
    kept = assigned(harness, rejoined)
    assert len(kept) == 2
    assert harness.heartbeat(rejoined) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = harness.join(classic.member_id, protocols=protocols(*kept)).value
    assert assigned(harness, rejoined) == kept
    assert harness.heartbeat(rejoined) is ErrorCode.NONE
    assert len(harness.beat("b", harness.epoch("b")).value.assignment or ()) == 2
    assert harness.state_of_group() == "Stable"
    return rejoined


def test_new_member_makes_a_classic_group_a_consumer_group(harness: ConsumerHarness) -> None:
    rejoined = upgraded(harness)
    described = harness.coordinator.consumers.describe("g")
    assert {member.member_id: member.is_classic for member in described.members} == {
        rejoined.member_id: True,
        "b": False,
    }


def test_last_new_member_leaves_a_classic_group(harness: ConsumerHarness) -> None:
    rejoined = upgraded(harness)
    assert harness.leave_group("b") is ErrorCode.NONE
    assert harness.state() == "PreparingRebalance"
    again = harness.join(rejoined.member_id, protocols=protocols()).value
    assert (again.error, again.leader, len(again.members)) == (ErrorCode.NONE, rejoined.member_id, 1)
    assert again.generation > rejoined.generation


def test_classic_member_that_replaces_the_last_new_one_leaves_a_classic_group(harness: ConsumerHarness) -> None:
    """A static member that is restarted with the other protocol keeps its place; nobody else has to be new."""
    first = harness.join_group("a", instance_id="i").value
    joined = harness.join(protocols=protocols(), instance_id="i")
    harness.advance(0)
    again = joined.value
    assert (again.error, again.leader, len(again.members)) == (ErrorCode.NONE, again.member_id, 1)
    assert again.generation > first.epoch
    harness.sync(again, {again.member_id: encode_assignment(ALL)})
    assert harness.state() == "Stable"
    assert harness.heartbeat(again, "i") is ErrorCode.NONE
    assert harness.beat("a", first.epoch, instance_id="i").value.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert harness.restarted().state() == "Stable"


def test_replacing_one_of_two_new_members_leaves_a_consumer_group(harness: ConsumerHarness) -> None:
    harness.join_group("a", instance_id="i")
    harness.join_group("b")
    assert harness.join(protocols=protocols(), instance_id="i").value.error is ErrorCode.NONE
    assert {member.member_id for member in harness.group.members.values() if member.classic is None} == {"b"}


def test_migrations_survive_a_restart(harness: ConsumerHarness) -> None:
    rejoined = upgraded(harness)
    other = harness.restarted()
    assert other.state_of_group() == "Stable"
    assert assigned(other, rejoined)
    other.leave_group("b")
    assert other.restarted().state() == "Stable"


def test_new_member_takes_over_when_the_classic_one_leaves(harness: ConsumerHarness) -> None:
    rejoined = upgraded(harness)
    assert harness.leave(rejoined.member_id) is ErrorCode.NONE
    assert len(harness.beat("b", harness.epoch("b")).value.assignment or ()) == 4


def test_classic_member_joins_a_consumer_group(harness: ConsumerHarness) -> None:
    first = frozenset(harness.join_group("a").value.assignment or ())
    joined = harness.join(protocols=protocols()).value
    assert assigned(harness, joined) == set()
    kept = frozenset(harness.beat("a", 1, owned=first).value.assignment or ())
    harness.beat("a", 1, owned=kept)
    assert harness.heartbeat(joined) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = harness.join(joined.member_id, protocols=protocols()).value
    assert len(assigned(harness, joined)) == 2


def test_classic_member_that_does_not_join_again_is_removed(harness: ConsumerHarness) -> None:
    classic = classic_group(harness)
    harness.join_group("b")
    for _ in range(13):
        harness.heartbeat(classic)
        harness.beat("b", harness.epoch("b"))
        harness.advance(5_000)
    assert set(harness.group.members) == {"b"}


def test_policy_forbids_an_upgrade() -> None:
    settings = attrs.evolve(SETTINGS, consumer=ConsumerGroupSettings(migration_policy="disabled"))
    harness = ConsumerHarness(settings)
    classic = classic_group(harness)
    result = harness.join_group("b").value
    assert result.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "group.consumer.migration.policy" in (result.text or "")
    assert harness.heartbeat(classic) is ErrorCode.NONE


def test_empty_groups_change_their_protocol(harness: ConsumerHarness) -> None:
    classic = classic_group(harness)
    harness.commit({("t", 0): 7}, classic)
    harness.leave(classic.member_id)
    assert harness.join_group("b").value.error is ErrorCode.NONE
    harness.leave_group("b")
    assert harness.offset("t", 0) == 7
    assert classic_group(harness).generation == 1
    assert harness.offset("t", 0) == 7
    assert harness.restarted().state() == "Stable"
