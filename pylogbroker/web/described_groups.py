"""Classic groups and those of KIP-848 and KIP-1071, as their coordinators describe them, in one form for pages.

Partitions and topics that the visitor may not see are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Final, Literal

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import GroupState, GroupType
from pylogbroker.groups.consumer.partitions import TopicIdPartition, by_topic
from pylogbroker.groups.consumer.requests import ConsumerGroupDescription, ConsumerMemberDescription
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.web.offsets import Key
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire import UnsupportedVersion, WireError
from pylogbroker.wire.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from pylogbroker.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupMember,
    DescribedConsumerGroup,
)
from pylogbroker.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest
from pylogbroker.wire.messages.streams_group_describe import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribedTopology,
    StreamsGroupDescribeRequest,
    partitions_of,
)

_DEAD: Final = GroupState.DEAD.value
_CLASSIC_MEMBER: Final = 0
_FIRST_WITH_PROTOCOLS: Final = 1
"""First version of ConsumerGroupDescribe that says which protocol a member uses."""
GroupProtocol = Literal["classic", "consumer", "streams"]
_ERRORS_OF_MISSING: Final = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)


@attrs.frozen
class Reconciliation:
    """Progress of a member of KIP-848: the epoch that it has reached, and the partitions that it is to have.

    `topics` and `expression` are its subscription. `is_classic`: it uses the classic protocol.
    """

    epoch: int
    target: tuple[Key, ...]
    topics: tuple[str, ...]
    expression: str
    is_classic: bool


@attrs.frozen
class DescribedMember:
    """A member; `partitions` is None if its assignment is not a consumer's."""

    id: str
    instance: str | None
    client: str
    host: str
    partitions: tuple[Key, ...] | None
    reconciliation: Reconciliation | None = None


@attrs.frozen
class GroupEpochs:
    """Epochs of a group of KIP-848: its own, and that of its target assignment."""

    group: int
    target: int


@attrs.frozen
class GroupDescription:
    """A group; `epochs` is None for one of the classic protocol."""

    id: str
    error: int
    state: str
    protocol_type: str = ""
    assignor: str = ""
    members: Sequence[DescribedMember] = ()
    epochs: GroupEpochs | None = None
    type: GroupProtocol = "classic"


async def describe_groups(visitor: Visitor, broker_id: int, ids: Sequence[str]) -> dict[str, GroupDescription]:
    """Return groups by id, as the broker that coordinates them describes them; raise KafkaError."""
    over = visitor.services.runtime.slices.over
    answer = await visitor.ask(DescribeGroupsRequest([*ids]), broker_id)
    rows = rows_by_key(answer, "groups", broker_id, ids, attrgetter("group_id"))
    groups = {group_id: await _classic(visitor, row) async for group_id, row in over(rows.items())}
    others = [row.id for row in groups.values() if row.error in _ERRORS_OF_MISSING and row.state == _DEAD]
    if others:
        groups |= await _of_kip_848(visitor, broker_id, others)
        rest = [group_id for group_id in others if groups[group_id].epochs is None]
        groups |= await _of_streams(visitor, broker_id, rest)
    return groups


async def _classic(visitor: Visitor, group: DescribedGroup) -> GroupDescription:
    is_consumer = group.protocol_type == PROTOCOL_TYPE
    over = visitor.services.runtime.slices.over
    return GroupDescription(
        group.group_id,
        group.error_code,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        [_classic_member(visitor, member, is_consumer) async for member in over(group.members)],
    )


def _classic_member(visitor: Visitor, member: DescribedGroupMember, is_consumer: bool) -> DescribedMember:
    assigned: tuple[Key, ...] | None = None
    if is_consumer:
        with suppress(WireError):
            assigned = _visible(visitor, decode_assignment(member.member_assignment))
    return DescribedMember(member.member_id, member.group_instance_id, member.client_id, member.client_host, assigned)


def _visible(visitor: Visitor, partitions: Iterable[Key]) -> tuple[Key, ...]:
    return tuple(sorted(key for key in partitions if visitor.sees_topic(key[0])))


