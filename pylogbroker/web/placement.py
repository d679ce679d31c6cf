"""Numbers of partitions by broker: which it leads, which it has, and which it does not have in sync."""

from __future__ import annotations

from collections import Counter

import attrs

from pylogbroker.broker.services import Services
from pylogbroker.metadata.image import NO_LEADER


@attrs.frozen
class Placement:
    """`not_preferred` counts partitions that another replica than the preferred one leads, which is in sync."""

    leaders: Counter[int] = attrs.field(factory=Counter, init=False)
    replicas: Counter[int] = attrs.field(factory=Counter, init=False)
    behind: Counter[int] = attrs.field(factory=Counter, init=False)
    not_preferred: list[tuple[str, int]] = attrs.field(factory=list, init=False)


async def count_placement(services: Services) -> Placement:
    placement = Placement()
    partitions = (
        (topic.name, index, state)
        for topic in services.metadata.image.topics.values()
        for index, state in topic.partitions.items()
    )
    async for name, index, state in services.runtime.slices.over(partitions):
        placement.leaders[state.leader] += 1
        for replica in state.replicas:
            placement.replicas[replica] += 1
            if replica not in state.isr and replica not in state.adding:
                placement.behind[replica] += 1
        preferred = state.replicas[0] if state.replicas else NO_LEADER
        if preferred != state.leader and preferred in state.isr:
            placement.not_preferred.append((name, index))
    return placement
