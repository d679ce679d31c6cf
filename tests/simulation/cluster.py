"""Brokers of a simulated cluster, its tree, and what tests may see of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final
from uuid import UUID

import attrs
from twisted.python.failure import Failure

from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import PartitionKey, PartitionState
from pylogbroker.metadata.zk_schema import id_text
from pylogbroker.replication import FollowerReplica, LeaderReplica
from pylogbroker.storage import Log
from tests.kraft.model_controller import CLUSTER_ID
from tests.replication.invariants import Violation
from tests.simulation.broker import SimulatedBroker
from tests.simulation.network import Network
from tests.simulation.seams import Surroundings
from tests.simulation.setup import KRAFT, Setup
from tests.simulation.stored_metadata import StoredMetadata
from tests.simulation.world import Process, World

_REQUEST_SECONDS_MAX: Final = 5.0  # also to a broker that is paused
_FATAL: Final = frozenset(
    (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH)
)


def client_host(number: int) -> str:
    return f"10.0.1.{number}"


def format_directory(path: str, number: int) -> None:
    """Make the log directory of a broker as `pylogbroker storage format` does."""
    directory_id = id_text(UUID(int=number << 64))
    meta = f"version=1\nnode.id={number}\ncluster.id={CLUSTER_ID}\ndirectory.id={directory_id}\n"
    with open(f"{path}/meta.properties", "w") as file:
        file.write(meta)
        file.flush()
        os.fsync(file.fileno())


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


class SimulatedCluster:
    def __init__(self, surroundings: Surroundings, setup: Setup, directory: str) -> None:
        self.world: World = surroundings.world
        self.network: Network = surroundings.network
        self.stored: StoredMetadata = surroundings.stored
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
            if setup.engine == KRAFT:
                format_directory(path, number)
            broker = SimulatedBroker(
                self.world, number, path, surroundings.disk, {**surroundings.settings, **setup.settings}, self.failed
            )
            self.brokers[number] = self._by_host[broker.host] = broker

    @property
    def hosts(self) -> list[str]:
        """Hosts of brokers, of servers of the metadata, and of clients."""
        brokers = [broker.host for broker in self.brokers.values()]
        return [*brokers, *self.stored.hosts, *map(client_host, range(1, self.setup.clients + 1))]

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

    def state(self, key: PartitionKey) -> PartitionState:
        return self.stored.state(key)

    def states(self) -> Mapping[PartitionKey, PartitionState]:
        return self.stored.states()

    def is_undisturbed(self) -> bool:
        """All brokers run, and are known in their present lives."""
        serving = self.serving
        are_running = all(broker.process is not None and broker.process.is_running for broker in serving)
        return len(serving) == len(self.brokers) and are_running and self.stored.has_all(serving)

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
            lines.append(f"broker {broker.id} {broker.state}, epoch {broker.epoch}, controller {controller}")
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
