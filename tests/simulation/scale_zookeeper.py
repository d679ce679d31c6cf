"""Figures of one broker in a large cluster of ZooKeeper, as a member and as its controller.

The broker is the product, on simulated time, network and ZooKeeper, and has no replica. The others are nodes in the
tree, and ports that answer the controller's requests at once.

    phase            what happens
    ---------------  ----------------------------------------------------------------------------------
    start            the broker reads all topics and partitions from the tree, registers, and serves
    rest             10 simulated seconds as a member; another broker is the controller
    takeover         the controller is gone, and this broker is elected: states are read, all brokers informed
    broker lost      the node of one broker goes: this broker, the controller, moves its leaderships
    broker returns   the node comes back: the broker gets all metadata
    rack lost        the nodes of a third of the brokers go at once
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

import attrs
import click
from twisted.internet.protocol import Factory, Protocol

from pylogbroker.broker.membership.cluster_role import ClusterRole
from pylogbroker.interfaces import Create, Delete, Operation
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.delta import ConfigChanged, Delta, TopicCreated
from pylogbroker.metadata.image import ClusterImage, TopicImage, topic_resource
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.zk_image import new_partition, operations
from pylogbroker.metadata.zk_schema import BrokerNode, ControllerNode
from pylogbroker.wire import SUPPORTED, decode_request_header
from tests.controller.memory_tree import parent_of
from tests.kraft.controller_connection import encoded
from tests.simulation.broker import SimulatedBroker
from tests.simulation.ensemble import Ensemble
from tests.simulation.measured import Measurement, peak_bytes, prepare_process, resident_bytes
from tests.simulation.network import SimulatedPort
from tests.simulation.scale import COUNTS, assignment
from tests.simulation.seams import ENSEMBLE_SETTINGS
from tests.simulation.zookeeper_metadata import ZooKeeperMetadata

CLUSTERS: Final = ((3, 4_000), (30, 40_000), (100, 200_000))
"""Brokers and partitions."""
_HERE: Final = 1
_PORT: Final = 9092
_PER_TOPIC: Final = 100
_RACKS: Final = 3
_SETTLE_SECONDS_MAX: Final = 3600
_SIZE: Final = struct.Struct(">i")
_SESSIONS: Final = 1_000_000
"""Sessions of the other brokers, by broker id from here on."""


class _Answering(Protocol):
    """Answers each request with the defaults of its response: no error. It reads nothing but the header."""

    def connectionMade(self) -> None:
        self._received = bytearray()

    def dataReceived(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _SIZE.size:
            end = _SIZE.size + _SIZE.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            header, _ = decode_request_header(memoryview(bytes(self._received[_SIZE.size : end])))
            del self._received[:end]
            answer = encoded(SUPPORTED[header.api_key][1](), header)
            self.transport.write(_SIZE.pack(len(answer)) + answer)


@attrs.define(eq=False)
class ZooKeeperScaleRun:
    brokers: int
    partitions: int
    measurement: Measurement = attrs.field(init=False)
    ensemble: Ensemble = attrs.field(init=False)

    @property
    def _others(self) -> range:
        return range(_HERE + 1, _HERE + 1 + self.brokers)

    def live(self) -> None:
        title = f"ZooKeeper, {self.brokers} brokers, {self.partitions:,} partitions"
        measurement = self.measurement = Measurement(title)
        self.ensemble = Ensemble(measurement.network)
        self._fill()
        stored = ZooKeeperMetadata(self.ensemble)
        with measurement.broker(_HERE, stored, {**ENSEMBLE_SETTINGS, "inter.broker.protocol.version": "3.9"}) as broker:
            self._measure_member(broker)
            self._measure_controller(broker)

    def _fill(self) -> None:
        """Make the nodes of the other brokers and of all topics."""
        for number in self._others:
            self._answer(number)
            self._register(number)
        controller = zk_schema.encode_controller(ControllerNode(_HERE + 1, 0))
        self._make(Create(zk_paths.CONTROLLER, controller, ephemeral=True), _SESSIONS + _HERE + 1)
        self._make(Create(zk_paths.CONTROLLER_EPOCH, zk_schema.encode_controller_epoch(1)))
        image = ClusterImage()
        for first in range(0, self.partitions, _PER_TOPIC):
            count = min(_PER_TOPIC, self.partitions - first)
            states = {number: new_partition(assignment(self._others, first + number)) for number in range(count)}
            topic = TopicImage(f"topic-{first // _PER_TOPIC}", UUID(int=1_000_000 + first), PersistentMap(states))
            settings = ConfigChanged(topic_resource(topic.name), {"min.insync.replicas": "2"})
            for operation in operations(Delta.of(TopicCreated(topic), settings), image):
                self._make(operation)

    def _make(self, operation: Operation, session: int | None = None) -> None:
        tree = self.ensemble.tree
        missing = []
        parent = parent_of(operation.path)
        while parent not in tree.entries:
            missing.append(parent)
            parent = parent_of(parent)
        for path in reversed(missing):
            tree.apply([Create(path)])
        tree.apply([operation], session)

    def _answer(self, number: int) -> None:
        process = self.measurement.world.start_process(f"other-{number}", _host(number))
        SimulatedPort(self.measurement.network, process, _PORT, Factory.forProtocol(_Answering)).startListening()

    def _register(self, number: int) -> None:
        node = BrokerNode([f"PLAINTEXT://{_host(number)}:{_PORT}"], {"PLAINTEXT": "PLAINTEXT"}, f"rack {number % 3}")
        self._change(Create(zk_paths.broker(number), zk_schema.encode_broker(node, 0), ephemeral=True), number)

    def _change(self, operation: Operation, number: int) -> None:
        """Change the tree as the session of a broker does; watches are called."""
        if parent_of(operation.path) not in self.ensemble.tree.entries:
            self._make(operation, _SESSIONS + number)
        else:
            self.ensemble._commit([operation], _SESSIONS + number)

    def _measure_member(self, broker: SimulatedBroker) -> None:
        before = resident_bytes()
        self.measurement.measure("start", lambda: self.measurement.start(broker))
        grown = resident_bytes() - before
        self.measurement.say(
            f"memory {grown / 1e6:.1f} MB more after the start: {grown / self.partitions:.0f} bytes for each partition"
        )
        self.measurement.measure("rest", lambda: self.measurement.world.run_for(10))

    def _measure_controller(self, broker: SimulatedBroker) -> None:
        measure, before = self.measurement.measure, resident_bytes()
        measure("takeover", lambda: self._settle(broker, [Delete(zk_paths.CONTROLLER)]))
        self.measurement.say(
            f"memory {(resident_bytes() - before) / 1e6:.1f} MB more as the controller, "
            f"at most {(peak_bytes() - before) / 1e6:.1f} MB"
        )
        lost = self._others[1]
        measure("broker lost", lambda: self._lose(broker, [lost]))
        measure("broker returns", lambda: self._return(broker, lost))
        rack = [number for number in self._others if number % _RACKS == 0]
        measure(f"rack of {len(rack)} lost", lambda: self._lose(broker, rack))

    def _lose(self, broker: SimulatedBroker, numbers: Iterable[int]) -> None:
        self._settle(broker, [Delete(zk_paths.broker(number)) for number in numbers])

    def _return(self, broker: SimulatedBroker, number: int) -> None:
        self._register(number)
        self._settle(broker, [])

    def _settle(self, broker: SimulatedBroker, changes: Iterable[Operation]) -> None:
        """Change the tree, and run until this broker is the controller and has done all that follows."""
        for change in changes:
            self._change(change, 0)
        self.measurement.world.run_for(2)
        if not self.measurement.world.run_until(lambda: self._has_settled(broker), _SETTLE_SECONDS_MAX):
            raise AssertionError("the controller does not come to rest")
        self.measurement.world.run_for(2)

    def _has_settled(self, broker: SimulatedBroker) -> bool:
        role = broker.role
        assert isinstance(role, ClusterRole)
        active = role.driver._active
        if active is None or not active.is_serving or active._changed or active._idle._pausing is None:
            return False
        channels: Any = active._channels
        return not any(queue._requests for queue in channels._queues.values())


def _host(number: int) -> str:
    return f"10.1.{number >> 8}.{number & 255}"


@click.command(help=__doc__)
@click.option("--cluster", type=COUNTS, required=True, help="brokers and partitions")
def main(cluster: tuple[int, int]) -> None:
    prepare_process()
    ZooKeeperScaleRun(*cluster).live()


if __name__ == "__main__":
    main()
