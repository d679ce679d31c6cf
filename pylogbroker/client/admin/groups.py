"""Groups: list, describe, delete, remove members; their committed offsets: read, set, delete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import attrs

from pylogbroker.client import arguments
from pylogbroker.client.admin.group_descriptions import GroupDescription, MemberDescription
from pylogbroker.client.admin.routing import ItemsFailed, NodeRoute, Router, deferred, outcome, outcomes_of, results
from pylogbroker.client.coordinator_requests import CoordinatorType
from pylogbroker.client.errors import COORDINATOR_NOT_READY
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.features import on_first_use
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire import Request, UnsupportedVersion, WireError
from pylogbroker.wire.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from pylogbroker.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupMember,
    DescribedConsumerGroup,
)
from pylogbroker.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from pylogbroker.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from pylogbroker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

if TYPE_CHECKING:
    from pylogbroker.client.admin import streams_groups
else:
    streams_groups = on_first_use("pylogbroker.client.admin.streams_groups")

_REASON = "removed by an administrator"
_ONE_GROUP_VERSION_MAX = 7  # of OffsetFetch: the last with one group
_DEAD: Final = "Dead"
_CLASSIC: Final = "classic"
_CONSUMER: Final = "consumer"
_CLASSIC_MEMBER: Final = 0
_NOT_CLASSIC: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INCONSISTENT_GROUP_PROTOCOL})
"""Errors of DescribeGroups for groups of another protocol; older versions say that such a group is dead."""

_NOT_OF_THE_TYPE: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
"""Errors of descriptions of one type of group; the latter where the broker's settings disable the protocol."""


@attrs.frozen
class GroupListing:
    """Group with its coordinator's broker id. State and type are empty if the broker does not return them."""

    group: str
    protocol_type: str
    state: str
    type: str
    coordinator: int


@attrs.frozen
class MemberToRemove:
    """Member by its id, or a static one by its instance id."""

    member_id: str = ""
    instance_id: str | None = None


