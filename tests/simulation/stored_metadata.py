"""Metadata that a simulated cluster has agreed on: what is in ZooKeeper's tree, or committed by KRaft's controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol
from uuid import UUID

from pylogbroker.metadata.image import ConfigResource, PartitionKey, PartitionState
from pylogbroker.security.acls.bindings import AccessControlEntry, ResourcePattern
from tests.simulation.broker import SimulatedBroker


class StoredMetadata(Protocol):
    hosts: Iterable[str]
    """Hosts of the servers that keep the metadata."""

    def watch(self, changed: Callable[[], object], applied: Callable[[int], object]) -> None:
        """Call `changed` after changes of topics and partitions, and check that their states may follow each other.

        Call `applied` with a broker that has applied several changes in one event, after each.
        """

    def topics(self) -> Iterable[str]: ...

    def topic_id(self, name: str) -> UUID | None: ...

    def state(self, key: PartitionKey) -> PartitionState: ...

    def states(self) -> Mapping[PartitionKey, PartitionState]: ...

    def eligible(self, key: PartitionKey) -> Iterable[int]:
        """Return replicas that may be elected, although they are in no ISR."""

    def deletions(self) -> Iterable[str]:
        """Return topics whose deletion is not complete."""

    def settings(self) -> Iterable[tuple[ConfigResource, Mapping[str, str]]]: ...

    def acl_entries(self, pattern: ResourcePattern) -> frozenset[AccessControlEntry]: ...

    def has_all(self, serving: list[SimulatedBroker]) -> bool:
        """Return whether the brokers are known in their present lives, and who keeps the metadata is reached."""

    def has_registered(self, broker: SimulatedBroker) -> bool:
        """Return whether a broker that starts has left the ISRs of its former life."""

    def heal(self) -> None:
        """End faults of the servers."""

    def check_broker(self, broker: SimulatedBroker) -> None:
        """Raise Violation if a broker has other metadata than it may have after an event of its process."""
