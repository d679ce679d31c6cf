"""Commits of members of KIP-848: who may commit at which epoch, as Kafka 4.4 answers."""

from __future__ import annotations

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Commit, CommittedOffset, TransactionalCommit
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.requests import CommitResult
from tests.coordinators.harness import Answer
from tests.groups.consumer.harness import ConsumerHarness

NONE, STALE, ILLEGAL = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def commit(harness: ConsumerHarness, epoch: int, *partitions: int, member_id: str = "a") -> set[ErrorCode]:
    answer: Answer[CommitResult] = Answer()
    offsets = {("t", number): CommittedOffset(5, committed=harness.now) for number in partitions}
    harness.coordinator.commit(Commit("g", epoch, member_id, offsets), answer, harness.now)
    return set(answer.value.values())


def commit_in_transaction(
    harness: ConsumerHarness, epoch: int, *partitions: int, member_id: str = "a"
) -> set[ErrorCode]:
    answer: Answer[CommitResult] = Answer()
    offsets = {("t", number): CommittedOffset(5, committed=harness.now) for number in partitions}
    request = TransactionalCommit("g", epoch, member_id, offsets, None, producer_id=1, producer_epoch=0)
    harness.coordinator.commit_in_transaction(request, answer, harness.now)
    return set(answer.value.values())


def numbers(partitions: frozenset[TopicIdPartition]) -> list[int]:
    return sorted(number for _, number in partitions)


@pytest.fixture
def moved() -> tuple[ConsumerHarness, list[int], list[int]]:
    """A group whose member `a` is at epoch 2: the partitions that it has kept since epoch 1, and those it gave away."""
    harness = ConsumerHarness()
    owned = frozenset(harness.join_group("a").value.assignment or ())
    harness.join_group("b")
    kept = frozenset(harness.beat("a", 1).value.assignment or ())
    assert commit(harness, 1, *numbers(owned)) == {NONE}, "it commits what it revokes"
    assert harness.beat("a", 1, owned=kept).value.epoch == 2
    return harness, numbers(kept), numbers(owned - kept)


def test_members_commit_at_their_epoch_and_what_they_hold_at_former_ones(
    moved: tuple[ConsumerHarness, list[int], list[int]],
) -> None:
    harness, kept, given = moved
    assert commit(harness, 2, *kept, *given) == {NONE}
    assert commit(harness, 1, *kept) == {NONE}
    assert commit(harness, 1, kept[0], given[0]) == {STALE}, "all or none"
    assert commit(harness, 0, *kept) == {STALE}
    assert commit(harness, 3, *kept) == {STALE}
    assert commit(harness, -1, *kept) == {STALE}
    assert commit(harness, -1, *kept, member_id="") == {UNKNOWN}
    assert commit(harness, 2, *kept, member_id="nobody") == {UNKNOWN}


def test_a_producer_gets_the_errors_of_generations(moved: tuple[ConsumerHarness, list[int], list[int]]) -> None:
    harness, kept, given = moved
    assert commit_in_transaction(harness, 2, *kept, *given) == {NONE}
    assert commit_in_transaction(harness, 1, *kept) == {NONE}
    assert commit_in_transaction(harness, 1, *given) == {ILLEGAL}
    assert commit_in_transaction(harness, 3, *kept) == {ILLEGAL}
    assert commit_in_transaction(harness, -1, *kept) == {ILLEGAL}
    assert commit_in_transaction(harness, -1, *kept, member_id="") == {NONE}
    assert commit_in_transaction(harness, 2, *kept, member_id="nobody") == {UNKNOWN}


def test_a_partition_that_comes_back_is_held_since_then(moved: tuple[ConsumerHarness, list[int], list[int]]) -> None:
    harness, kept, given = moved
    harness.leave_group("b")
    assert numbers(frozenset(harness.beat("a", 2).value.assignment or ())) == sorted([*kept, *given])
    assert harness.epoch("a") == 3
    assert commit(harness, 2, *kept) == {NONE}
    assert commit(harness, 2, *given) == {STALE}
    other = harness.restarted()
    assert commit(other, 1, *kept) == {NONE}
    assert commit(other, 2, *given) == {STALE}


def test_topics_that_are_gone_are_not_held() -> None:
    harness = ConsumerHarness()
    harness.join_group("a")
    harness.join_group("b")
    harness.beat("a", 1)
    harness.beat("a", 1, owned=frozenset())
    harness.topics.delete("t")
    assert commit(harness, 1, 0) == {STALE}


def test_a_description_has_partitions_that_are_to_be_revoked() -> None:
    """So does Kafka's: the member uses them until it has revoked them."""
    harness = ConsumerHarness()
    owned = frozenset(harness.join_group("a").value.assignment or ())
    harness.join_group("b")
    kept = frozenset(harness.beat("a", 1).value.assignment or ())
    [member] = [member for member in harness.coordinator.consumers.describe("g").members if member.member_id == "a"]
    assert (set(member.assignment), set(member.target)) == (owned, kept)
