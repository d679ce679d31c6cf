"""Who we are: the cluster's id, the broker's number and its log directories, agreed on in the tree."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

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


async def directories(tree: ITree, broker_id: int) -> dict[str, str]:
    """The ids of the log directories that a broker used last, by their paths."""
    [node] = await tree.get_many([paths.broker_directories(broker_id)])
    return {} if node is None else layout.decode_directories(node.data)


async def remember_directories(tree: ITree, broker_id: int, used: Mapping[str, str]) -> None:
    """Keep which log directories a broker uses."""
    path, data = paths.broker_directories(broker_id), layout.encode_directories(used)
    [node] = await tree.get_many([path])
    if node is None:
        await tree.commit([Create(path, data)])
    elif node.data != data:
        await tree.commit([SetData(path, data)])


async def topics(tree: ITree) -> dict[str, layout.TopicNode]:
    """Every topic, also those that are being deleted, with its id and the replicas of its partitions."""
    nodes = await tree.children_with_data(paths.TOPICS)
    return {name: layout.decode_topic(node.data) for name, node in nodes.items()}


async def owners(tree: ITree) -> frozenset[int]:
    """The brokers that partitions were placed on."""
    replicas = (topic.replicas.values() for topic in (await topics(tree)).values())
    return frozenset(broker for placed in replicas for brokers in placed for broker in brokers)
