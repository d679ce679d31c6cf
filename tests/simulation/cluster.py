"""Brokers of a simulated cluster, its tree, and what tests may see of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import attrs
from twisted.python.failure import Failure

from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import PartitionKey
from pylogbroker.replication import FollowerReplica, LeaderReplica
from pylogbroker.storage import Log
from tests.controller.stored_cluster import StoredCluster
from tests.replication.invariants import Violation
from tests.simulation.broker import SimulatedBroker
from tests.simulation.ensemble import Ensemble
from tests.simulation.network import Network
from tests.simulation.seams import Surroundings
from tests.simulation.setup import Setup
from tests.simulation.world import World

_FATAL: Final = frozenset(
    (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH)
)


@attrs.frozen(eq=False)
class Replica:
    """A replica of a running broker that leads or follows."""

    broker: SimulatedBroker
    key: PartitionKey
    log: Log
    role: LeaderReplica | FollowerReplica


class SimulatedCluster(StoredCluster):
    def __init__(self, surroundings: Surroundings, setup: Setup, directory: str) -> None:
        self.world: World = surroundings.world
        self.network: Network = surroundings.network
        self.ensemble: Ensemble = surroundings.ensemble
        self.tree = surroundings.ensemble.tree
        self.setup = setup
        self.brokers: dict[int, SimulatedBroker] = {}
        self.failures: list[Failure] = []
        for number in range(1, setup.brokers + 1):
            path = f"{directory}/{number}"
            os.mkdir(path)
            self.brokers[number] = SimulatedBroker(self.world, number, path, setup.settings)

    def start(self) -> None:
        for broker in self.brokers.values():
            broker.start()

    def failed(self, failure: Failure) -> None:
        """Note that a client's code failed: the end of the run raises it."""
        self.failures.append(failure)

    def check_repeatable(self, code: ErrorCode) -> None:
        """Raise an error for an answer to an idempotent producer that loses its place."""
        if code in _FATAL:
            raise Violation(f"9: an idempotent producer got {code.name}")

    @property
    def serving(self) -> list[SimulatedBroker]:
        return [broker for broker in self.brokers.values() if broker.serving is not None]

    def replicas_of(self, broker: SimulatedBroker) -> Iterator[Replica]:
        role = broker.role
        if role is None:
            return
        for key, replica in role.replicas._replicas.items():
            if replica.machine.role is not None:
                yield Replica(broker, key, replica.partition.log, replica.machine.role)
