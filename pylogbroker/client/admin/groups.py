"""Groups: list, describe, delete, remove members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import attrs

from pylogbroker.client.admin.group_offsets import GroupOffsetsAdmin
from pylogbroker.client.admin.routing import ItemsFailed, deferred, outcome
from pylogbroker.errors import KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.errors import raise_for
from pylogbroker.wire import WireError
from pylogbroker.wire.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from pylogbroker.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from pylogbroker.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from pylogbroker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from pylogbroker.wire.messages.list_groups import ListGroupsRequest

_REASON = "removed by an administrator"


@attrs.frozen
class GroupListing:
    """Group with its coordinator's broker id. State and type are empty if the broker does not return them."""

    group: str
    protocol_type: str
    state: str
    type: str
    coordinator: int


@attrs.frozen
class MemberDescription:
    """`assignment` is empty while the group rebalances, and for members that are no consumers."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


@attrs.frozen
class GroupDescription:
    """State `Dead` means that there is no such group."""

    group: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]


@attrs.frozen
class MemberToRemove:
    """Member by its id, or a static one by its instance id."""

    member_id: str = ""
    instance_id: str | None = None


Groups = list[GroupListing]


@attrs.frozen(eq=False)
class GroupAdmin(GroupOffsetsAdmin):
    @deferred
    async def list(self, *, states: Sequence[str] = ()) -> Sequence[GroupListing]:
        """Return the groups of all brokers, sorted by name; `states` selects some, such as `Empty`."""
        found: Groups = []
        for node_id, response in (await self._router.all_brokers(lambda: ListGroupsRequest([*states]))).items():
            raise_for(response.error_code)
            found += [
                GroupListing(each.group_id, each.protocol_type, each.group_state, each.group_type, node_id)
                for each in response.groups
            ]
        return sorted(found, key=lambda it: it.group)

    @deferred
    async def describe(self, groups: Iterable[str]) -> dict[str, GroupDescription]:
        """Return groups by name."""

        def read(response: DescribeGroupsResponse) -> Iterator[tuple[str, GroupDescription | KafkaError]]:
            for each in response.groups:
                name = each.group_id
                yield name, outcome(f"group {name}", each.error_code, None, _description(each))

        return await self._router.ask(self._route(), groups, lambda names: DescribeGroupsRequest(names), read)

    @deferred
    async def delete(self, groups: Iterable[str]) -> None:
        """Delete groups without members, with their offsets."""

        def read(response: DeleteGroupsResponse) -> Iterator[tuple[str, KafkaError | None]]:
            for each in response.results:
                yield each.group_id, outcome(f"group {each.group_id}", each.error_code, None, None)

        await self._router.ask(self._route(), groups, lambda names: DeleteGroupsRequest(names), read)

    @deferred
    async def remove_members(self, group: str, members: Iterable[MemberToRemove] | None = None) -> None:
        """Remove members; by default all of the group's."""
        if members is None:
            described = (await self.describe([group]))[group].members
            members = [
                MemberToRemove("" if each.instance_id else each.member_id, each.instance_id) for each in described
            ]
        wanted = [*members]
        if not wanted:
            return
        rows = [MemberIdentity(each.member_id, each.instance_id, _REASON) for each in wanted]
        response: LeaveGroupResponse = await self._ask_group(
            group, lambda: LeaveGroupRequest(group, members=rows), lambda response: response.error_code
        )
        errors: dict[MemberToRemove, Exception] = {}
        for each in response.members:
            found = outcome(
                f"member {each.group_instance_id or each.member_id} of group {group}", each.error_code, None, None
            )
            if found is not None:
                errors[MemberToRemove(each.member_id, each.group_instance_id)] = found
        if errors:
            raise ItemsFailed(errors, {each: None for each in wanted if each not in errors})


def _description(group: DescribedGroup) -> GroupDescription:
    is_consumer = group.protocol_type == PROTOCOL_TYPE
    members = tuple(_member(each, is_consumer) for each in group.members)
    return GroupDescription(group.group_id, group.group_state, group.protocol_type, group.protocol_data, members)


def _member(member: DescribedGroupMember, is_consumer: bool) -> MemberDescription:
    assignment: tuple[TopicPartition, ...] = ()
    if is_consumer and member.member_assignment:
        with suppress(WireError):  # of another client, in a form of its own
            assignment = decode_assignment(member.member_assignment)
    return MemberDescription(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, tuple(sorted(assignment))
    )
