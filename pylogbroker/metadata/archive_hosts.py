"""Brokers that can have replicas of archived topics: those with a remote storage, as their registrations say.

In a cluster that ZooKeeper coordinates, brokers of this project register with `remote_log_storage`. Apache Kafka's
brokers ignore the field, and never have it: their tiered storage has another layout of objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import BrokerRegistration


def archive_hosts(brokers: Iterable[BrokerRegistration]) -> frozenset[int]:
    return frozenset(broker.id for broker in brokers if broker.has_archive)


def check_replicas(topic: str, assignment: Iterable[Iterable[int]], hosts: frozenset[int]) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT if a broker without remote storage would get a replica of an archived topic."""
    others = sorted({broker for replicas in assignment for broker in replicas} - hosts)
    if others:
        raise KafkaError(
            f"{_reason(topic, hosts)}: replace broker(s) {', '.join(map(str, others))}, or give them the same "
            "remote.log.storage, and restart them",
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )


def check_count(topic: str, replication_factor: int, hosts: frozenset[int]) -> None:
    """Raise INVALID_REPLICATION_FACTOR if too few brokers have a remote storage for an archived topic."""
    if replication_factor > len(hosts):
        raise KafkaError(
            f"{_reason(topic, hosts)}: ask for at most {len(hosts)} replica(s), not {replication_factor}, or give more "
            "brokers the same remote.log.storage, and restart them",
            ErrorCode.INVALID_REPLICATION_FACTOR,
        )


def misplaced(replicas: Iterable[int], brokers: Mapping[int, BrokerRegistration]) -> list[int]:
    """Return the brokers without remote storage among those of a topic's replicas; dead ones may have it."""
    return sorted({broker for broker in replicas if broker in brokers and not brokers[broker].has_archive})


def _reason(topic: str, hosts: frozenset[int]) -> str:
    named = f"only broker(s) {', '.join(map(str, sorted(hosts)))} of the cluster have" if hosts else "no broker has"
    return f"Topic {topic!r} is archived, and {named} a remote storage"
