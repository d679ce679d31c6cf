"""Share groups (KIP-932), as their coordinators describe them: members, and partitions with their start offsets.

A share group commits no offsets. Its start offset of a partition is that of the first record that is not finished. The
leader of the partition knows which records are in flight: those that members have acquired and not acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import attrgetter

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.share.state_records import SharePartitionKey
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.rpc.errors import code_of
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.offsets import Key
from pylogbroker.web.responsible_brokers import group_coordinator
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire import UnsupportedVersion
from pylogbroker.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponseGroup,
)
from pylogbroker.wire.messages.share_group_describe import (
    DescribedShareGroup,
    ShareGroupDescribeRequest,
    ShareGroupMember,
)


@attrs.frozen
class ShownShareMember:
    """A member; partitions and topics that the visitor may not see are left out."""

    id: str
    client: str
    host: str
    epoch: int
    topics: tuple[str, ...]
    partitions: tuple[Key, ...]


@attrs.frozen
class SharePartitionRow:
    """A partition that a share group reads; what is not known is None.

    `in_flight` are records that members have acquired, known at the leader alone.
    """

    topic: str
    index: int
    start: int | None
    lag: int | None
    in_flight: int | None
    error: str = ""


@attrs.frozen
class ShownShareGroup:
    id: str
    state: str
    epoch: int
    target_epoch: int
    assignor: str
    coordinator: int
    members: Sequence[ShownShareMember]
    partitions: Sequence[SharePartitionRow]

    @property
    def lag(self) -> int | None:
        return sum_of_known([row.lag for row in self.partitions])

    @property
    def topics(self) -> tuple[str, ...]:
        """Return the topics that the group reads, or that its members subscribe to."""
        return tuple(
            sorted({row.topic for row in self.partitions} | {name for it in self.members for name in it.topics})
        )


def sum_of_known(numbers: Sequence[int | None]) -> int | None:
    """Return the sum of the numbers that are known; None if none of several is."""
    summands = [number for number in numbers if number is not None]
    return sum(summands) if summands or not numbers else None


async def read_share_group(visitor: Visitor, group_id: str) -> ShownShareGroup:
    """Return a share group; raise KafkaError, also for a group of another type."""
    visitor.check(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)
    coordinator = group_coordinator(visitor.services, group_id)
    try:
        described = (await _described(visitor, coordinator, [group_id]))[group_id]
    except UnsupportedVersion as error:
        raise KafkaError(f"broker {coordinator} has no share groups: {error}", ErrorCode.GROUP_ID_NOT_FOUND) from None
    if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise KafkaError(f"there is no share group {group_id!r}", ErrorCode.GROUP_ID_NOT_FOUND)
    if described.error_code:
        code = code_of(described.error_code)
        raise KafkaError(f"the share group {group_id!r} cannot be read: {code.meaning}", code)
    offsets = await _offsets(visitor, coordinator, [group_id])
    return await _group(visitor, coordinator, described, offsets.get(group_id))


async def share_groups_of_each(visitor: Visitor, groups: Iterable[tuple[int, str]]) -> dict[str, ShownShareGroup]:
    """Return share groups by id, which are given with their coordinators; without those that nobody answers for."""
    by_broker: dict[int, list[str]] = {}
    for broker_id, group_id in groups:
        by_broker.setdefault(broker_id, []).append(group_id)
    answered: dict[str, ShownShareGroup] = {}
    for broker_id, ids in by_broker.items():
        with suppress(KafkaError):
            answered |= await share_groups(visitor, broker_id, ids)
    return answered


async def share_groups(visitor: Visitor, coordinator: int, ids: Sequence[str]) -> dict[str, ShownShareGroup]:
    """Return the share groups among these that the visitor may see, of one coordinator; raise KafkaError."""
    over = visitor.services.runtime.slices.over
    described = await _described(visitor, coordinator, [group_id for group_id in ids if visitor.sees_group(group_id)])
    existing = [group_id for group_id, group in described.items() if not group.error_code]
    offsets = await _offsets(visitor, coordinator, existing)
    return {
        group_id: await _group(visitor, coordinator, described[group_id], offsets.get(group_id))
        async for group_id in over(existing)
    }


async def _described(visitor: Visitor, coordinator: int, ids: Sequence[str]) -> dict[str, DescribedShareGroup]:
    answer = await visitor.ask(ShareGroupDescribeRequest([*ids]), coordinator)
    return rows_by_key(answer, "groups", coordinator, ids, attrgetter("group_id"))


async def _offsets(
    visitor: Visitor, coordinator: int, ids: Sequence[str]
) -> dict[str, DescribeShareGroupOffsetsResponseGroup]:
    """Return start offsets by group; those of groups that have none, or whose coordinator has moved, are left out."""
    request = DescribeShareGroupOffsetsRequest(
        [DescribeShareGroupOffsetsRequestGroup(group_id, topics=None) for group_id in ids]
    )
    with suppress(KafkaError):
        answer = await visitor.ask(request, coordinator)
        rows = rows_by_key(answer, "groups", coordinator, ids, attrgetter("group_id"))
        return {group_id: row for group_id, row in rows.items() if not row.error_code}
    return {}


async def _group(
    visitor: Visitor,
    coordinator: int,
    group: DescribedShareGroup,
    offsets: DescribeShareGroupOffsetsResponseGroup | None,
) -> ShownShareGroup:
    over = visitor.services.runtime.slices.over
    members = [_member(visitor, member) async for member in over(group.members)]
    rows = [
        _partition(visitor, group.group_id, topic.topic_name, row)
        for topic in (() if offsets is None else offsets.topics)
        if visitor.sees_topic(topic.topic_name)
        async for row in over(topic.partitions)
    ]
    with_offsets = {(row.topic, row.index) for row in rows}
    assigned = {key for member in members for key in member.partitions} - with_offsets
    rows += [SharePartitionRow(topic, index, None, None, None) for topic, index in assigned]  # not read yet
    return ShownShareGroup(
        group.group_id,
        group.group_state,
        group.group_epoch,
        group.assignment_epoch,
        group.assignor_name,
        coordinator,
        members,
        await visitor.services.runtime.slices.in_order(rows, key=lambda row: (row.topic, row.index)),
    )


def _member(visitor: Visitor, member: ShareGroupMember) -> ShownShareMember:
    assigned = ((topic.topic_name, index) for topic in member.assignment.topic_partitions for index in topic.partitions)
    return ShownShareMember(
        member.member_id,
        member.client_id,
        member.client_host,
        member.member_epoch,
        tuple(sorted(filter(visitor.sees_topic, member.subscribed_topic_names))),
        tuple(sorted(key for key in assigned if visitor.sees_topic(key[0]))),
    )


def _partition(visitor: Visitor, group_id: str, topic: str, row: object) -> SharePartitionRow:
    index, start, lag, number = attrgetter("partition_index", "start_offset", "lag", "error_code")(row)
    return SharePartitionRow(
        topic,
        index,
        start if start >= 0 and not number else None,
        lag if lag >= 0 and not number else None,
        _in_flight(visitor, group_id, topic, index),
        code_of(number).meaning if number else "",
    )


def _in_flight(visitor: Visitor, group_id: str, topic: str, index: int) -> int | None:
    services = visitor.services
    partition, image = services.partitions.led.get((topic, index)), services.metadata.topics.get(topic)
    if partition is None or image is None:
        return None
    led = services.share_groups.partitions.led(SharePartitionKey(group_id, image.id, index), partition)
    return 0 if led is None else led.records.in_flight
