"""Nodes of topics that this broker creates, enlarges or deletes as the controller. Source: Kafka's AdminZkClient.

| change  | nodes, in this order                                                      |
|---------|---------------------------------------------------------------------------|
| create  | the topic's settings, also empty ones; the topic with its assigned brokers |
| enlarge | the topic, with more partitions                                           |
| delete  | the mark /admin/delete_topics/NAME                                        |

The controller then sees these nodes, as it sees those that other tools write, and creates the partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import attrs

from pylogbroker.controller.fenced_tree import FencedTree
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import BadVersion, CoordinationError, Create, Node, NodeExists, Operation, SetData
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.delta import PartitionsChanged, PlannedTopic
from pylogbroker.metadata.image import NO_TOPIC_ID, PartitionState
from pylogbroker.metadata.zk_image import encode_topic_image


async def create(tree: FencedTree, planned: PlannedTopic, *, has_topic_ids: bool) -> None:
    """Write a new topic; raise TOPIC_ALREADY_EXISTS, also for one under deletion."""
    name = planned.topic.name
    topic, settings = await tree.get_many([zk_paths.topic(name), zk_paths.topic_config(name)])
    if topic is not None:
        raise _exists(name)
    path, data = zk_paths.topic_config(name), zk_schema.encode_config(planned.settings)
    write: Operation = Create(path, data)
    if settings is not None:  # left behind by an interrupted creation
        write = SetData(path, data, settings.stat.version)
    await _write(tree, write)
    image = planned.topic if has_topic_ids else attrs.evolve(planned.topic, id=NO_TOPIC_ID)
    try:
        await _write(tree, Create(zk_paths.topic(name), encode_topic_image(image)))
    except NodeExists:
        raise _exists(name) from None


async def enlarge(tree: FencedTree, planned: PartitionsChanged) -> None:
    """Add partitions to a topic's node; raise KafkaError as `enlarged`."""
    while True:
        write = enlarged(planned, *await tree.get_many(enlarged_paths(planned.topic)))
        try:
            await _write(tree, write)
        except BadVersion:
            continue
        return


def enlarged_paths(name: str) -> Sequence[str]:
    """Return the nodes that `enlarged` takes: a topic's, and the mark of its deletion."""
    return zk_paths.topic(name), zk_paths.deleted_topic(name)


def enlarged(planned: PartitionsChanged, node: Node | None, mark: Node | None) -> SetData:
    """Return the write that adds partitions to a topic's node.

    Raise KafkaError if the topic has them, is being reassigned, or is deleted.
    """
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


async def mark_deleted(tree: FencedTree, name: str) -> None:
    """Mark a topic; a mark that exists is enough. Raise UNKNOWN_TOPIC_OR_PARTITION."""
    [node] = await tree.get_many([zk_paths.topic(name)])
    if node is None:
        raise KafkaError(f"There is no topic {name!r}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    with suppress(NodeExists):
        await _write(tree, Create(zk_paths.deleted_topic(name)))


async def _write(tree: FencedTree, operation: Operation) -> None:
    [error] = await tree.write([operation])
    if isinstance(error, CoordinationError):
        raise error


def _exists(name: str) -> KafkaError:
    return KafkaError(f"Topic {name!r} already exists", ErrorCode.TOPIC_ALREADY_EXISTS)
