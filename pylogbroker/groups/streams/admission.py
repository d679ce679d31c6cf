"""Checks of a heartbeat, and the admission of its member: a new one, a static one that is back, or one that goes on."""

from __future__ import annotations

from itertools import chain
from typing import Final

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.streams.configuration import check_topology
from pylogbroker.groups.streams.group import StreamsGroup
from pylogbroker.groups.streams.member import StreamsMember
from pylogbroker.groups.streams.requests import StreamsHeartbeat
from pylogbroker.groups.streams.states import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from pylogbroker.groups.streams.tasks import Tasks

_TEXT_BYTES_MAX: Final = 64 * 1024
"""Most bytes of a member's tags and ids, which have to fit in a record."""


def check_fields(beat: StreamsHeartbeat) -> None:
    """Raise KafkaError for a heartbeat that is invalid by itself."""
    for field, text in (
        ("MemberId", beat.member_id),
        ("GroupId", beat.group_id),
        ("InstanceId", beat.instance_id),
        ("RackId", beat.rack_id),
    ):
        if text is not None and not text.strip():
            raise _invalid(f"{field} can't be empty.")
    texts = (beat.process_id or "", *chain.from_iterable((beat.client_tags or {}).items()))
    if sum(len(text.encode()) for text in texts) > _TEXT_BYTES_MAX:
        raise _invalid(f"ClientTags and ProcessId have more than {_TEXT_BYTES_MAX} bytes")
    if beat.epoch == JOIN_EPOCH:
        _check_first(beat)
        return
    if beat.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")
    if beat.epoch == STATIC_LEAVE_EPOCH and beat.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    if beat.epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch is {beat.epoch}, but must be greater than or equal to -2.")


def _check_first(beat: StreamsHeartbeat) -> None:
    if beat.rebalance_timeout_ms is None:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if beat.owned:
        raise _invalid("ActiveTasks, StandbyTasks and WarmupTasks must be empty when (re-)joining.")
    if beat.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    check_topology(beat.topology)


def leaves(beat: StreamsHeartbeat) -> bool:
    return beat.epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)


def admit(group: StreamsGroup, beat: StreamsHeartbeat, members_max: int) -> StreamsMember:
    """Return the member that a heartbeat is of; a new one if it joins. Raise KafkaError if it may not go on."""
    member = group.members.get(beat.member_id)
    if member is None and beat.epoch == JOIN_EPOCH:
        return _join(group, beat, members_max)
    if beat.instance_id is not None:
        group.check_static(beat.member_id, beat.instance_id)
    if member is None:
        raise _unknown(group, beat.member_id)
    if member.has_left_for_a_moment and beat.epoch == JOIN_EPOCH:
        member.epoch = member.previous_epoch = 0
    else:
        check_epoch(member, beat.epoch, beat.owned)
    return member


def _join(group: StreamsGroup, beat: StreamsHeartbeat, members_max: int) -> StreamsMember:
    new = StreamsMember(beat.member_id, beat.instance_id, process_id=beat.process_id or "")
    former = group.find_former(beat.instance_id, members_max)
    if former is None:
        group.add(new)
        return new
    former.stop_timers()
    new.rack_id, new.client_tags, new.endpoint = former.rack_id, former.client_tags, former.endpoint
    new.topology_epoch, new.rebalance_timeout_ms = former.topology_epoch, former.rebalance_timeout_ms
    group.take_place(former, new)
    return new


def check_epoch(member: StreamsMember, epoch: int, owned: Tasks | None) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epoch is the member's, or the previous one because an answer was lost."""
    if epoch == member.epoch:
        return
    is_retry = epoch == member.previous_epoch and owned is not None
    if is_retry and epoch < member.epoch and not (owned or Tasks()) - member.assigned:
        return
    raise KafkaError(
        f"member {member.member_id!r} has the epoch {member.epoch}, not {epoch}; abandon all tasks and join again",
        ErrorCode.FENCED_MEMBER_EPOCH,
    )


def find_leaving(group: StreamsGroup, beat: StreamsHeartbeat) -> StreamsMember:
    """Return the member that leaves; raise KafkaError if there is no such member."""
    if beat.instance_id is not None:
        group.check_static(beat.member_id, beat.instance_id)
    member = group.members.get(beat.member_id)
    if member is None:
        raise _unknown(group, beat.member_id)
    return member


def _unknown(group: StreamsGroup, member_id: str) -> KafkaError:
    return KafkaError(f"Member {member_id} is not a member of group {group.group_id}.", ErrorCode.UNKNOWN_MEMBER_ID)


def _invalid(text: str) -> KafkaError:
    return KafkaError(text, ErrorCode.INVALID_REQUEST)
