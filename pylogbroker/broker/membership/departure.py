"""Departure of a broker from ISRs after a crash, before it registers again: it may have lost its last records.

The controller removes a broker from ISRs when its registration ends. A controller that is elected after the broker
has registered again does not know that it was away, and would let it lead. So the broker waits until the tree shows
that it has left. It need not leave an ISR whose other members are down, too: nobody else could lead.
"""

from __future__ import annotations

from collections.abc import Iterable

from twisted.internet.interfaces import IReactorTime

from pylogbroker.interfaces import ITree, NoNode, Watch
from pylogbroker.java.text import parse_whole
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.image import PartitionKey
from pylogbroker.tree.awaited_change import AwaitedChange


async def wait_until_departed(
    tree: ITree, broker_id: int, partitions: Iterable[PartitionKey], clock: IReactorTime, deadline: float
) -> list[PartitionKey]:
    """Wait until the broker is in no ISR of `partitions` with another live broker; return the rest at the deadline.

    Of thousands of partitions, one is watched at a time: the controller changes their ISRs together.
    """
    remaining = list(partitions)
    while remaining:
        change = AwaitedChange()
        watched = remaining[-1]
        await tree.exists(zk_paths.partition_state(*watched), change)
        remaining = await _not_departed(tree, broker_id, remaining, change)
        if clock.seconds() >= deadline:
            break
        if watched in remaining[-1:]:
            await change.wait(clock, deadline)
    return remaining


async def _not_departed(
    tree: ITree, broker_id: int, partitions: list[PartitionKey], brokers_changed: Watch
) -> list[PartitionKey]:
    nodes = await tree.get_many([zk_paths.partition_state(*key) for key in partitions])
    try:
        live = {parse_whole(name, 32) for name in await tree.children(zk_paths.BROKER_IDS, brokers_changed)} - {
            broker_id
        }
    except NoNode:
        live = set()
    remaining = []
    for key, node in zip(partitions, nodes, strict=True):
        isr = () if node is None else zk_schema.decode_partition(node.data).isr
        if broker_id in isr and not live.isdisjoint(isr):
            remaining.append(key)
    return remaining