async def _of_kip_848(visitor: Visitor, broker_id: int, ids: Sequence[str]) -> dict[str, GroupDescription]:
    """Return those of the groups that are of KIP-848. Another broker may not know them."""
    over = visitor.services.runtime.slices.over
    shown = [group_id for group_id in ids if visitor.sees_group(group_id)]
    if broker_id == visitor.services.node.id:
        described = [visitor.services.groups.consumers.describe(group_id) for group_id in shown]
        return {group.group_id: await _here(visitor, group) for group in described if not group.error}
    with suppress(UnsupportedVersion):
        answer = await visitor.send(broker_id, ConsumerGroupDescribeRequest(shown), _FIRST_WITH_PROTOCOLS)
        rows = rows_by_key(answer, "groups", broker_id, shown, attrgetter("group_id"))
        return {
            group_id: await _elsewhere(visitor, row) async for group_id, row in over(rows.items()) if not row.error_code
        }
    return {}


async def _here(visitor: Visitor, group: ConsumerGroupDescription) -> GroupDescription:
    over = visitor.services.runtime.slices.over
    return GroupDescription(
        group.group_id,
        ErrorCode.NONE,
        group.state,
        PROTOCOL_TYPE,
        group.assignor,
        [_member_here(visitor, member) async for member in over(group.members)],
        GroupEpochs(group.epoch, group.target_epoch),
        "consumer",
    )


def _member_here(visitor: Visitor, member: ConsumerMemberDescription) -> DescribedMember:
    def named(partitions: Collection[TopicIdPartition]) -> tuple[Key, ...]:
        name_of = visitor.services.groups.consumers.topic_name
        topics = ((name_of(topic_id), numbers) for topic_id, numbers in by_topic(partitions).items())
        return _visible(visitor, ((name, number) for name, some in topics if name is not None for number in some))

    topics = tuple(sorted(filter(visitor.sees_topic, member.topics)))
    reconciliation = Reconciliation(
        member.epoch, named(member.target), topics, member.expression or "", member.is_classic
    )
    return DescribedMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        named(member.assignment),
        reconciliation,
    )


async def _elsewhere(visitor: Visitor, group: DescribedConsumerGroup) -> GroupDescription:
    over = visitor.services.runtime.slices.over
    return GroupDescription(
        group.group_id,
        ErrorCode.NONE,
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name,
        [_member_elsewhere(visitor, member) async for member in over(group.members)],
        GroupEpochs(group.group_epoch, group.assignment_epoch),
        "consumer",
    )


def _member_elsewhere(visitor: Visitor, member: ConsumerGroupMember) -> DescribedMember:
    def keys(assignment: Assignment) -> tuple[Key, ...]:
        return _visible(
            visitor,
            ((topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions),
        )

    reconciliation = Reconciliation(
        member.member_epoch,
        keys(member.target_assignment),
        tuple(sorted(filter(visitor.sees_topic, member.subscribed_topic_names))),
        member.subscribed_topic_regex or "",
        member.member_type == _CLASSIC_MEMBER,
    )
    return DescribedMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        keys(member.assignment),
        reconciliation,
    )


async def _of_streams(visitor: Visitor, broker_id: int, ids: Sequence[str]) -> dict[str, GroupDescription]:
    """Return those of the groups that are of Kafka Streams. Their partitions are those that active tasks read."""
    shown = [group_id for group_id in ids if visitor.sees_group(group_id)]
    if not shown:
        return {}
    with suppress(UnsupportedVersion):
        answer = await visitor.ask(StreamsGroupDescribeRequest(shown), broker_id)
        rows = rows_by_key(answer, "groups", broker_id, shown, attrgetter("group_id"))
        over = visitor.services.runtime.slices.over
        return {group_id: _streams(visitor, row) async for group_id, row in over(rows.items()) if not row.error_code}
    return {}


def _streams(visitor: Visitor, group: DescribedStreamsGroup) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        ErrorCode.NONE,
        group.group_state,
        GroupType.STREAMS,
        group.assignor_name or "",
        [_streams_member(visitor, member, group.topology) for member in group.members],
        GroupEpochs(group.group_epoch, group.assignment_epoch),
        "streams",
    )


def _streams_member(
    visitor: Visitor, member: DescribedStreamsMember, topology: DescribedTopology | None
) -> DescribedMember:
    partitions = _visible(visitor, partitions_of(topology, member.assignment.active_tasks))
    target = _visible(visitor, partitions_of(topology, member.target_assignment.active_tasks))
    return DescribedMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        partitions,
        Reconciliation(member.member_epoch, target, (), "", member.is_classic),
    )
