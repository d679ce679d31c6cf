"""Live groups that change their protocol, and members of the classic protocol in groups of KIP-848.

    group       event                                               becomes
    ---------   -------------------------------------------------   --------------------------------------------
    classic     a member joins by ConsumerGroupHeartbeat            a consumer group; its members stay, classic
    consumer    a member joins by JoinGroup                         unchanged; the member is classic
    consumer    its last member that is not classic leaves, or a    a classic group that rebalances
                classic static member takes its place

`group.consumer.migration.policy` allows either direction. To a classic member the group looks like this:

    request      answer
    ---------    ------------------------------------------------------------------------------------------------
    JoinGroup    its epoch as generation; it never leads. The subscription says what it owns
    SyncGroup    what is assigned to it; REBALANCE_IN_PROGRESS if there is a newer target assignment
    Heartbeat    REBALANCE_IN_PROGRESS if it has to join again: for a newer target, after it has revoked, or
                 because partitions of its target are free
    LeaveGroup   as in a classic group

It has its rebalance timeout to join again, and then to send SyncGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import attrs

from pylogbroker.coordinators import EventQueue, Reply, Timers, TopicPartition, cancel
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.changes import GroupChanges
from pylogbroker.groups.classic.group import Group as ClassicGroup
from pylogbroker.groups.classic.member import PROTOCOL_TYPE
from pylogbroker.groups.classic.member import Member as ClassicMember
from pylogbroker.groups.classic.rebalance import Rebalancer
from pylogbroker.groups.classic.states import GroupState
from pylogbroker.groups.consumer.group import ConsumerGroup
from pylogbroker.groups.consumer.member import ClassicMembership, ConsumerMember
from pylogbroker.groups.consumer.membership import ConsumerMemberManager
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.consumer.port import GroupPort
from pylogbroker.groups.consumer.states import ReconciliationState
from pylogbroker.groups.record_writer import GroupRecordWriter
from pylogbroker.groups.requests import (
    NO_MEMBER_ID,
    Heartbeat,
    Join,
    JoinResult,
    Leaving,
    Protocols,
    Sync,
    SyncResult,
)
from pylogbroker.groups.settings import GroupSettings
from pylogbroker.interfaces import Subscription
from pylogbroker.wire import WireError
from pylogbroker.wire.consumer_protocol import decode_assignment, decode_subscription, encode_assignment

JoinAgain = Callable[[Join, Reply[JoinResult], int], None]
UPGRADES = frozenset({"bidirectional", "upgrade"})
DOWNGRADES = frozenset({"bidirectional", "downgrade"})
_VERSION_BYTES = 2


@attrs.define(eq=False, repr=False)
class Migration:
    _settings: GroupSettings
    _events: EventQueue
    _timers: Timers
    _members: ConsumerMemberManager
    _rebalancer: Rebalancer
    _writer: GroupRecordWriter
    _changes: GroupChanges[ConsumerGroup]
    _port: GroupPort
    _new_id: Callable[[], str]
    join_again: JoinAgain = attrs.field(init=False)
    """Handles a join of a group that has become a classic one."""

    # -- from one protocol to the other --------------------------------------------------------------------------

    def upgraded(self, former: ClassicGroup, now_ms: int) -> ConsumerGroup:
        """Return a classic group with members as a consumer group; raise KafkaError if it cannot be one."""
        why = self._obstacle(former)
        if why:
            raise KafkaError(f"group {former.group_id!r} has classic members, and {why}", ErrorCode.GROUP_ID_NOT_FOUND)
        try:
            members = [self._from_classic(former, member) for member in former.members.values()]
        except WireError as error:
            raise KafkaError(
                f"group {former.group_id!r} has classic members with unreadable subscriptions: {error}",
                ErrorCode.GROUP_ID_NOT_FOUND,
            ) from error
        group = ConsumerGroup(former.group_id, former.partition, now_ms, former.generation, former.generation)
        group.offsets = former.offsets
        for member in members:
            group.add(member)
            group.target[member.member_id] = frozenset(member.assigned)
        group.note_all()
        for classic in former.members.values():
            former.answer_join(classic, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, classic.member_id))
            former.answer_sync(classic, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        former.stop_timers()
        former.move(GroupState.DEAD, now_ms)
        self._writer.write_tombstones(former, (), former.generation > 0, now_ms)
        for member in members:
            self._members.keep_alive(group, member, now_ms)
        return group

    def _obstacle(self, group: ClassicGroup) -> str:
        if self._settings.consumer.migration_policy not in UPGRADES:
            return "group.consumer.migration.policy does not allow to change its protocol; stop them first"
        if group.protocol_type != PROTOCOL_TYPE:
            return f"they are of protocol type {group.protocol_type!r}, not consumers; choose another group id"
        if len(group.members) >= self._settings.consumer.max_size:
            return "they are more than group.consumer.max.size"
        return ""

    def _from_classic(self, group: ClassicGroup, member: ClassicMember) -> ConsumerMember:
        """Return a member with its last assignment; raise WireError if its metadata is invalid."""
        subscription = decode_subscription(_first_metadata(member.protocols, group.protocol_name))
        assigned = self._ids(decode_assignment(member.assignment))
        return ConsumerMember(
            member.member_id,
            member.instance_id,
            subscription.rack,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            frozenset(subscription.topics),
            classic=ClassicMembership(member.session_timeout_ms, member.protocols),
            epoch=group.generation,
            previous_epoch=group.generation,
            assigned=dict.fromkeys(assigned, group.generation),
        )

    def downgraded(self, group: ConsumerGroup, now_ms: int) -> ClassicGroup | None:
        """Return a group whose members are all classic as a classic group, which rebalances; None if it stays."""
        members = group.members.values()
        settings = self._settings
        if not members or group.is_dead or any(member.classic is None for member in members):
            return None
        if settings.consumer.migration_policy not in DOWNGRADES or len(members) > settings.max_size:
            return None
        # members of another generation lose their partitions; a member that joins has no epoch yet
        generation = max(member.epoch for member in members) or group.epoch
        classic = ClassicGroup(
            group.group_id,
            group.partition,
            self._events,
            since=now_ms,
            generation=generation,
            protocol_type=PROTOCOL_TYPE,
        )
        classic.offsets = group.offsets
        for member in members:
            classic.add(self._to_classic(member))
        classic.protocol_name = classic.select_protocol()
        classic.update_subscriptions()
        classic.state = GroupState.STABLE
        assignments = classic.assignments()
        group.die(now_ms)
        self._members.stop(group, now_ms)
        self._changes.write_tombstones(group, now_ms)
        self._writer.write_group(classic, assignments, now_ms, lambda error, later_ms: None)
        for classic_member in classic.members.values():
            self._rebalancer.keep_alive(classic, classic_member, now_ms)
        self._rebalancer.prepare(classic, now_ms)
        return classic

    def _to_classic(self, member: ConsumerMember) -> ClassicMember:
        membership = member.classic or ClassicMembership(0, ())
        return ClassicMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            membership.session_timeout_ms,
            member.rebalance_timeout_ms,
            membership.protocols,
            assignment=self._assignment(member),
        )

    # -- requests of classic members -----------------------------------------------------------------------------

    def join(self, group: ConsumerGroup, join: Join, reply: Reply[JoinResult], now_ms: int) -> None:
        error = self._check_join(group, join)
        if error:
            self._events.reply(reply, JoinResult(error, join.member_id))
            return
        new_id = join.member_id == NO_MEMBER_ID
        member_id = f"{join.client_id or join.instance_id or 'member'}-{self._new_id()}" if new_id else join.member_id
        if new_id and join.needs_known_id and join.instance_id is None:
            self._events.reply(reply, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return
        member = self._admit(group, join, member_id)
        subscription = decode_subscription(join.protocols[0][1])
        is_new = member.rebalance_timeout_ms == -1
        member.rack_id = subscription.rack or member.rack_id
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.client_id, member.client_host, member.assignor = join.client_id, join.client_host, None
        member.classic = ClassicMembership(join.session_timeout_ms, join.protocols)
        group.note_member_change(member)
        if group.subscribe(member, frozenset(subscription.topics), None) or is_new:
            self._members.bump(group, now_ms)
        self._members.keep_alive(group, member, now_ms)
        if self._members.on_removed(group, now_ms):  # it took the place of the last new member
            self.join_again(attrs.evolve(join, member_id=member_id), reply, now_ms)
            return
        self._members.with_target(group, member, partial(self._joined, group, member, subscription, reply), now_ms)

    def _check_join(self, group: ConsumerGroup, join: Join) -> ErrorCode:
        is_member = join.member_id in group.members or join.instance_id in group.static
        if not is_member and len(group.members) >= self._settings.consumer.max_size:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        names = {name for name, _ in join.protocols}
        for member in group.members.values():
            if member.classic is not None and member.member_id != join.member_id:
                names &= {name for name, _ in member.classic.protocols}
        if join.protocol_type != PROTOCOL_TYPE or not names:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        try:
            decode_subscription(join.protocols[0][1])
        except WireError:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if join.instance_id is not None and join.member_id != NO_MEMBER_ID:
            current_id = group.static.get(join.instance_id)
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current_id != join.member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE

    def _admit(self, group: ConsumerGroup, join: Join, member_id: str) -> ConsumerMember:
        member = group.members.get(member_id)
        if member is not None:
            return member
        new = ConsumerMember(member_id, join.instance_id)
        current_id = group.static.get(join.instance_id) if join.instance_id is not None else None
        if current_id is None:
            group.add(new)
            return new
        current = group.members[current_id]
        current.stop_timers()
        new.topics, new.rack_id, new.rebalance_timeout_ms = current.topics, current.rack_id, 0
        group.take_place(current, new)
        return new

    def _joined(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        subscription: Subscription,
        reply: Reply[JoinResult],
        now_ms: int,
    ) -> None:
        """Let a member take its step, and answer; a client that revokes before it joins owns nothing."""
        if group.is_dead or group.members.get(member.member_id) is not member or member.classic is None:
            code = ErrorCode.NOT_COORDINATOR if group.is_dead else ErrorCode.UNKNOWN_MEMBER_ID
            self._events.reply(reply, JoinResult(code, member.member_id))
            return
        self._members.step(group, member, frozenset(self._ids(subscription.owned)), now_ms)
        name = member.classic.protocols[0][0]
        result = JoinResult(ErrorCode.NONE, member.member_id, member.epoch, PROTOCOL_TYPE, name)
        cancel(member.rebalance)
        self._await_sync(group, member, now_ms)

        def stored(error: ErrorCode, later_ms: int) -> None:
            self._events.reply(reply, JoinResult(error, member.member_id) if error else result)

        self._changes.store(group, now_ms, stored)

    def _await_sync(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        cancel(member.sync)
        fence = self._members.fence_later(group, member, "it has not sent SyncGroup within its rebalance timeout")
        member.sync = self._timers.start(now_ms + max(member.rebalance_timeout_ms, 0), fence)

    def _await_join(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        if member.rebalance is None or not member.rebalance.live:
            fence = self._members.fence_later(group, member, "it has not joined again within its rebalance timeout")
            member.rebalance = self._timers.start(now_ms + max(member.rebalance_timeout_ms, 0), fence)

    def sync(self, group: ConsumerGroup, sync: Sync, reply: Reply[SyncResult], now_ms: int) -> None:
        member = self._find(group, sync.member_id, sync.instance_id, sync.generation)
        if isinstance(member, ErrorCode):
            self._events.reply(reply, SyncResult(member))
            return
        name = member.classic.protocols[0][0] if member.classic is not None else ""
        if sync.protocol_type not in (None, PROTOCOL_TYPE) or sync.protocol_name not in (None, name):
            self._events.reply(reply, SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif group.target_epoch > member.epoch and member.state is not ReconciliationState.UNREVOKED_PARTITIONS:
            self._await_join(group, member, now_ms)
            self._events.reply(reply, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        else:
            cancel(member.sync)
            self._members.keep_alive(group, member, now_ms)
            result = SyncResult(ErrorCode.NONE, PROTOCOL_TYPE, name, self._assignment(member))
            self._events.reply(reply, result)

    def heartbeat(self, group: ConsumerGroup, beat: Heartbeat, now_ms: int) -> ErrorCode:
        member = self._find(group, beat.member_id, beat.instance_id, beat.generation)
        if isinstance(member, ErrorCode):
            return member
        self._members.keep_alive(group, member, now_ms)
        if not self._has_to_join(group, member):
            return ErrorCode.NONE
        self._await_join(group, member, now_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def _has_to_join(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        if member.epoch < group.target_epoch or member.state is ReconciliationState.UNREVOKED_PARTITIONS:
            return True
        if member.state is ReconciliationState.STABLE:
            return False
        missing = group.target_of(member.member_id) - member.assigned.keys()
        return any(group.holder(partition) is None for partition in missing)

    def leave(self, group: ConsumerGroup, leaving: Sequence[Leaving], now_ms: int) -> tuple[ErrorCode, ...]:
        outcomes = tuple(self._leave(group, who, now_ms) for who in leaving)
        self._changes.store(group, now_ms, lambda error, later_ms: None)
        return outcomes

    def _leave(self, group: ConsumerGroup, who: Leaving, now_ms: int) -> ErrorCode:
        member_id = who.member_id
        if member_id == NO_MEMBER_ID:
            member_id = group.static.get(who.instance_id or "", NO_MEMBER_ID)
        elif who.instance_id is not None and group.static.get(who.instance_id, member_id) != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        member = group.members.get(member_id)
        if member is None or member.classic is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._members.remove(group, member, now_ms)
        return ErrorCode.NONE

    def _find(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ConsumerMember | ErrorCode:
        if instance_id is not None and group.static.get(instance_id, member_id) != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        member = group.members.get(member_id)
        if member is None or member.classic is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return member if generation == member.epoch else ErrorCode.ILLEGAL_GENERATION

    # -- partitions by name --------------------------------------------------------------------------------------

    def _ids(self, partitions: Iterable[TopicPartition]) -> list[TopicIdPartition]:
        shapes = ((self._port.topic(topic), number) for topic, number in partitions)
        return [(shape.topic_id, number) for shape, number in shapes if shape is not None]

    def _assignment(self, member: ConsumerMember) -> bytes:
        names = ((self._port.topic_name(topic_id), number) for topic_id, number in member.assigned)
        partitions = [(name, number) for name, number in names if name is not None]
        metadata = b"" if member.classic is None else member.classic.protocols[0][1]
        version = int.from_bytes(metadata[:_VERSION_BYTES]) if len(metadata) >= _VERSION_BYTES else 0
        return encode_assignment(partitions, min(version, 3))


def _first_metadata(protocols: Protocols, name: str | None) -> bytes:
    """Return the metadata of the group's protocol, or of the member's first one."""
    return next((metadata for protocol, metadata in protocols if protocol == name), protocols[0][1])
