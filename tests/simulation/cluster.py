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
from tests.simulation.ensemble import HOST, Ensemble
from tests.simulation.network import Network
from tests.simulation.seams import Surroundings
from tests.simulation.setup import Setup
from tests.simulation.world import Process, World

_REQUEST_SECONDS_MAX: Final = 5.0  # also to a broker that is paused
_FATAL: Final = frozenset(
    (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH)
)


def client_host(number: int) -> str:
    return f"10.0.1.{number}"


@attrs.frozen
class Leadership:
    """Leadership of a partition: the process that has it, and the leader epoch."""

    process: str
    epoch: int


@attrs.define(eq=False)
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
        self._by_host: dict[str, SimulatedBroker] = {}
        self.failures: list[Failure] = []
        self.lossy: dict[int, None] = {}
        """Brokers that may have lost records, until they have registered again."""
        self.reassigned_at = 0.0
        for number in range(1, setup.brokers + 1):
            path = f"{directory}/{number}"
            os.mkdir(path)
            broker = SimulatedBroker(self.world, number, path, surroundings.disk, setup.settings, self.failed)
            self.brokers[number] = self._by_host[broker.host] = broker

    @property
    def hosts(self) -> list[str]:
        """Hosts of brokers, ZooKeeper and clients."""
        brokers = [broker.host for broker in self.brokers.values()]
        return [*brokers, HOST, *map(client_host, range(1, self.setup.clients + 1))]

    def broker_of(self, process: Process) -> SimulatedBroker | None:
        """Return the broker whose present life a process is."""
        broker = self._by_host.get(process.host)
        return broker if broker is not None and broker.process is process else None

    def start(self) -> None:
        for broker in self.brokers.values():
            broker.start()

    def failed(self, failure: Failure) -> None:
        """Note an error that nothing expects: the next check raises it."""
        self.failures.append(failure)

    def check_repeatable(self, code: ErrorCode) -> None:
        """Raise an error for an answer to an idempotent producer that loses its place."""
        if code in _FATAL:
            raise Violation(f"9: an idempotent producer got {code.name}")

    @property
    def serving(self) -> list[SimulatedBroker]:
        return [broker for broker in self.brokers.values() if broker.serving is not None]

    def is_undisturbed(self) -> bool:
        """All brokers run, and a controller knows them in their present lives."""
        roles = [broker.role for broker in self.serving if broker.process is not None and broker.process.is_running]
        known = [role.driver.image.brokers for role in roles if role is not None and role.driver.is_active]
        epochs = {broker.id: broker.epoch for broker in (known[0].values() if len(known) == 1 else ())}
        return epochs == {role._broker_id: role._member.epoch for role in roles if role is not None} and len(
            roles
        ) == len(self.brokers)

    def may_be_reassigned(self) -> bool:
        """Return whether partitions are being reassigned, or a request for that may be on its way."""
        is_recent = self.world.now - self.reassigned_at < _REQUEST_SECONDS_MAX
        return is_recent or any(state.is_reassigned for state in self.states().values())

    def replicas_of(self, broker: SimulatedBroker) -> Iterator[Replica]:
        role = broker.role
        if role is None:
            return
        for key, replica in role.replicas._replicas.items():
            if replica.machine.role is not None and (replica.leadership is not None or replica.following is not None):
                yield Replica(broker, key, replica.partition.log, replica.machine.role)

    def leadership(self, broker_id: int, key: PartitionKey) -> Leadership | None:
        """Return the leadership that a broker believes to have; None if it does not lead the partition."""
        broker = self.brokers[broker_id]
        for replica in self.replicas_of(broker):
            if replica.key == key and isinstance(replica.role, LeaderReplica) and broker.process is not None:
                return Leadership(broker.process.name, replica.role.leader_epoch)
        return None

    def describe(self) -> str:
        """Return what is stored of each partition, and what each broker has and knows."""
        lines = [f"{key}: {state}" for key, state in self.states().items()]
        for broker in self.brokers.values():
            role = broker.role
            if role is None:
                lines.append(f"broker {broker.id} {broker.state}")
                continue
            controller = role._metadata.image.controller_id
            lines.append(f"broker {broker.id} {broker.state}, epoch {role._member.epoch}, controller {controller}")
            lines += (f"  {_description(replica)}" for replica in self.replicas_of(broker))
        return "\n".join(lines)


def _description(replica: Replica) -> str:
    log, role = replica.log, replica.role
    epochs = log.epochs._entries
    text = f"{replica.key}: end {log.log_end_offset}, high watermark {log.high_watermark}, epochs {epochs}"
    if isinstance(role, LeaderReplica):
        text += f"; leads in epoch {role.leader_epoch}, in-sync {role.isr.committed}, proposed {role.isr.pending}"
        return f"{text}; followers {role._followers}"
    return f"{text}; follows in epoch {role.leader_epoch}: {role.state.name}, in flight {role.in_flight}"
