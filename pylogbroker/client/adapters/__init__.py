"""Protocol adapters of `SimpleConsumer`, each for one connection.

`kafka` speaks Kafka's protocol, `pylogbroker.legacy07.client.adapter` that of Kafka 0.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.client.fetch_requests import FetchTarget
from pylogbroker.client.messages import MessageSet
from pylogbroker.errors import KafkaError
from pylogbroker.interfaces import TopicPartition


@attrs.frozen(eq=False, repr=False)
class FetchedMessages:
    """`is_cut`: the first message exceeds `max_bytes`."""

    messages: MessageSet
    is_cut: bool = False
    error: KafkaError | None = None


@attrs.frozen
class Wait:
    """Limits of a wait; `min_bytes` end it earlier."""

    max_ms: int = 0
    min_bytes: int = 0


class ProtocolAdapter(Protocol):
    """Connection to one broker. Calls fail with its error or the broker's."""

    def fetch(self, targets: Sequence[FetchTarget], wait: Wait) -> Deferred[list[FetchedMessages]]:
        """Return results in the order of `targets`."""

    def offsets_before(self, topic: str, partition: int, time: int, most: int) -> Deferred[list[int]]:
        """Return offsets before a time in ms, or LATEST or EARLIEST; newest first."""

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str) -> Deferred[None]: ...

    def committed(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> Deferred[dict[TopicPartition, int | None]]: ...

    def is_open(self) -> bool: ...

    def close(self) -> Deferred[None]:
        """Fire when closed."""
