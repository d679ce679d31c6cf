"""Partitions by topic id, as groups of KIP-848 name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

TopicIdPartition = tuple[UUID, int]
FindTopicId = Callable[[str], UUID | None]
"""Returns the id of a topic by its name; None if it does not exist."""


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[UUID, list[int]]:
    """Return the sorted partition numbers of each topic."""
    topics: dict[UUID, list[int]] = {}
    for topic_id, number in partitions:
        topics.setdefault(topic_id, []).append(number)
    for numbers in topics.values():
        numbers.sort()
    return topics
