"""Partitions by name, and what members of groups subscribe to."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

TopicPartition = tuple[str, int]


@attrs.frozen
class Subscription:
    """Subscription of a joining member."""

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()  # its current partitions; only if cooperative
    user_data: bytes = b""  # result of `subscription_user_data`
    generation: int = -1  # of the group when `owned` was assigned; -1 if unknown
    instance_id: str | None = None  # `group.instance.id`
    rack: str | None = None  # `client.rack`
