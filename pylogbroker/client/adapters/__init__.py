"""Protocol adapters of `SimpleConsumer`, each for one connection.

`kafka` speaks Kafka's protocol, `pylogbroker.legacy07.client.adapter` that of Kafka 0.7: offsets are byte positions,
and there are no groups. Both implement `ProtocolAdapter`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.client.messages import MessageSet
from pylogbroker.errors import KafkaError
from pylogbroker.interfaces import TopicPartition


@attrs.frozen
class FetchTarget:
    """Request for up to `max_bytes` of one partition from an offset."""

    topic: str
    partition: int
    offset: int
    max_bytes: int


@attrs.frozen(eq=False)
class FetchedMessages:
    """Result of one `Wanted`: its messages, or an error.

    `is_cut` is true if the first message did not fit into `max_bytes`.
    """

    messages: MessageSet
    is_cut: bool = False
    error: KafkaError | None = None


@attrs.frozen
class Wait:
    """Limits of a fetch's wait: the time in milliseconds, and the bytes that end it earlier."""

    max_ms: int = 0
    min_bytes: int = 0


class ProtocolAdapter(Protocol):
    """One connection to one broker. Each call fails with the connection's or the broker's error."""

    def fetch(self, wanted: Sequence[FetchTarget], wait: Wait) -> Deferred[list[FetchedMessages]]:
        """Return one result for each request, in the same order."""

    def offsets_before(self, topic: str, partition: int, time: int, most: int) -> Deferred[list[int]]:
        """Return offsets before a time in milliseconds, or LATEST or EARLIEST; newest first."""

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str) -> Deferred[None]:
        """Commit offsets for the group."""

    def committed(self, group: str, partitions: Sequence[TopicPartition]) -> Deferred[dict[TopicPartition, int | None]]:
        """Return the group's committed offsets, or None for a partition without one."""

    def is_open(self) -> bool:
        """Return whether the connection is usable."""

    def close(self) -> Deferred[None]:
        """Close the connection; fires when it is closed."""
