"""Brokers that start, die, come back or lose a disk. Source: KafkaController.onBrokerStartup, onBrokerFailure.

| event               | how the controller sees it            | what it does                                     |
|---------------------|---------------------------------------|--------------------------------------------------|
| start               | a new node in /brokers/ids            | all metadata, then LeaderAndIsr of its replicas; |
|                     |                                       | elections; reassignments and deletions go on     |
| death               | the node is gone                      | elections, then its replicas leave the ISRs      |
| bounce              | the node has a larger epoch           | as a death and a start                           |
| other listeners     | the same epoch, other data            | metadata to all brokers                          |
| log directory fails | a node in /log_dir_event_notification | LeaderAndIsr of all its replicas; those answered |
|                     |                                       | with KAFKA_STORAGE_ERROR are offline             |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from pylogbroker.controller import deletions, reassignment_phases
from pylogbroker.controller.controlled_cluster import ControlledCluster
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import Delete
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.delta import BrokerRegistered, BrokerUnregistered
from pylogbroker.metadata.image import PartitionKey
from pylogbroker.metadata.zk_image import read_brokers


async def read_changes(cluster: ControlledCluster) -> None:
    """Compare the nodes of brokers with the image, and act on the differences."""
    registered = await read_brokers(cluster.tree)
    former = cluster.image.brokers
    new = [broker for broker in registered.values() if broker.id not in former]
    dead = [broker.id for broker in former.values() if broker.id not in registered]
    bounced, altered = [], []
    for broker in registered.values():
        before = former.get(broker.id)
        if before is not None and before.epoch != broker.epoch:
            bounced.append(broker)
        elif before is not None:
            present = attrs.evolve(broker, shutting_down=before.shutting_down)
            if present != before:
                altered.append(present)
    if new:
        await _start(cluster, *map(BrokerRegistered, new))
    if bounced:
        cluster.apply(*(BrokerUnregistered(broker.id) for broker in bounced))
        await _fail(cluster, [broker.id for broker in bounced])
        await _start(cluster, *map(BrokerRegistered, bounced))
    if dead:
        cluster.apply(*map(BrokerUnregistered, dead))
        await _fail(cluster, dead)
    if altered:
        cluster.apply(*map(BrokerRegistered, altered))
        for broker in altered:
            cluster.channels.open(broker)
        await _resend(cluster, [broker.id for broker in altered])


async def _start(cluster: ControlledCluster, *registrations: BrokerRegistered) -> None:
    cluster.apply(*registrations)
    started = [registration.broker.id for registration in registrations]
    for registration in registrations:
        cluster.channels.open(registration.broker)
    await _resend(cluster, started)
    await cluster.elect_offline()
    await cluster.send()
    reassigned = [
        key
        async for key, state in cluster.partitions()
        if state.is_reassigned and not set(started).isdisjoint(state.target)
    ]
    await reassignment_phases.resume(cluster, reassigned)
    await deletions.resume(cluster, started)


async def _resend(cluster: ControlledCluster, brokers: Collection[int]) -> None:
    """Send everything to some brokers, and the list of live brokers to all.

    Metadata goes first: a follower needs its leader's address.
    """
    cluster.requests.update_metadata()
    async for some in cluster.steps(await cluster.stored_partitions()):
        for broker in brokers:
            cluster.requests.update_metadata_of(broker, some)
    await cluster.send()
    await cluster.resend(brokers)


async def _fail(cluster: ControlledCluster, dead: Collection[int]) -> None:
    for broker in dead:
        cluster.channels.close(broker)
        cluster.offline_replicas.pop(broker, None)
    await _lose_replicas(cluster, await cluster.partitions_on(dead))
    await cluster.send()


async def _lose_replicas(cluster: ControlledCluster, replicas: Mapping[int, Collection[PartitionKey]]) -> None:
    """Elect leaders in place of offline replicas, and take the others out of the ISRs."""
    await cluster.elect_offline()
    for broker, keys in replicas.items():
        await cluster.take_offline(broker, keys)


async def read_log_dir_events(cluster: ControlledCluster) -> None:
    """Ask brokers with a failed log directory for the state of their replicas."""
    events = await cluster.tree.children_with_data(zk_paths.LOG_DIR_EVENTS)
    for node in events.values():
        broker = zk_schema.decode_log_dir_event(node.data)
        if broker is not None:
            for key in (await cluster.partitions_on([broker]))[broker]:
                cluster.requests.lead_and_follow(key, [broker])
    await cluster.send()
    await cluster.tree.write([Delete(zk_paths.log_dir_event(name)) for name in events])


async def note_replica_errors(
    cluster: ControlledCluster, broker: int, errors: Mapping[PartitionKey, ErrorCode]
) -> None:
    """Act on a broker's answer to LeaderAndIsr."""
    before = cluster.offline_replicas.get(broker, frozenset())
    failed = {key for key, code in errors.items() if code is ErrorCode.KAFKA_STORAGE_ERROR}
    healthy = {key for key, code in errors.items() if code is ErrorCode.NONE}
    cluster.offline_replicas[broker] = (before - healthy) | failed
    lost = sorted(failed - before)
    if lost:
        await _lose_replicas(cluster, {broker: lost})
