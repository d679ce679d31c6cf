"""Numbers of partitions by broker: which it leads, which it has, and which it does not have in sync."""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs

from pylogbroker.broker.services import Services
from pylogbroker.metadata.image import NO_LEADER, PartitionState

_TOPICS_AT_ONCE: Final = 20
"""Topics whose partitions are counted before other work may come: to ask for each partition takes long."""


@attrs.frozen
class Placement:
    """`not_preferred` counts partitions that another replica than the preferred one leads, which is in sync."""

    leaders: Counter[int] = attrs.field(factory=Counter, init=False)
    replicas: Counter[int] = attrs.field(factory=Counter, init=False)
    behind: Counter[int] = attrs.field(factory=Counter, init=False)
    not_preferred: list[tuple[str, int]] = attrs.field(factory=list, init=False)


async def count_placement(services: Services) -> Placement:
    placement = Placement()
    topics = tuple(services.metadata.image.topics.values())
    async for start in services.runtime.slices.over(range(0, len(topics), _TOPICS_AT_ONCE)):
        for topic in topics[start : start + _TOPICS_AT_ONCE]:
            for index, state in topic.partitions.items():
                _count(placement, topic.name, index, state)
    return placement


def _count(placement: Placement, topic: str, index: int, state: PartitionState) -> None:
    placement.leaders[state.leader] += 1
    for replica in state.replicas:
        placement.replicas[replica] += 1
        if replica not in state.isr and replica not in state.adding:
            placement.behind[replica] += 1
    preferred = state.replicas[0] if state.replicas else NO_LEADER
    if preferred != state.leader and preferred in state.isr:
        placement.not_preferred.append((topic, index))
