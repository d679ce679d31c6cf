"""Nodes of topics that are created, enlarged or deleted. Source: Kafka's AdminZkClient.

| change  | nodes                                                                                      |
|---------|--------------------------------------------------------------------------------------------|
| create  | the topic's settings, also empty ones, and the topic with its brokers, in one transaction  |
| enlarge | the topic, with more partitions                                                            |
| delete  | the mark /admin/delete_topics/NAME                                                         |

Any broker writes them. The controller sees these nodes, as it sees those that other tools write, and creates or deletes
the partitions. A lost connection raises Unavailable: the outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import BadVersion, Create, ITree, Node, NodeExists, SetData
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.delta import PartitionsChanged
from pylogbroker.metadata.image import PartitionState, TopicImage
from pylogbroker.metadata.zk_image import encode_topic_image


async def create(tree: ITree, topic: TopicImage, settings: Mapping[str, str]) -> None:
    """Write a new topic; raise TOPIC_ALREADY_EXISTS, also for one under deletion.

    Settings and topic are one transaction: those of a topic that another broker creates must stay.
    """
    path, settings_path = zk_paths.topic(topic.name), zk_paths.topic_config(topic.name)
    data = zk_schema.encode_config(settings)
    while True:
        present, mark, stored = await tree.get_many([path, zk_paths.deleted_topic(topic.name), settings_path])
        if present is not None or mark is not None:
            raise KafkaError(f"Topic {topic.name!r} already exists", ErrorCode.TOPIC_ALREADY_EXISTS)
        write: Create | SetData = Create(settings_path, data)
        if stored is not None:  # left behind by an interrupted creation
            write = SetData(settings_path, data, stored.stat.version)
        try:
            await tree.commit([write, Create(path, encode_topic_image(topic))])
            return
        except (NodeExists, BadVersion):
            continue  # another broker was faster: it may create the same internal topic


async def enlarge(tree: ITree, planned: PartitionsChanged) -> None:
    """Add partitions to a topic's node.

    Raise KafkaError if the topic has them, is being reassigned, or is deleted.
    """
    paths = zk_paths.topic(planned.topic), zk_paths.deleted_topic(planned.topic)
    while True:
        write = _enlarged(planned, *await tree.get_many(paths))
        try:
            await tree.commit([write])
            return
        except BadVersion:
            continue  # the node has changed since


async def mark_deleted(tree: ITree, name: str) -> None:
    """Mark a topic; a mark that exists is enough, since the controller is deleting the topic then."""
    with suppress(NodeExists):
        await tree.commit([Create(zk_paths.deleted_topic(name))])


def _enlarged(planned: PartitionsChanged, node: Node | None, mark: Node | None) -> SetData:
    if node is None or mark is not None:
        raise KafkaError(f"There is no topic {planned.topic!r}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    stored = zk_schema.decode_topic(node.data)
    _check(stored, planned.partitions)
    added = {number: state.replicas for number, state in planned.partitions.items()}
    data = zk_schema.encode_topic(attrs.evolve(stored, replicas={**stored.replicas, **added}))
    return SetData(zk_paths.topic(planned.topic), data, node.stat.version)


def _check(stored: zk_schema.TopicNode, added: Mapping[int, PartitionState]) -> None:
    if stored.adding or stored.removing:
        raise KafkaError(
            "The topic's partitions are being reassigned; add partitions when that has ended",
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
        )
    present = [number for number in added if number in stored.replicas]
    if present:
        raise KafkaError(f"The topic has the partitions {present} already", ErrorCode.INVALID_PARTITIONS)
