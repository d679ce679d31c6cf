"""Base of groups whose members brokers assign: of KIP-848, share groups, and those of Kafka Streams.

Each change is noted, so that `take_changes` returns what has to be written: the keys of records, whose values are the
present state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import attrs

from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.offsets import GroupOffsets
from pylogbroker.groups.requests import Commit, GroupDescription, GroupOverview, GroupType

RecordKey = tuple[Any, str]
"""Kind of the record, and its name within the group, such as a member id; empty for the group's own records."""


class AssignedMember(Protocol):
    @property
    def member_id(self) -> str: ...


class CommittingMember(AssignedMember, Protocol):
    @property
    def instance_id(self) -> str | None: ...
    @property
    def epoch(self) -> int: ...
    @property
    def gives_place(self) -> bool:
        """Return whether a new member with the same instance id takes the place of this one."""


M = TypeVar("M", bound=AssignedMember)
C = TypeVar("C", bound=CommittingMember)
T = TypeVar("T")
"""Assignment of one member."""

_DEAD: Final = "Dead"


@attrs.define(eq=False, repr=False)
class AssignedGroup(Generic[M, T]):
    """Group of members that brokers assign. Subclasses say which kinds of records it has.

    `kinds` is an enumeration in the order in which records are written. It has at least MEMBER, GROUP,
    TARGET_OF_MEMBER, TARGET and CURRENT.
    """

    type: ClassVar[GroupType]
    protocol_type: ClassVar[str]
    no_target: ClassVar[Any]
    first_epoch: ClassVar[int] = 1
    kinds: ClassVar[Any]
    removed_last: ClassVar[tuple[Any, ...]]
    """Kinds of the group's own records whose tombstones follow those of its members."""
    has_pending: ClassVar[bool] = False
    consumes_partitions: ClassVar[bool] = True

    group_id: str
    partition: int
    since: int  # ms when the epoch was bumped last
    epoch: int = 0
    target_epoch: int = 0
    assigned_ms: int = 0  # when the target assignment was computed last; 0 if never
    metadata_hash: int = 0
    is_dead: bool = False
    members: dict[str, M] = attrs.field(factory=dict, init=False)
    target: dict[str, T] = attrs.field(factory=dict, init=False)
    _changes: dict[RecordKey, None] = attrs.field(factory=dict, init=False)

    @property
    def state(self) -> Enum:
        """Return the state; its value is the name that Kafka's protocol has for it."""
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        return not (self.members or self.is_dead)

    def target_of(self, member_id: str) -> T:
        target: T = self.target.get(member_id, self.no_target)
        return target

    def die(self, now_ms: int) -> None:
        self.is_dead = True

    def describe(self) -> GroupDescription:
        """Return what DescribeGroups has: an API of its own describes each type of these groups."""
        return GroupDescription(ErrorCode.NONE, self.group_id, _DEAD, type=self.type)

    def overview(self) -> GroupOverview:
        return GroupOverview(self.group_id, self.protocol_type, self.state.value, self.type)

    # -- members -------------------------------------------------------------------------------------------------

    def add(self, member: M) -> None:
        self.members[member.member_id] = member
        self._note_member(member.member_id)

    def remove(self, member_id: str) -> None:
        del self.members[member_id]
        self.target.pop(member_id, None)
        self._note_member(member_id)

    # -- epochs and targets --------------------------------------------------------------------------------------

    def bump(self, now_ms: int) -> None:
        self.epoch = self.epoch + 1 if self.epoch else self.first_epoch
        self.since = now_ms
        self._changes[self.kinds.GROUP, ""] = None

    def set_target(self, epoch: int, target: Mapping[str, T], now_ms: int) -> None:
        """Set the target assignment of an epoch; members that have left meanwhile have none."""
        for member_id in self.members:
            assigned = target.get(member_id, self.no_target)
            if assigned != self.target_of(member_id) or member_id not in self.target:
                self.target[member_id] = assigned
                self._changes[self.kinds.TARGET_OF_MEMBER, member_id] = None
        self.target_epoch, self.assigned_ms = epoch, now_ms
        self._changes[self.kinds.TARGET, ""] = None

    # -- what is to be written -----------------------------------------------------------------------------------

    def take_changes(self) -> dict[RecordKey, None]:
        """Return the keys of what has changed, in the order in which records are written: removed ones come first."""
        if not self._changes:
            return {}
        changes, self._changes = self._changes, {}
        order = {kind: place for place, kind in enumerate(self.kinds)}
        removal_order = {kind: place for place, kind in enumerate(self._removal_order)}
        of_members = self._kinds_of_members

        def place(change: RecordKey) -> tuple[bool, int]:
            kind, name = change
            is_removed = self.is_dead or (kind in of_members and name not in self.members)
            return not is_removed, (removal_order if is_removed else order)[kind]

        return dict.fromkeys(sorted(changes, key=place))

    @property
    def _kinds_of_members(self) -> tuple[Any, ...]:
        return self.kinds.MEMBER, self.kinds.TARGET_OF_MEMBER, self.kinds.CURRENT

    @property
    def _removal_order(self) -> tuple[Any, ...]:
        """Return the kinds in the order of tombstones: a member's metadata come last, or Kafka cannot load the log."""
        kinds = self.kinds
        return kinds.CURRENT, kinds.TARGET_OF_MEMBER, kinds.TARGET, kinds.MEMBER, *self.removed_last

    @property
    def has_changes(self) -> bool:
        return bool(self._changes)

    def put_back(self, changes: Collection[RecordKey]) -> None:
        """Let changes be written again: they were not stored."""
        self._changes.update(dict.fromkeys(changes))

    def note_all(self) -> None:
        """Let everything be written."""
        own_kinds = (kind for kind in self.kinds if kind not in self._kinds_of_members)
        self._changes.update(dict.fromkeys((kind, "") for kind in own_kinds))
        for member_id in self.members:
            self._note_member(member_id)

    def note_member_change(self, member: M) -> None:
        """Let the metadata of a member be written."""
        self._changes[self.kinds.MEMBER, member.member_id] = None

    def _note_member(self, member_id: str) -> None:
        """Let all records of a member be written."""
        for kind in self._kinds_of_members:
            self._changes[kind, member_id] = None


