"""One step of a member towards its target assignment (the table is in `states`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import attrs

from pylogbroker.groups.consumer.member import ConsumerMember
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.consumer.states import ReconciliationState


@attrs.frozen
class Step:
    """The member's state after a step."""

    state: ReconciliationState
    epoch: int
    assigned: Mapping[TopicIdPartition, int]
    revoking: Mapping[TopicIdPartition, int]


def next_step(
    member: ConsumerMember,
    target_epoch: int,
    target: Collection[TopicIdPartition],
    owned: Collection[TopicIdPartition] | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> Step | None:
    """Return the member's next step; None if it has to wait, or is where it should be.

    `owned` are the partitions that the client says it has. `is_free` returns whether no other member holds a partition.
    """
    epoch = member.epoch
    match member.state:
        case ReconciliationState.STABLE:
            if epoch == target_epoch and all(partition in target for partition in member.assigned):
                return None
        case ReconciliationState.UNREVOKED_PARTITIONS:
            if _still_owns(owned, member.revoking):
                return None
            epoch = min(epoch + 1, target_epoch)
        case ReconciliationState.UNRELEASED_PARTITIONS:
            pass
    return _step(member, epoch, target_epoch, target, owned, is_free)


def _step(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Collection[TopicIdPartition],
    owned: Collection[TopicIdPartition] | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> Step:
    kept = {partition: since for partition, since in member.assigned.items() if partition in target}
    revoked = {partition: since for partition, since in member.assigned.items() if partition not in target}
    if revoked and _still_owns(owned, revoked):
        return Step(ReconciliationState.UNREVOKED_PARTITIONS, epoch, kept, revoked)
    missing = [partition for partition in target if partition not in kept]
    free = dict.fromkeys(filter(is_free, missing), target_epoch)
    state = ReconciliationState.STABLE if len(free) == len(missing) else ReconciliationState.UNRELEASED_PARTITIONS
    return Step(state, target_epoch, kept | free, {})


def _still_owns(owned: Collection[TopicIdPartition] | None, revoked: Collection[TopicIdPartition]) -> bool:
    """Return whether a client may use some of the partitions: one that does not say what it owns may."""
    return owned is None or any(partition in owned for partition in revoked)
