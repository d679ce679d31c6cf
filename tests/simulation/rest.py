"""Rest after the end of all faults: the cluster is whole again, and has kept what it promised."""

from __future__ import annotations

import os
from collections.abc import Iterator

from pylogbroker.broker.assembly import Broker
from pylogbroker.metadata.image import ConfigResourceType, PartitionKey, PartitionState, broker_resource
from pylogbroker.replication import FollowerReplica, LeaderReplica
from pylogbroker.storage import names
from tests.cluster.replica_logs import records_in
from tests.replication.invariants import Violation
from tests.simulation.administrator import BROKER_SETTING, RESOURCES
from tests.simulation.clients import Producer
from tests.simulation.cluster import Replica, SimulatedCluster
from tests.simulation.invariants import Invariants
from tests.simulation.setup import KRAFT


def unrest(cluster: SimulatedCluster) -> Iterator[str]:
    """Yield what is missing for a cluster at rest."""
    if len(cluster.serving) < len(cluster.brokers):
        yield "a broker does not serve"
        return
    if any(broker.process is not None and broker.process.is_paused for broker in cluster.serving):
        yield "a broker is paused, and requests wait there"
        return
    for key, state in cluster.states().items():
        yield from _partition_unrest(cluster, key, state)
    yield from _deletion_unrest(cluster)
    yield from _settings_unrest(cluster)


def _partition_unrest(cluster: SimulatedCluster, key: PartitionKey, state: PartitionState) -> Iterator[str]:
    if state.leader not in state.isr or set(state.isr) != set(state.replicas) or state.is_reassigned:
        yield f"{key} is not whole: {state}"
        return
    for broker in cluster.serving:
        assert broker.broker is not None
        topic = broker.broker.metadata.topics.get(key[0])
        known = None if topic is None else topic.partitions.get(key[1])
        if known is None or _announced(known) != _announced(state):
            yield f"broker {broker.id} knows {key} as {known}, stored is {state}"
    replicas = {
        each.broker.id: each for broker in cluster.serving for each in cluster.replicas_of(broker) if each.key == key
    }
    if set(replicas) != set(state.replicas):
        yield f"{key} has replicas on {sorted(replicas)}, not on {sorted(state.replicas)}"
        return
    for number, replica in replicas.items():
        wanted = LeaderReplica if number == state.leader else FollowerReplica
        if not isinstance(replica.role, wanted) or replica.role.leader_epoch != state.leader_epoch:
            yield f"broker {number} has another role in {key}"
    yield from _log_unrest(key, replicas)


def _deletion_unrest(cluster: SimulatedCluster) -> Iterator[str]:
    """Yield what is left of deleted topics, and of replicas that were moved away."""
    for name in cluster.stored.deletions():
        yield f"the deletion of {name} is not complete"
    topics, states = set(cluster.stored.topics()), cluster.states()
    for broker in cluster.serving:
        assert broker.broker is not None
        for name in broker.broker.metadata.topics:
            if name not in topics:
                yield f"broker {broker.id} still knows {name}"
        for path in os.listdir(broker.directory):
            if path == names.METADATA_DIRECTORY:
                continue
            if cluster.setup.engine == KRAFT and _is_quarantined(broker.broker, path):
                continue
            name, separator, index = path.rpartition("_")
            if separator and name not in topics and not cluster.setup.reassigners:  # moved away before: may be left
                yield f"broker {broker.id} still has {path}"
            state = states.get((name, int(index))) if index.isdecimal() else None
            if state is not None and broker.id not in state.replicas:
                yield f"broker {broker.id} has {path}, which was moved to {state.replicas}"


def _is_quarantined(broker: Broker, path: str) -> bool:
    """Return whether a log was found whose topic had been deleted or moved while the broker was down."""
    return path.endswith("-stray") or any(os.path.basename(log.path) == path for log in broker.logs.foreign.values())


def _settings_unrest(cluster: SimulatedCluster) -> Iterator[str]:
    """Yield settings and ACLs that a broker has otherwise than they are stored.

    A creation that ended half way leaves settings without their topic: a broker reads them when the topic comes.
    """
    topics = set(cluster.stored.topics())
    stored = {
        resource: settings
        for resource, settings in cluster.stored.settings()
        if resource.type is not ConfigResourceType.TOPICS or resource.name in topics
    }
    patterns = RESOURCES if cluster.setup.administrators else ()
    acls = [(pattern, cluster.stored.acl_entries(pattern)) for pattern in patterns]
    for broker in cluster.serving:
        assert broker.broker is not None
        for resource, settings in stored.items():
            known = broker.broker.metadata.image.settings(resource)
            if known != settings:
                yield f"broker {broker.id} has settings {known} of {resource.name}, stored are {settings}"
        for layer in (broker_resource(broker.id), broker_resource(None)):
            if BROKER_SETTING in stored.get(layer, {}):
                in_force, wanted = broker.broker.config[BROKER_SETTING], stored[layer][BROKER_SETTING]
                if str(in_force) != wanted:
                    yield f"{BROKER_SETTING} of broker {broker.id} is {in_force}, stored is {wanted}"
                break
        for pattern, entries in acls:
            assert broker.broker.authorizer is not None
            if broker.broker.authorizer.decisions.acls.entries(pattern) != entries:
                yield f"broker {broker.id} has other ACLs of {pattern.name} than {entries}"


def _announced(state: PartitionState) -> tuple[object, ...]:
    return state.leader, state.leader_epoch, state.isr, state.replicas


def _log_unrest(key: PartitionKey, replicas: dict[int, Replica]) -> Iterator[str]:
    ends = {number: (each.log.log_end_offset, each.log.high_watermark) for number, each in replicas.items()}
    if len({end for pair in ends.values() for end in pair}) > 1:
        yield f"{key} has log ends and high watermarks {ends}"


def check_kept(
    cluster: SimulatedCluster, invariants: Invariants, producers: list[Producer], data: dict[PartitionKey, bytes]
) -> None:
    """Check what a consumer reads from the start against the replicas and the acknowledgements."""
    values: dict[PartitionKey, list[bytes]] = {}
    for key, records in data.items():
        values[key] = [record.value or b"" for record in records_in(records)]
        for broker in cluster.brokers.values():
            log = invariants.log_of(broker, key)
            if broker.id in cluster.state(key).replicas and log.records != invariants.committed.get(key, []):
                raise Violation(f"the log of {key} on broker {broker.id} is not what was committed")
    for each in invariants.acknowledged:
        end = each.offset + len(each.values)
        if values[each.key][each.offset : end] != each.values:
            raise Violation(f"8: {each} was acknowledged and is not read")
    for producer in producers:
        if producer.identity.id >= 0:
            _check_once(producer, values)


def _check_once(producer: Producer, values: dict[PartitionKey, list[bytes]]) -> None:
    prefix = producer.name.encode() + b":"
    for key, batches in producer.sent.items():
        wanted = [value for batch in batches for value in batch]
        found = [value for value in values.get(key, []) if value.startswith(prefix)]
        if found != wanted:
            raise Violation(f"9: {producer.name} sent {wanted} to {key}, once and in order; there is {found}")