@attrs.frozen
class CommittedOffset:
    """Offset of the next record to consume; leader epoch -1 means unknown."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


_COORDINATOR: Final = "the coordinator"
Groups = list[GroupListing]
Names = list[str]


@attrs.frozen(eq=False, repr=False)
class GroupAdmin:
    _router: Router

    @deferred
    async def list(self, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> Sequence[GroupListing]:
        """Return the groups of all brokers, sorted by name.

        `states` selects some, such as `Empty`, and `types` those of `classic`, `consumer` (KIP-848), `share` or
        `streams` (KIP-1071).
        """
        groups: Groups = []
        chosen, kinds = arguments.texts("states", states), arguments.texts("types", types)
        answers = await self._router.all_brokers(lambda: ListGroupsRequest([*chosen], [*kinds]))
        for node_id, response in answers.items():
            groups += [
                GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type, node_id)
                for group in response.groups
            ]
        return sorted(groups, key=lambda it: it.group)

    @deferred
    async def describe(self, groups: Iterable[str]) -> dict[str, GroupDescription]:
        """Return groups by name, of the classic protocol, of KIP-848 and of Kafka Streams (KIP-1071)."""

        def read(response: DescribeGroupsResponse) -> Iterator[tuple[str, GroupDescription | KafkaError]]:
            for group in response.groups:
                name = group.group_id
                yield name, outcome(f"group {name}", group.error_code, None, _description(group))

        requested = [*dict.fromkeys(arguments.texts("groups", groups))]
        classic = await self._router.ask_each(
            self._route(), requested, lambda names: DescribeGroupsRequest(names), read
        )
        others = await self._describe_of_kip_848([name for name in requested if _is_not_classic(classic[name])])
        missing = [name for name in requested if name not in others and _is_not_classic(classic[name])]
        streams = await self._describe_of_streams(missing)
        return results(requested, {**classic, **others, **streams})

    async def _describe_of_kip_848(self, names: Names) -> dict[str, GroupDescription | PylogbrokerError]:
        """Return those groups that are of KIP-848. Coordinators without this protocol have none."""

        def read(response: ConsumerGroupDescribeResponse) -> Iterator[tuple[str, GroupDescription | KafkaError]]:
            for group in response.groups:
                name = group.group_id
                yield (
                    name,
                    outcome(f"group {name}", group.error_code, group.error_message, _description_of_kip_848(group)),
                )

        groups = await self._router.ask_each(
            self._route(), names, lambda names: ConsumerGroupDescribeRequest(names), read
        )
        return {name: group for name, group in groups.items() if not _is_unknown(group)}

    async def _describe_of_streams(self, names: Names) -> dict[str, GroupDescription | PylogbrokerError]:
        """Return those groups that are of Kafka Streams. Coordinators without this protocol have none."""
        if not names:
            return {}
        groups = await streams_groups.describe(self._router, self._route(), names)
        return {name: group for name, group in groups.items() if not _is_unknown(group)}

    @deferred
    async def delete(self, groups: Iterable[str]) -> None:
        """Delete groups without members, with their offsets."""

        def read(response: DeleteGroupsResponse) -> Iterator[tuple[str, KafkaError | None]]:
            for result in response.results:
                yield result.group_id, outcome(f"group {result.group_id}", result.error_code, None, None)

        given = arguments.texts("groups", groups)
        await self._router.ask(self._route(), given, lambda names: DeleteGroupsRequest(names), read)

    @deferred
    async def remove_members(self, group: str, members: Iterable[MemberToRemove] | None = None) -> None:
        """Remove members; by default all of the group's."""
        if members is None:
            described = (await self.describe([group]))[group].members
            members = [
                MemberToRemove("" if member.instance_id else member.member_id, member.instance_id)
                for member in described
            ]
        removals = arguments.instances("members", members, MemberToRemove, "MemberToRemove(instance_id='one')")
        if not removals:
            return
        rows = [MemberIdentity(member.member_id, member.instance_id, _REASON) for member in removals]
        response: LeaveGroupResponse = await self._ask_group(
            group, lambda: LeaveGroupRequest(group, members=rows), lambda response: response.error_code
        )
        errors: dict[MemberToRemove, Exception] = {}
        for removed in response.members:
            error = outcome(
                f"member {removed.group_instance_id or removed.member_id} of group {group}",
                removed.error_code,
                None,
                None,
            )
            if error is not None:
                errors[MemberToRemove(removed.member_id, removed.group_instance_id)] = error
        if errors:
            raise ItemsFailed(errors, {member: None for member in removals if member not in errors})

    @deferred
    async def offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return committed offsets, by default all of them; a partition without one is left out.

        With `require_stable`, wait until no transaction is about to change them.
        """
        rows = None if partitions is None else _offsets_wanted(arguments.partitions("partitions", partitions))
        response = await self._ask_group(
            group,
            lambda: OffsetFetchRequest(group, rows, require_stable=require_stable),
            lambda response: response.error_code,
            newest=_ONE_GROUP_VERSION_MAX,
        )
        by_partition = dict(
            _read(
                response,
                lambda partition: CommittedOffset(
                    partition.committed_offset, partition.committed_leader_epoch, partition.metadata or ""
                ),
            )
        )
        keys = [*by_partition]
        if rows is not None:
            keys = [(row.name, index) for row in rows for index in row.partition_indexes]
        committed = results(keys, outcomes_of(response, _COORDINATOR, keys, by_partition.items()))
        return {key: offset for key, offset in committed.items() if offset.offset >= 0}

    @deferred
    async def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset]) -> None:
        """Commit offsets for a group without members."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for key, given in arguments.by_key("offsets", offsets, "{('orders', 0): 7}").items():
            topic, partition = arguments.partition("offsets", key)
            committed = (
                given if isinstance(given, CommittedOffset) else CommittedOffset(arguments.offset("offsets", given))
            )
            row = OffsetCommitRequestPartition(
                partition, committed.offset, committed.leader_epoch, committed_metadata=committed.metadata
            )
            topics.setdefault(topic, OffsetCommitRequestTopic(topic)).partitions.append(row)
        if not topics:
            return
        response = await self._ask_group(
            group, lambda: OffsetCommitRequest(group, topics=[*topics.values()]), _coordinator_error
        )
        results([*offsets], outcomes_of(response, _COORDINATOR, [*offsets], _read(response, lambda _: None)))

    @deferred
    async def delete_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of topics that no member of the group is subscribed to."""
        keys = arguments.partitions("partitions", partitions)
        topics: dict[str, OffsetDeleteRequestTopic] = {}
        for topic, partition in keys:
            rows = topics.setdefault(topic, OffsetDeleteRequestTopic(topic)).partitions
            rows.append(OffsetDeleteRequestPartition(partition))
        if not topics:
            return
        response = await self._ask_group(
            group, lambda: OffsetDeleteRequest(group, [*topics.values()]), lambda response: response.error_code
        )
        results(keys, outcomes_of(response, _COORDINATOR, keys, _read(response, lambda _: None)))

    def _route(self) -> NodeRoute[str]:
        return self._router.coordinators(CoordinatorType.GROUP)

    async def _ask_group(
        self, group: str, make: Callable[[], Request], code_of: Callable[[Any], int], newest: int | None = None
    ) -> Any:
        """Return the response of a group's coordinator once its error of the request as such is 0."""

        def read(response: Any) -> Iterator[tuple[str, Any]]:
            yield group, outcome(f"group {group}", code_of(response), None, response)

        answers = await self._router.ask(
            self._route(), [arguments.name("group", group)], lambda _: make(), read, newest=newest
        )
        return answers[group]


