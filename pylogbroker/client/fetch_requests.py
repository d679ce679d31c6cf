"""Fetch requests without a session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.config import Values
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

NAMES_VERSION_MAX: Final = 12  # later versions have topic ids instead of names
_RESPONSE_BYTES_MAX: Final = 0x7FFFFFFF


@attrs.frozen
class FetchTarget:
    topic: str
    partition: int
    offset: int
    max_bytes: int
    topic_id: UUID = NO_ID
    """Replaces the name after NAMES_VERSION_MAX."""


def fetch_request(
    settings: Values,
    targets: Iterable[FetchTarget],
    *,
    wait_ms: int,
    min_bytes: int = 1,
    max_bytes: int = _RESPONSE_BYTES_MAX,
) -> FetchRequest:
    """Return a fetch of targets in different partitions, without the rack.

    With the rack, a broker may answer with a nearer replica instead of records (KIP-392).
    """
    topics: dict[str, FetchTopic] = {}
    for target in targets:
        topic = topics.setdefault(target.topic, FetchTopic(target.topic, target.topic_id))
        topic.partitions.append(
            FetchPartition(target.partition, fetch_offset=target.offset, partition_max_bytes=target.max_bytes)
        )
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(settings.text("isolation.level") == "read_committed"),
        topics=list(topics.values()),
    )
