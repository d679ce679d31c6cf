"""Port of consumer groups to their broker: topics, settings, and work that takes long."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol, TypeVar
from uuid import UUID

import attrs

from pylogbroker.groups.consumer.requests import MaySee

T = TypeVar("T")


@attrs.frozen
class InvalidExpression:
    """Reason why an expression cannot be read."""

    why: str


Matches = Mapping[str, frozenset[str] | InvalidExpression]
"""Matching topics by regular expression."""


@attrs.frozen
class TopicShape:
    """`racks` are those of each partition's replicas; empty if no broker has a rack. `racks_digest` is of them."""

    topic_id: UUID
    partitions: int
    racks: tuple[frozenset[str], ...] = ()
    racks_digest: bytes = b""


@attrs.frozen
class GroupTimes:
    """Times of one group; the group's own settings may replace those of the broker."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


class GroupPort(Protocol):
    @property
    def topics_version(self) -> int:
        """Return a number that grows when topics are created or deleted."""

    def topic(self, name: str) -> TopicShape | None: ...

    def topic_name(self, topic_id: UUID) -> str | None: ...

    def times_of(self, group_id: str) -> GroupTimes: ...

    def compute(self, work: Callable[[], T], size: int, done: Callable[[T | Exception, int], None]) -> None:
        """Call `work`, in a thread if it is long; call `done` with its result or failure and the time in ms.

        `size` is the number of members and partitions.
        """

    def resolve(self, expressions: Collection[str], may_see: MaySee, done: Callable[[Matches, int], None]) -> None:
        """Match regular expressions with the names of topics; call `done` with the result and the time in ms."""

    def member_removed(self, group_id: str, member_id: str, why: str) -> None:
        """Report a member that was removed without its request."""

    def assignment_rejected(self, group_id: str, why: str) -> None:
        """Report an assignor's answer that breaks a rule: the group keeps its target assignment."""


class _NoTopics:
    """Port without topics, in which work is done at once."""

    topics_version = 0

    def topic(self, name: str) -> TopicShape | None:
        return None

    def topic_name(self, topic_id: UUID) -> str | None:
        return None

    def times_of(self, group_id: str) -> GroupTimes:
        return GroupTimes()

    def compute(self, work: Callable[[], T], size: int, done: Callable[[T | Exception, int], None]) -> None:
        done(work(), 0)

    def resolve(self, expressions: Collection[str], may_see: MaySee, done: Callable[[Matches, int], None]) -> None:
        done(dict.fromkeys(expressions, frozenset()), 0)

    def member_removed(self, group_id: str, member_id: str, why: str) -> None:
        """Do nothing."""

    def assignment_rejected(self, group_id: str, why: str) -> None:
        """Do nothing."""


NO_TOPICS: Final[GroupPort] = _NoTopics()
"""For coordinators of classic groups alone."""
