"""Who we are: the cluster's id and the broker's number, agreed on in the tree."""

from __future__ import annotations

import uuid

from pylogbroker.coordination import layout, paths
from pylogbroker.interfaces import Create, ITree, NodeExists, SetData


async def lay_out(tree: ITree) -> None:
    """Create the nodes that are always there."""
    found = await tree.get_many(paths.PERSISTENT)
    missing = [Create(path) for path, node in zip(paths.PERSISTENT, found, strict=True) if node is None]
    if missing:
        await tree.commit(missing)


async def cluster_id(tree: ITree, proposed: str | None = None) -> str:
    """The cluster's id; a cluster without one takes the proposed one, or a new one."""
    fresh = proposed or layout.id_text(uuid.uuid4())
    try:
        await tree.commit([Create(paths.CLUSTER_ID, layout.encode_cluster_id(fresh))])
    except NodeExists:
        return layout.decode_cluster_id((await tree.get(paths.CLUSTER_ID)).data)
    return fresh


async def new_broker_id(tree: ITree, reserved: int) -> int:
    """A number above `reserved` that no broker of the cluster was given before."""
    await tree.commit([SetData(paths.BROKER_SEQUENCE, b"")])
    return reserved + (await tree.get(paths.BROKER_SEQUENCE)).stat.version


async def register(tree: ITree, broker_id: int, broker: layout.BrokerNode, now_ms: int) -> int:
    """Announce a living broker; return its epoch, larger than that of any earlier life."""
    path = paths.broker(broker_id)
    await tree.commit([Create(path, layout.encode_broker(broker, now_ms), ephemeral=True)])
    return (await tree.get(path)).stat.created


async def owners(tree: ITree) -> frozenset[int]:
    """The brokers that partitions were placed on."""
    topics = await tree.children_with_data(paths.TOPICS)
    replicas = (layout.decode_topic(node.data).replicas.values() for node in topics.values())
    return frozenset(broker for placed in replicas for brokers in placed for broker in brokers)