@attrs.define(eq=False, repr=False)
class CommittingGroup(AssignedGroup[C, T]):
    """AssignedGroup that commits offsets, and whose members may be static (KIP-345)."""

    static: dict[str, str] = attrs.field(factory=dict, init=False)  # instance id: member id
    offsets: GroupOffsets = attrs.field(factory=GroupOffsets)

    def add(self, member: C) -> None:
        super().add(member)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        instance_id = self.members[member_id].instance_id
        super().remove(member_id)
        if instance_id is not None and self.static.get(instance_id) == member_id:
            del self.static[instance_id]

    def check_static(self, member_id: str, instance_id: str) -> None:
        """Raise KafkaError unless an instance id is that of this member."""
        current_id = self.static.get(instance_id)
        if current_id is None:
            raise KafkaError(
                f"group {self.group_id!r} has no member with the instance id {instance_id!r}",
                ErrorCode.UNKNOWN_MEMBER_ID,
            )
        if current_id != member_id:
            raise KafkaError(
                f"member {current_id!r} has taken over the instance id {instance_id!r}", ErrorCode.FENCED_INSTANCE_ID
            )

    def find_former(self, instance_id: str | None, members_max: int) -> C | None:
        """Return the static member whose place a new member takes, or None. Raise KafkaError if it may not join."""
        current_id = None if instance_id is None else self.static.get(instance_id)
        if current_id is not None:
            current = self.members[current_id]
            if current.gives_place:
                return current
            raise KafkaError(
                f"member {current_id!r} still has the instance id {instance_id!r}; it is free when that member leaves,"
                " or its session ends",
                ErrorCode.UNRELEASED_INSTANCE_ID,
            )
        if len(self.members) >= members_max:
            raise KafkaError(
                f"group {self.group_id!r} has {len(self.members)} members, the most that"
                f" group.{self.type.value}.max.size allows",
                ErrorCode.GROUP_MAX_SIZE_REACHED,
            )
        return None

    def check_reader(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Check who fetches offsets; without member id and epoch it is nobody."""
        if epoch < 0 and not member_id:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else self._wrong_epoch(member)

    def _wrong_epoch(self, member: C) -> ErrorCode:
        return ErrorCode.STALE_MEMBER_EPOCH

    def _committing(self, commit: Commit) -> C | ErrorCode:
        if commit.instance_id is not None and self.static.get(commit.instance_id, commit.member_id) != commit.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        return self.members.get(commit.member_id, ErrorCode.UNKNOWN_MEMBER_ID)

    def expired_offsets(self, now_ms: int, retention_ms: int) -> list[TopicPartition]:
        """Offsets expire after their commit, or after the last member has left, if no member reads the topic."""
        since = 0 if self.members else self.since
        return self.offsets.expired(
            now_ms, retention_ms, lambda offset: max(since, offset.committed), self._topics_read()
        )

    def _topics_read(self) -> Collection[str]:
        """Return the topics whose offsets do not expire: members read them."""
        raise NotImplementedError
