"""Deletion of topics. Source: Kafka's TopicDeletionManager.

| step   | trigger                                    | what happens                                             |
|--------|--------------------------------------------|----------------------------------------------------------|
| mark   | a broker creates /admin/delete_topics/NAME |                                                          |
| begin  | the controller sees the mark               | UpdateMetadata with leader -2; StopReplica (delete)      |
| wait   | answers of the brokers                     | deleted replicas are noted; brokers that start are asked |
| finish | all replicas are deleted                   | all nodes of the topic are removed, the mark last        |

A reassignment of the topic ends with it. Until its last replica is deleted, the topic's name is in use. A new
controller begins again: brokers answer StopReplica for a partition that they lack without an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import attrs

from pylogbroker.controller.controlled_cluster import ControlledCluster, TopicDeletion
from pylogbroker.controller.requests import EPOCH_OF_DELETED, StopReplica
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import Delete, NoNode
from pylogbroker.metadata import zk_paths
from pylogbroker.metadata.delta import TopicDeleted
from pylogbroker.metadata.image import PartitionKey, TopicImage


async def read_marks(cluster: ControlledCluster) -> None:
    """Begin the deletion of marked topics; remove marks of topics that do not exist."""
    marked = await cluster.tree.children(zk_paths.DELETE_TOPICS)
    unwanted = []
    for name in marked:
        if name in cluster.deletions:
            continue
        if name in cluster.image.topics and cluster.settings.deletes_topics:
            topic = cluster.image.topics[name]
            cluster.apply(TopicDeleted(topic))
            cluster.deletions[name] = TopicDeletion(topic)
            await cluster.remove_metadata(topic)
            await _ask(cluster, name)
        else:
            unwanted.append(Delete(zk_paths.deleted_topic(name)))
    await cluster.tree.write(unwanted)


async def begin_again(cluster: ControlledCluster) -> None:
    """Repeat all deletions under a new controller."""
    for name, begun in list(cluster.deletions.items()):
        await cluster.remove_metadata(begun.topic)
        await _ask(cluster, name)


async def _ask(cluster: ControlledCluster, name: str) -> None:
    remaining = list(cluster.deletions[name].remaining())
    async for some in cluster.steps(remaining):
        for number, broker in some:
            cluster.requests.stop(broker, (name, number), EPOCH_OF_DELETED, delete=True)
    if not remaining:
        await _finish(cluster, name)


async def resume(cluster: ControlledCluster, started: Collection[int]) -> None:
    """Ask brokers that have started for the deletion of their replicas.

    A broker with a new session may still know the topic: the request to forget it was for the session before.
    """
    for name, begun in list(cluster.deletions.items()):
        await cluster.remove_metadata(begun.topic)
        async for some in cluster.steps(replica for replica in begun.remaining() if replica[1] in started):
            for number, broker in some:
                cluster.requests.stop(broker, (name, number), EPOCH_OF_DELETED, delete=True)


async def note_deleted(
    cluster: ControlledCluster, broker: int, request: StopReplica, errors: Mapping[PartitionKey, ErrorCode]
) -> None:
    """Note replicas that a broker has deleted; finish topics that have none left."""
    deleted: dict[str, set[tuple[int, int]]] = {}
    for replica in request.replicas:
        if replica.topic not in cluster.deletions or replica.leader_epoch != EPOCH_OF_DELETED:
            continue
        if errors.get((replica.topic, replica.number), ErrorCode.NONE) is ErrorCode.NONE:
            deleted.setdefault(replica.topic, set()).add((replica.number, broker))
    for name, replicas in deleted.items():
        before = cluster.deletions[name]
        begun = cluster.deletions[name] = attrs.evolve(before, deleted=before.deleted | replicas)
        if begun.is_complete:
            await _finish(cluster, name)


async def _finish(cluster: ControlledCluster, name: str) -> None:
    for nodes in _nodes(cluster.deletions[name].topic):
        async for some in cluster.steps(nodes):
            errors = await cluster.tree.write([Delete(path) for path in some])
            failed = next((error for error in errors if error is not None and not isinstance(error, NoNode)), None)
            if failed is not None:
                raise failed
    del cluster.deletions[name]


def _nodes(topic: TopicImage) -> Iterator[list[str]]:
    """Yield the topic's nodes in groups; the next group may be deleted once one is.

    The mark is last: while it exists, a new controller deletes what is left. The settings go before the topic, or they
    would be left if the controller died between.
    """
    name, numbers = topic.name, list(topic.partitions)
    yield [zk_paths.partition_state(name, number) for number in numbers]
    yield [zk_paths.partition(name, number) for number in numbers]
    yield [zk_paths.partitions(name)]
    yield [zk_paths.topic_config(name)]
    yield [zk_paths.topic(name)]
    yield [zk_paths.deleted_topic(name)]