def _is_not_classic(description: GroupDescription | PylogbrokerError) -> bool:
    if isinstance(description, GroupDescription):
        return description.state == _DEAD
    return isinstance(description, KafkaError) and description.code in _NOT_CLASSIC


def _is_unknown(description: GroupDescription | PylogbrokerError) -> bool:
    if isinstance(description, UnsupportedVersion):
        return True
    return isinstance(description, KafkaError) and description.code in _NOT_OF_THE_TYPE


def _description(group: DescribedGroup) -> GroupDescription:
    is_consumer = group.protocol_type == PROTOCOL_TYPE
    members = tuple(_member(member, is_consumer) for member in group.members)
    kind = "" if group.group_state == _DEAD else _CLASSIC
    return GroupDescription(group.group_id, group.group_state, kind, group.protocol_type, group.protocol_data, members)


def _description_of_kip_848(group: DescribedConsumerGroup) -> GroupDescription:
    members = tuple(_member_of_kip_848(member) for member in group.members)
    return GroupDescription(
        group.group_id,
        group.group_state,
        _CONSUMER,
        PROTOCOL_TYPE,
        group.assignor_name,
        members,
        group.group_epoch,
        group.assignment_epoch,
    )


def _member_of_kip_848(member: ConsumerGroupMember) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        member.member_epoch,
        _partitions(member.target_assignment),
        tuple(sorted(member.subscribed_topic_names)),
        member.subscribed_topic_regex or "",
        member.member_type == _CLASSIC_MEMBER,
    )


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    topics = assignment.topic_partitions
    return tuple(sorted((topic.topic_name, number) for topic in topics for number in topic.partitions))


def _member(member: DescribedGroupMember, is_consumer: bool) -> MemberDescription:
    assignment: tuple[TopicPartition, ...] = ()
    if is_consumer and member.member_assignment:
        with suppress(WireError):  # of another client, in a form of its own
            assignment = decode_assignment(member.member_assignment)
    return MemberDescription(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, tuple(sorted(assignment))
    )


def _offsets_wanted(partitions: Iterable[TopicPartition]) -> list[OffsetFetchRequestTopic]:
    topics: dict[str, OffsetFetchRequestTopic] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, OffsetFetchRequestTopic(topic)).partition_indexes.append(partition)
    return [*topics.values()]


def _coordinator_error(response: Any) -> int:
    """Return the error of a coordinator that has moved or is loading, which all partitions have; else 0."""
    codes = (partition.error_code for topic in response.topics for partition in topic.partitions)
    return next((code for code in codes if code in COORDINATOR_NOT_READY), 0)


def _read(response: Any, value: Callable[[Any], Any]) -> Iterator[tuple[TopicPartition, Any | KafkaError]]:
    for topic in response.topics:
        for partition in topic.partitions:
            where = f"{topic.name}/{partition.partition_index}"
            yield (topic.name, partition.partition_index), outcome(where, partition.error_code, None, value(partition))
