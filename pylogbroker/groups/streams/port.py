"""Port of groups of Kafka Streams to their broker: topics, settings, and work that takes long."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

import attrs

from pylogbroker.groups.consumer.port import TopicShape
from pylogbroker.groups.streams.configuration import TopicToCreate

T = TypeVar("T")


@attrs.frozen
class StreamsSettings:
    """Settings of one group; the group's own settings may replace those of the broker."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    offset_interval_ms: int = 60_000
    recovery_lag: int = 10_000
    standbys: int = 0
    warmups: int = 2
    tag_keys: tuple[str, ...] = ()
    assignor: str = "sticky"

    @property
    def of_assignment(self) -> dict[str, str]:
        """Return the settings whose changes let a group be assigned again, as Kafka stores them."""
        settings = {"num.standby.replicas": str(self.standbys)}
        if self.tag_keys:
            settings["rack.aware.assignment.tags"] = ",".join(self.tag_keys)
        return settings


class StreamsPort(Protocol):
    def topic(self, name: str) -> TopicShape | None: ...

    def settings_of(self, group_id: str) -> StreamsSettings: ...

    def compute(self, work: Callable[[], T], size: int, done: Callable[[T | Exception, int], None]) -> None:
        """Call `work`, in a thread if it is long; call `done` with its result or failure and the time in ms.

        `size` is the number of members and tasks.
        """

    def create_topics(self, group_id: str, topics: Iterable[TopicToCreate]) -> None:
        """Begin to create internal topics of a group."""

    def creation_failure(self, group_id: str) -> str:
        """Return why the last creation for a group failed; empty if it did not."""

    def member_removed(self, group_id: str, member_id: str, why: str) -> None:
        """Report a member that was removed without its request."""

    def assignment_rejected(self, group_id: str, why: str) -> None:
        """Report an assignment that failed: the group keeps its target assignment."""


class _NoStreams:
    """Port without topics, in which work is done at once."""

    def topic(self, name: str) -> TopicShape | None:
        return None

    def settings_of(self, group_id: str) -> StreamsSettings:
        return StreamsSettings()

    def compute(self, work: Callable[[], T], size: int, done: Callable[[T | Exception, int], None]) -> None:
        done(work(), 0)

    def create_topics(self, group_id: str, topics: Iterable[TopicToCreate]) -> None:
        """Do nothing."""

    def creation_failure(self, group_id: str) -> str:
        return ""

    def member_removed(self, group_id: str, member_id: str, why: str) -> None:
        """Do nothing."""

    def assignment_rejected(self, group_id: str, why: str) -> None:
        """Do nothing."""


NO_STREAMS: Final[StreamsPort] = _NoStreams()
"""For coordinators without groups of Kafka Streams."""
