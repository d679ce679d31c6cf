"""Checks of a heartbeat, and the admission of its member: a new one, a static one that is back, or one that goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.consumer.group import ConsumerGroup
from pylogbroker.groups.consumer.member import ConsumerMember
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.consumer.requests import MemberHeartbeat
from pylogbroker.groups.consumer.states import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH

_SUBSCRIPTION_BYTES_MAX: Final = 512 * 1024
"""Most bytes of topic names in a subscription, which has to fit in a record."""


def check_fields(beat: MemberHeartbeat, assignors: Mapping[str, Any]) -> None:
    """Raise KafkaError for a heartbeat that is invalid by itself."""
    for field, text in (("GroupId", beat.group_id), ("InstanceId", beat.instance_id), ("RackId", beat.rack_id)):
        if text is not None and not text.strip():
            raise _invalid(f"{field} is empty; leave it out, or give it a value")
    joins = beat.epoch == JOIN_EPOCH
    if not beat.member_id.strip() and not (joins and beat.makes_ids):
        raise _invalid("MemberId is empty; the client makes an id for as long as it runs")
    if joins:
        _check_first(beat)
    elif beat.epoch == STATIC_LEAVE_EPOCH and beat.instance_id is None:
        raise _invalid("InstanceId is missing; only static members may leave with epoch -2")
    elif beat.epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch is {beat.epoch}; expected -2, -1, 0 to join, or the member's epoch")
    if sum(map(len, beat.topics or ())) > _SUBSCRIPTION_BYTES_MAX:
        raise _invalid("the subscribed topics are too many; subscribe by a regular expression")
    if beat.assignor is not None and beat.assignor not in assignors:
        raise KafkaError(
            f"ServerAssignor {beat.assignor!r} is not one of group.consumer.assignors: {', '.join(assignors)}",
            ErrorCode.UNSUPPORTED_ASSIGNOR,
        )


def _check_first(beat: MemberHeartbeat) -> None:
    if beat.rebalance_timeout_ms is None:
        raise _invalid("RebalanceTimeoutMs is missing; the first heartbeat has it")
    if beat.owned is None or beat.owned:
        raise _invalid("TopicPartitions must be empty when a member joins: it owns nothing yet")
    if not beat.has_subscription:
        raise _invalid("SubscribedTopicNames and SubscribedTopicRegex are missing; the first heartbeat has one of them")


def leaves(beat: MemberHeartbeat) -> bool:
    return beat.epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)


def admit(group: ConsumerGroup, beat: MemberHeartbeat, members_max: int) -> ConsumerMember:
    """Return the member that a heartbeat is of; a new one if it joins. Raise KafkaError if it may not go on."""
    member = group.members.get(beat.member_id)
    if member is None and beat.epoch == JOIN_EPOCH:
        return _join(group, beat, members_max)
    if beat.instance_id is not None:
        group.check_static(beat.member_id, beat.instance_id)
    if member is None:
        raise KafkaError(f"group {group.group_id!r} has no member {beat.member_id!r}", ErrorCode.UNKNOWN_MEMBER_ID)
    if member.has_left_for_a_moment and beat.epoch == JOIN_EPOCH:
        member.epoch = member.previous_epoch = 0
    elif member.classic is None or beat.epoch != JOIN_EPOCH:
        check_epoch(member, beat.epoch, beat.owned)
    return member


def _join(group: ConsumerGroup, beat: MemberHeartbeat, members_max: int) -> ConsumerMember:
    new = ConsumerMember(beat.member_id, beat.instance_id)
    former = group.find_former(beat.instance_id, members_max)
    if former is None:
        group.add(new)
        return new
    former.stop_timers()
    new.topics, new.expression, new.rack_id = former.topics, former.expression, former.rack_id
    new.assignor, new.rebalance_timeout_ms = former.assignor, former.rebalance_timeout_ms
    group.take_place(former, new)
    return new


def check_epoch(member: ConsumerMember, epoch: int, owned: Collection[TopicIdPartition] | None) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epoch is the member's, or the previous one because an answer was lost."""
    if epoch == member.epoch:
        return
    is_retry = epoch == member.previous_epoch and owned is not None
    if is_retry and epoch < member.epoch and all(partition in member.assigned for partition in owned or ()):
        return
    raise KafkaError(
        f"member {member.member_id!r} has the epoch {member.epoch}, not {epoch}; revoke all partitions and join again",
        ErrorCode.FENCED_MEMBER_EPOCH,
    )


def _invalid(text: str) -> KafkaError:
    return KafkaError(text, ErrorCode.INVALID_REQUEST)
