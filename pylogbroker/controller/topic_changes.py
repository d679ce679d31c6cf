"""Topics and partitions that brokers have created, and ISRs that leaders below release 2.7 have changed.

The broker that creates a topic or partitions writes the topic's settings and node. The controller alone creates the
nodes of partitions, once a replica lives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from pylogbroker.controller import reassignment_phases
from pylogbroker.controller.controlled_cluster import ControlledCluster
from pylogbroker.interfaces import Delete
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.delta import PartitionsChanged, TopicCreated, TopicDeleted
from pylogbroker.metadata.image import NO_TOPIC_ID, PartitionState, TopicImage
from pylogbroker.metadata.zk_image import assigned_partitions, read_topics


async def read_names(cluster: ControlledCluster) -> None:
    """Act on topics that are new, and forget those whose nodes somebody has removed."""
    names = dict.fromkeys(await cluster.tree.children(zk_paths.TOPICS))
    for topic in cluster.image.topics.values():
        if topic.name not in names:
            cluster.apply(TopicDeleted(topic))
            await cluster.remove_metadata(topic)
    new = [name for name in names if name not in cluster.image.topics and name not in cluster.deletions]
    if new:
        topics = [topic async for topic in read_topics(cluster.tree, cluster.slices, new)]
        cluster.apply(*map(TopicCreated, await with_ids(cluster, topics)))
        await cluster.create_partitions((topic.name, number) for topic in topics for number in topic.partitions)


async def read_topic(cluster: ControlledCluster, name: str) -> None:
    """Act on new partitions of a topic. Assignments of present ones are the controller's own."""
    present = cluster.image.topics.get(name)
    [node] = await cluster.tree.get_many([zk_paths.topic(name)])
    if present is None or node is None:
        return
    stored = zk_schema.decode_topic(node.data)
    if NO_TOPIC_ID != stored.topic_id != present.id != NO_TOPIC_ID:  # removed by hand, and created again
        cluster.apply(TopicDeleted(present))
        await cluster.remove_metadata(present)
        await cluster.send()
        await read_names(cluster)
        return
    added: Mapping[int, PartitionState] = {
        number: state for number, state in assigned_partitions(stored).items() if number not in present.partitions
    }
    cluster.apply(PartitionsChanged(name, added))
    if stored.topic_id == NO_TOPIC_ID != present.id:  # an older tool has dropped the id, which logs have
        await cluster.assign(name, {})
    await cluster.create_partitions((name, number) for number in added)


async def with_ids(cluster: ControlledCluster, topics: Iterable[TopicImage]) -> list[TopicImage]:
    """Give ids to topics that an older IBP has created."""
    kept = []
    for topic in topics:
        if topic.id == NO_TOPIC_ID and cluster.settings.protocol.has_topic_ids:
            topic = attrs.evolve(topic, id=cluster.settings.new_topic_id())
            if not await cluster.assign(topic.name, {}, topic.id):
                continue
        kept.append(topic)
    return kept


async def read_isr_changes(cluster: ControlledCluster) -> None:
    """Read states that leaders below release 2.7 have written, and send them to all brokers."""
    notifications = await cluster.tree.children_with_data(zk_paths.ISR_CHANGES)
    keys = dict.fromkeys(key for node in notifications.values() for key in zk_schema.decode_partition_list(node.data))
    await cluster.read_states(list(keys))
    cluster.requests.update_metadata(keys)
    await reassignment_phases.complete(cluster, keys)
    await cluster.tree.write([Delete(zk_paths.isr_change(name)) for name in notifications])
