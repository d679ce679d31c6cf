"""Takeover of the cluster by a new controller. Source: KafkaController.onControllerFailover.

| step                                                  | why then                                           |
|-------------------------------------------------------|----------------------------------------------------|
| write /feature                                        | brokers of a new cluster wait for it               |
| remove notifications                                  | ISRs are read, and log directories asked, below    |
| read brokers, topics, states, deletions               |                                                    |
| UpdateMetadata with the brokers                       | replicas need the addresses of leaders             |
| give ids to topics without one                        | requests carry them                                |
| replace dead leaders, some at a time                  | their partitions wait; first the leader becomes -1 |
| take other replicas of dead brokers out of the ISRs   |                                                    |
| elect leaders; LeaderAndIsr and UpdateMetadata of all | the former controller may have died before it sent |
| go on with reassignments and deletions                |                                                    |
| act on the nodes of old tools                         |                                                    |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pylogbroker.controller import deletions, reassignment_phases, requested_elections, topic_changes
from pylogbroker.controller.controlled_cluster import ControlledCluster, TopicDeletion
from pylogbroker.interfaces import Create, Delete, Operation, SetData
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.delta import BrokerRegistered, ControllerElected, TopicCreated, portions
from pylogbroker.metadata.image import NO_LEADER, PartitionKey, TopicImage
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.metadata.zk_image import read_brokers, read_topics
from pylogbroker.metadata.zk_schema import FeaturesNode


async def take_over(cluster: ControlledCluster) -> None:
    await _write_features(cluster)
    await _remove_notifications(cluster)
    await _read(cluster)
    cluster.has_just_read = True
    cluster.requests.update_metadata()
    await cluster.send()
    lost = await _lost_replicas(cluster)
    led = {key: brokers async for key, brokers in cluster.slices.over(lost.items()) if _leader(cluster, key) in brokers}
    await _replace_leaders(cluster, led)
    await _take_offline(cluster, {key: brokers for key, brokers in lost.items() if key not in led})
    await cluster.elect_offline()
    await cluster.resend(cluster.image.brokers, informs_of_all=True)
    await cluster.send()
    cluster.has_just_read = False
    reassigned = [key async for key, state in cluster.partitions() if state.is_stored and state.is_reassigned]
    await reassignment_phases.resume(cluster, reassigned)
    await deletions.begin_again(cluster)
    await topic_changes.read_names(cluster)  # a mark may be younger than what was read above
    await deletions.read_marks(cluster)
    await reassignment_phases.read_listed(cluster)
    await requested_elections.read_listed(cluster)


async def _write_features(cluster: ControlledCluster) -> None:
    [node] = await cluster.tree.get_many([zk_paths.FEATURES])
    before = None if node is None else zk_schema.decode_features(node.data)
    after = _wanted_features(before, cluster.settings.protocol)
    if after != before:
        data = zk_schema.encode_features(after)
        write: Operation = Create(zk_paths.FEATURES, data)
        if node is not None:
            write = SetData(zk_paths.FEATURES, data, node.stat.version)
        await cluster.tree.write([write])


def _wanted_features(before: FeaturesNode | None, protocol: InterBrokerProtocol) -> FeaturesNode:
    """Return the features node of a cluster of this IBP; finalized features stay while they are enabled."""
    kept = before.features if before is not None and before.enabled else {}
    return FeaturesNode(enabled=True, version=protocol.feature_node_version, features=kept)


async def _remove_notifications(cluster: ControlledCluster) -> None:
    log_dir_events = await cluster.tree.children(zk_paths.LOG_DIR_EVENTS)
    isr_changes = await cluster.tree.children(zk_paths.ISR_CHANGES)
    paths = [*map(zk_paths.log_dir_event, log_dir_events), *map(zk_paths.isr_change, isr_changes)]
    await cluster.tree.write([Delete(path) for path in paths])


async def _read(cluster: ControlledCluster) -> None:
    brokers = await read_brokers(cluster.tree)
    marked = frozenset(await cluster.tree.children(zk_paths.DELETE_TOPICS))
    topics: list[TopicImage] = []
    async for topic in read_topics(cluster.tree, cluster.slices):
        if topic.name in marked and cluster.settings.deletes_topics:
            cluster.deletions[topic.name] = TopicDeletion(topic)
        else:
            topics.append(topic)
    cluster.apply(ControllerElected(cluster.term.broker_id), *map(BrokerRegistered, brokers.values()))
    for broker in brokers.values():
        cluster.channels.open(broker)
    created = map(TopicCreated, await topic_changes.with_ids(cluster, topics))
    async for delta in cluster.slices.over(portions(created)):
        cluster.apply(*delta)


async def _lost_replicas(cluster: ControlledCluster) -> dict[PartitionKey, list[int]]:
    """Return what cannot be in an ISR: dead brokers, and brokers that are no replicas.

    Another implementation leaves the latter if it dies while it cancels a reassignment.
    """
    lost: dict[PartitionKey, list[int]] = {}
    async for key, state in cluster.partitions():
        for broker in dict.fromkeys((*state.replicas, *state.isr)):
            if state.is_stored and (broker not in cluster.image.brokers or broker not in state.replicas):
                lost.setdefault(key, []).append(broker)
    return lost


def _leader(cluster: ControlledCluster, key: PartitionKey) -> int:
    state = cluster.state(key)
    return NO_LEADER if state is None else state.leader


async def _replace_leaders(cluster: ControlledCluster, lost: Mapping[PartitionKey, Sequence[int]]) -> None:
    """Elect leaders in place of dead ones. Some partitions at a time: brokers serve them while others wait."""
    async for some in cluster.steps(lost):
        await _take_offline(cluster, {key: lost[key] for key in some})
        await cluster.update(some, cluster.offline_election)
    await cluster.send()


async def _take_offline(cluster: ControlledCluster, lost: Mapping[PartitionKey, Sequence[int]]) -> None:
    by_broker: dict[int, list[PartitionKey]] = {}
    for key, brokers in lost.items():
        for broker in brokers:
            by_broker.setdefault(broker, []).append(key)
    for broker, keys in sorted(by_broker.items()):
        await cluster.take_offline(broker, keys)
