"""Automatic elections of preferred leaders. Source: KafkaController.checkAndTriggerAutoLeaderRebalance.

A broker is out of balance if others lead more than a share of the partitions that prefer it. Its partitions that are
not being reassigned then get their preferred leaders back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, Container

from pylogbroker.metadata.image import PartitionKey, PartitionState


async def preferred_elections(
    partitions: AsyncIterable[tuple[PartitionKey, PartitionState]], live: Container[int], percentage_max: int
) -> list[PartitionKey]:
    """Return partitions of live brokers out of balance; `percentage_max` is leader.imbalance.per.broker.percentage."""
    preferring: Counter[int] = Counter()
    led_by_others: dict[int, list[tuple[PartitionKey, PartitionState]]] = {}
    async for key, state in partitions:
        broker = state.replicas[0]
        preferring[broker] += 1
        if state.leader != broker and state.is_stored:
            led_by_others.setdefault(broker, []).append((key, state))
    return [
        key
        for broker, others in sorted(led_by_others.items())
        if broker in live and 100 * len(others) > percentage_max * preferring[broker]
        for key, state in others
        if not state.is_reassigned
    ]
