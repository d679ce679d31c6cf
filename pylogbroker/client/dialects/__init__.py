"""The protocols that a `SimpleConsumer` speaks, one connection each: Kafka's, and the one of 0.7.

============  =====================================================
`kafka`       Kafka's protocol, any version of it
`simple`      the protocol of 0.7: positions for offsets, no groups
============  =====================================================

Both answer the same questions, in the same values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.client.messages import MessageSet
from pylogbroker.errors import KafkaError
from pylogbroker.interfaces import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2


@attrs.frozen
class Wanted:
    """At most so many bytes of one partition from an offset on."""

    topic: str
    partition: int
    offset: int
    max_bytes: int


@attrs.frozen(eq=False)
class Fetched:
    """What came of one `Wanted`: its messages, or why there are none.

    `is_cut` is whether there is a message that was not sent, or not whole, because of its size.
    """

    messages: MessageSet
    is_cut: bool = False
    error: KafkaError | None = None


@attrs.frozen
class Wait:
    """How long a broker may wait for how many bytes, in milliseconds."""

    max_ms: int = 0
    min_bytes: int = 0


class Dialect(Protocol):
    """One connection to one broker. Each call fails with what ends the connection, or the broker's error."""

    def fetch(self, wanted: Sequence[Wanted], wait: Wait) -> Deferred[list[Fetched]]:
        """Something for each, in the same order."""

    def offsets_before(self, topic: str, partition: int, time: int, most: int) -> Deferred[list[int]]:
        """Offsets of what was written before a time, or LATEST or EARLIEST, newest first."""

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str) -> Deferred[None]:
        """Keep them for the group."""

    def committed(self, group: str, partitions: Sequence[TopicPartition]) -> Deferred[dict[TopicPartition, int | None]]:
        """What is kept for the group; None for what is not."""

    def is_open(self) -> bool:
        """Whether the connection can be used."""

    def close(self) -> Deferred[None]:
        """Fires when the connection is gone."""
