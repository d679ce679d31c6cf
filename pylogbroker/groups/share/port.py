"""Port of share groups to their broker: topics, settings, states of partitions, and work that takes long."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol, TypeVar
from uuid import UUID

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.consumer.port import GroupTimes, TopicShape

T = TypeVar("T")
StatesDone = Callable[[Mapping[TopicIdPartition, ErrorCode], int], None]
"""Called with the error of each partition, and the time in ms."""


class SharePort(Protocol):
    def topic(self, name: str) -> TopicShape | None: ...

    def topic_name(self, topic_id: UUID) -> str | None: ...

    def times_of(self, group_id: str) -> GroupTimes: ...

    def compute(self, work: Callable[[], T], size: int, done: Callable[[T | Exception, int], None]) -> None:
        """Call `work`, in a thread if it is long; call `done` with its result or failure and the time in ms.

        `size` is the number of members and partitions.
        """

    def initialize(
        self, group_id: str, state_epoch: int, starts: Mapping[TopicIdPartition, int], done: StatesDone
    ) -> None:
        """Make states of partitions, with their start offsets."""

    def delete(self, group_id: str, partitions: Collection[TopicIdPartition], done: StatesDone) -> None:
        """Delete states of partitions."""

    def member_removed(self, group_id: str, member_id: str, why: str) -> None:
        """Report a member that was removed without its request."""

    def assignment_rejected(self, group_id: str, why: str) -> None:
        """Report an assignment that failed: the group keeps its target assignment."""

    def states_failed(self, group_id: str, error: ErrorCode) -> None:
        """Report states that could not be made or deleted; they are tried again."""


class _NoShares:
    """Port without topics, in which work is done at once."""

    def topic(self, name: str) -> TopicShape | None:
        return None

    def topic_name(self, topic_id: UUID) -> str | None:
        return None

    def times_of(self, group_id: str) -> GroupTimes:
        return GroupTimes()

    def compute(self, work: Callable[[], T], size: int, done: Callable[[T | Exception, int], None]) -> None:
        done(work(), 0)

    def initialize(
        self, group_id: str, state_epoch: int, starts: Mapping[TopicIdPartition, int], done: StatesDone
    ) -> None:
        done(dict.fromkeys(starts, ErrorCode.COORDINATOR_NOT_AVAILABLE), 0)

    def delete(self, group_id: str, partitions: Collection[TopicIdPartition], done: StatesDone) -> None:
        done(dict.fromkeys(partitions, ErrorCode.NONE), 0)

    def member_removed(self, group_id: str, member_id: str, why: str) -> None:
        """Do nothing."""

    def assignment_rejected(self, group_id: str, why: str) -> None:
        """Do nothing."""

    def states_failed(self, group_id: str, error: ErrorCode) -> None:
        """Do nothing."""


NO_SHARES: Final[SharePort] = _NoShares()
"""For coordinators without share groups."""
