"""Automatic elections of preferred leaders. Source: KafkaController.checkAndTriggerAutoLeaderRebalance.

A broker is out of balance if others lead more than a share of the partitions that prefer it. Its partitions that are
not being reassigned then get their preferred leaders back.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from pylogbroker.metadata.image import PartitionKey, PartitionState


def preferred_elections(
    partitions: Iterable[tuple[PartitionKey, PartitionState]], live: Container[int], percentage_max: int
) -> Iterator[PartitionKey]:
    """Yield partitions of live brokers out of balance; `percentage_max` is leader.imbalance.per.broker.percentage."""
    preferring: dict[int, int] = {}
    led_by_others: dict[int, list[PartitionKey]] = {}
    for key, state in partitions:
        broker = state.replicas[0]
        preferring[broker] = preferring.get(broker, 0) + 1
        if state.leader != broker and state.is_stored:
            others = led_by_others.setdefault(broker, [])
            if not state.is_reassigned:
                others.append(key)
    for broker, keys in sorted(led_by_others.items()):
        if broker in live and 100 * len(keys) > percentage_max * preferring[broker]:
            yield from keys
