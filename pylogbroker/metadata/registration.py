"""Identities in the coordination tree: cluster, brokers and log directories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from pylogbroker.errors import StartupError
from pylogbroker.interfaces import BadVersion, Create, Delete, ITree, NodeExists, NoNode, OperationResult, SetData, Stat
from pylogbroker.metadata import zk_paths, zk_schema


async def create_permanent_nodes(tree: ITree, paths: Sequence[str] = zk_paths.PERSISTENT) -> None:
    """Create missing nodes with null data; parents come first."""
    while True:
        nodes = await tree.get_many(paths)
        missing = [Create(path) for path, node in zip(paths, nodes, strict=True) if node is None]
        if not missing:
            return
        with suppress(NodeExists):  # another broker created one: check again
            await tree.commit(missing)


async def cluster_id(tree: ITree, proposed: str | None = None) -> str:
    """Return the id; a new cluster takes the proposed or a random one."""
    fresh = proposed or zk_schema.id_text(zk_schema.new_id())
    try:
        await tree.commit([Create(zk_paths.CLUSTER_ID, zk_schema.encode_cluster_id(fresh))])
    except NodeExists:
        return zk_schema.decode_cluster_id((await tree.get(zk_paths.CLUSTER_ID)).data)
    return fresh


async def new_broker_id(tree: ITree, reserved: int) -> int:
    """Return an unused broker id above `reserved`."""
    [result] = await tree.commit([SetData(zk_paths.BROKER_SEQUENCE, b"")])
    return reserved + _stat(result).version


async def check_listener(tree: ITree, broker_id: int, listener: str) -> None:
    """Raise StartupError if another broker lacks this listener, on which brokers connect to each other."""
    for name, node in sorted((await tree.children_with_data(zk_paths.BROKER_IDS)).items()):
        with suppress(zk_schema.BadNode):
            endpoints = zk_schema.decode_broker(node.data).endpoints
            names = [zk_schema.parse_endpoint(endpoint)[0] for endpoint in endpoints]
            if name != str(broker_id) and listener not in names:
                raise StartupError(
                    f"broker {name} has no listener {listener}, only {', '.join(names)}, and brokers connect to each "
                    "other on listeners of one name: use the same names, or set inter.broker.listener.name"
                )


async def register(
    tree: ITree,
    broker_id: int,
    broker: zk_schema.BrokerNode,
    now_ms: int,
    wait_until_deleted: Callable[[str], Awaitable[bool]] | None = None,
) -> int:
    """Register; return the broker epoch, larger than all earlier ones.

    | owner of an existing node              | what happens                                                       |
    |----------------------------------------|--------------------------------------------------------------------|
    | this session, and the data is the same | nothing: an earlier attempt succeeded, its outcome was unknown     |
    | this session, or this tree's last ones | the node is deleted and created again (ZOOKEEPER-2985)             |
    | another session                        | `wait_until_deleted` waits; StartupError if the node is still there |
    """
    path, data = zk_paths.broker(broker_id), zk_schema.encode_broker(broker, now_ms)
    while True:
        with suppress(NodeExists):
            _, changed = await tree.commit([Create(path, ephemeral=True), SetData(path, data, version=0)])
            return _stat(changed).created
        with suppress(NoNode, BadVersion):  # changed meanwhile: try again
            node = await tree.get(path)
            owner = node.stat.owner
            if owner == tree.session_id and node.data == data:
                return node.stat.created
            if owner in (tree.session_id, *tree.earlier_sessions):
                await tree.commit([Delete(path, node.stat.version)])
            elif wait_until_deleted is None or not await wait_until_deleted(path):
                raise registered_elsewhere(broker_id, owner)


def registered_elsewhere(broker_id: int, owner: int) -> StartupError:
    """Return the error of an id that the session `owner` has registered."""
    session = f"{owner % (1 << 64):#x}"  # as ZooKeeper writes it
    return StartupError(
        f"broker id {broker_id} is registered by another session ({session}), which has not expired: "
        "stop the broker that has this id, or set another broker.id"
    )


def _stat(result: OperationResult) -> Stat:
    assert result.stat is not None  # of a SetData
    return result.stat


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
