"""Phases of a reassignment, as writes and requests. `reassignments` has the table and the rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from pylogbroker.controller import elections, partition_changes, reassignments
from pylogbroker.controller.controlled_cluster import ControlledCluster
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Delete, SetData
from pylogbroker.metadata import archive_hosts, zk_paths, zk_schema
from pylogbroker.metadata.image import PartitionKey, PartitionState


async def begin(
    cluster: ControlledCluster,
    key: PartitionKey,
    target: Sequence[int] | None,
    brokers: Collection[int],
    keeps_factor: bool = False,
) -> None:
    """Begin, replace or cancel (None) a reassignment to some of the brokers; raise KafkaError."""
    await cluster.read_states([key])
    before = cluster.state(key)
    if before is None:
        raise KafkaError("The topic has no such partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if target is not None and cluster.settings.keeps_one_replica(key[0]):
        raise KafkaError(
            f"Topic {key[0]!r} is of format 0.7 and stays on its broker: copy it to a new topic with a producer and a "
            "consumer instead",
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )
    if target is not None and cluster.settings.is_archived(key[0]):
        hosts = archive_hosts.archive_hosts(cluster.image.brokers.values())
        archive_hosts.check_replicas(key[0], [set(target) - set(before.replicas)], hosts)
    planned = reassignments.planned(before, target, brokers, keeps_factor)
    if planned == before:
        return
    unneeded = [broker for broker in before.replicas if broker not in planned.replicas]
    await _leave_isr(cluster, key, unneeded)  # before the assignment changes: an ISR has no others than replicas
    if not await cluster.assign(key[0], {key[1]: planned}):
        raise KafkaError("The topic was removed", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    cluster.set_assignment(key, planned)
    _delete(cluster, key, unneeded)
    await _advance(cluster, key)


async def resume(cluster: ControlledCluster, keys: Iterable[PartitionKey]) -> None:
    """Repeat the present phase of reassignments, under a new controller or after the start of a broker."""
    for key in keys:
        state = cluster.state(key)
        if state is not None and state.is_reassigned:
            await _advance(cluster, key)


async def complete(cluster: ControlledCluster, keys: Iterable[PartitionKey]) -> None:
    """Complete reassignments whose target is in sync."""
    for key in keys:
        state = cluster.state(key)
        if state is not None and state.is_reassigned and reassignments.is_complete(state, cluster.live(key)):
            await _complete(cluster, key, state)


async def _advance(cluster: ControlledCluster, key: PartitionKey) -> None:
    state = cluster.state(key)
    if state is None:
        return
    if not state.is_reassigned or reassignments.is_complete(state, cluster.live(key)):
        await _complete(cluster, key, state)
    elif state.is_stored:
        await cluster.update([key], lambda key, state: _led(cluster, key, state), new=state.adding)
    else:  # a new partition without a live replica: those to add may live
        await cluster.create_partitions([key])
        await complete(cluster, [key])


async def _complete(cluster: ControlledCluster, key: PartitionKey, state: PartitionState) -> None:
    final = reassignments.completed(state)
    cluster.set_assignment(key, final)
    await cluster.update([key], lambda key, state: _led_by_target(cluster, key, state))
    await _leave_isr(cluster, key, state.removing)
    _delete(cluster, key, state.removing)
    await cluster.send()
    if state.is_reassigned:
        await cluster.assign(key[0], {key[1]: final})
    cluster.requests.update_metadata([key])


def _led_by_target(cluster: ControlledCluster, key: PartitionKey, state: PartitionState) -> PartitionState | None:
    live = cluster.live(key)
    if state.leader in live:
        return partition_changes.with_next_epoch(state)
    return elections.reassignment(state, live)


def _led(cluster: ControlledCluster, key: PartitionKey, state: PartitionState) -> PartitionState:
    elected = None if cluster.is_live(key, state.leader) else elections.offline(state, cluster.live(key))
    return elected or partition_changes.with_next_epoch(state)


async def _leave_isr(cluster: ControlledCluster, key: PartitionKey, brokers: Collection[int]) -> None:
    for broker in brokers:
        await cluster.take_offline(broker, [key])


def _delete(cluster: ControlledCluster, key: PartitionKey, brokers: Collection[int]) -> None:
    state = cluster.state(key)
    if state is not None:
        for broker in brokers:
            cluster.requests.stop(broker, key, state.leader_epoch, delete=True)


async def read_listed(cluster: ControlledCluster) -> None:
    """Begin the reassignments that an old tool has written into a node."""
    [node] = await cluster.tree.get_many([zk_paths.REASSIGN_PARTITIONS])
    listed = {} if node is None else zk_schema.decode_reassignments(node.data)
    for key, target in listed.items():
        state = cluster.state(key)
        if key in cluster.listed_reassignments or (state is not None and state.target == target):
            continue
        try:
            await begin(cluster, key, target, brokers=target)  # as Kafka, also to dead ones
        except KafkaError:
            continue  # the tool finds out when it looks at the topic
    cluster.listed_reassignments = frozenset(listed)
    await unlist_completed(cluster)


async def unlist_completed(cluster: ControlledCluster) -> None:
    """Remove completed reassignments from that node, and the node after the last one."""
    if not cluster.listed_reassignments:
        return
    running = {
        key: state.target
        for key in sorted(cluster.listed_reassignments)
        if (state := cluster.state(key)) is not None and state.is_reassigned
    }
    if len(running) == len(cluster.listed_reassignments):
        return
    [node] = await cluster.tree.get_many([zk_paths.REASSIGN_PARTITIONS])
    if node is not None:
        remaining: Mapping[PartitionKey, Sequence[int]] = running
        path, data = zk_paths.REASSIGN_PARTITIONS, zk_schema.encode_reassignments(remaining)
        await cluster.tree.write([SetData(path, data, node.stat.version) if running else Delete(path)])
    cluster.listed_reassignments = frozenset(running)
