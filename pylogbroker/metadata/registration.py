"""Identities in the coordination tree: cluster, brokers and log directories."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from pylogbroker.interfaces import Create, ITree, NodeExists, SetData
from pylogbroker.metadata import zk_paths, zk_schema


async def create_permanent_nodes(tree: ITree) -> None:
    found = await tree.get_many(zk_paths.PERSISTENT)
    missing = [Create(path) for path, node in zip(zk_paths.PERSISTENT, found, strict=True) if node is None]
    if missing:
        await tree.commit(missing)


async def cluster_id(tree: ITree, proposed: str | None = None) -> str:
    """Return the id; a new cluster takes the proposed or a random one."""
    fresh = proposed or zk_schema.id_text(uuid.uuid4())
    try:
        await tree.commit([Create(zk_paths.CLUSTER_ID, zk_schema.encode_cluster_id(fresh))])
    except NodeExists:
        return zk_schema.decode_cluster_id((await tree.get(zk_paths.CLUSTER_ID)).data)
    return fresh


async def new_broker_id(tree: ITree, reserved: int) -> int:
    """Return an unused broker id above `reserved`."""
    await tree.commit([SetData(zk_paths.BROKER_SEQUENCE, b"")])
    return reserved + (await tree.get(zk_paths.BROKER_SEQUENCE)).stat.version


async def register(tree: ITree, broker_id: int, broker: zk_schema.BrokerNode, now_ms: int) -> int:
    """Register; return an epoch larger than all earlier ones."""
    path = zk_paths.broker(broker_id)
    await tree.commit([Create(path, zk_schema.encode_broker(broker, now_ms), ephemeral=True)])
    return (await tree.get(path)).stat.created


async def directories(tree: ITree, broker_id: int) -> dict[str, str]:
    [node] = await tree.get_many([zk_paths.broker_directories(broker_id)])
    return {} if node is None else zk_schema.decode_directories(node.data)


async def remember_directories(tree: ITree, broker_id: int, used: Mapping[str, str]) -> None:
    path, data = zk_paths.broker_directories(broker_id), zk_schema.encode_directories(used)
    [node] = await tree.get_many([path])
    if node is None:
        await tree.commit([Create(path, data)])
    elif node.data != data:
        await tree.commit([SetData(path, data)])


async def replica_brokers(tree: ITree) -> frozenset[int]:
    """Return the brokers with replicas, also of topics under deletion."""
    topics = [zk_schema.decode_topic(node.data) for node in (await tree.children_with_data(zk_paths.TOPICS)).values()]
    return frozenset(broker for topic in topics for brokers in topic.replicas.values() for broker in brokers)
