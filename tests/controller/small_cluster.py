"""A cluster in memory: brokers that obey, watches and channels that deliver, one controller after the other.

Nothing happens by itself: tests start events, and `settle` delivers watches, requests and answers until all is quiet.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from pylogbroker.controller.controller import WATCHED_CHILDREN, WATCHED_NODES, ClusterController, ControllerPhase
from pylogbroker.controller.isr_changes import WantedIsr
from pylogbroker.controller.ports import ControllerSettings
from pylogbroker.controller.requests import BrokerRequest, LeaderAndIsr, StopReplica, UpdateMetadata
from pylogbroker.controller.term import elect
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Create, Delete, Operation, SetData, Unavailable
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.image import BrokerRegistration, PartitionKey, PartitionState
from pylogbroker.metadata.zk_schema import BrokerNode, TopicNode
from tests.controller.memory_tree import AtOnce, Fault, Killed, MemoryTree, TreeSession
from tests.controller.stored_cluster import StoredCluster
from tests.tree.conftest import now


@attrs.define(eq=False)
class Channels:
    """Requests of one controller, by broker and epoch."""

    session: TreeSession | None = None
    """Session of the controller's process."""
    queues: dict[int, list[BrokerRequest]] = attrs.field(factory=dict)
    log: list[tuple[int, BrokerRequest]] = attrs.field(factory=list)

    def open(self, broker: BrokerRegistration) -> None:
        self.queues[broker.id] = []

    def close(self, broker_id: int) -> None:
        self.queues.pop(broker_id, None)

    def send(self, broker_id: int, request: BrokerRequest) -> None:
        if self.session is not None and self.session.is_killed:
            return
        self.queues[broker_id].append(request)
        self.log.append((broker_id, request))


@attrs.define(eq=False)
class ModelBroker:
    """Follows CLUSTER's rules for the three requests; keeps what it has learned."""

    id: int
    session: TreeSession
    epoch: int
    logs: set[tuple[str, uuid.UUID, int]]
    """Partitions with files here; they survive restarts."""
    failed: set[PartitionKey] = attrs.field(factory=set)
    controller_epoch: int = 0
    metadata: dict[PartitionKey, PartitionState] = attrs.field(factory=dict)
    live_brokers: frozenset[int] = frozenset()
    replicas: dict[PartitionKey, PartitionState] = attrs.field(factory=dict)
    led: list[tuple[str, uuid.UUID, int, int]] = attrs.field(factory=list)
    """Topic, id, partition and leader epoch of each leadership."""
    stale_requests: int = 0

    def receive(self, request: BrokerRequest) -> dict[PartitionKey, ErrorCode]:
        if request.broker_epoch < self.epoch:
            return _all(request, ErrorCode.STALE_BROKER_EPOCH)
        if request.controller_epoch < self.controller_epoch:
            self.stale_requests += 1
            return _all(request, ErrorCode.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = request.controller_epoch
        if isinstance(request, UpdateMetadata):
            return self._update(request)
        if isinstance(request, LeaderAndIsr):
            return {(each.topic, each.number): self._lead_or_follow(each) for each in request.partitions}
        return self._stop(request)

    def _update(self, request: UpdateMetadata) -> dict[PartitionKey, ErrorCode]:
        self.live_brokers = frozenset(broker.id for broker in request.live_brokers)
        for each in request.partitions:
            if each.state.leader == -2:
                self.metadata.pop((each.topic, each.number), None)
            else:
                self.metadata[each.topic, each.number] = each.state
        return {}

    def _lead_or_follow(self, each: Any) -> ErrorCode:
        key = (each.topic, each.number)
        if key in self.failed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.id not in each.state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        known = self.replicas.get(key)
        is_same = (each.topic, each.topic_id, each.number) in self.logs
        if known is not None and is_same and each.state.leader_epoch <= known.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.replicas[key] = each.state
        self.logs.add((each.topic, each.topic_id, each.number))
        if each.state.leader == self.id:
            self.led.append((each.topic, each.topic_id, each.number, each.state.leader_epoch))
        return ErrorCode.NONE

    def _stop(self, request: StopReplica) -> dict[PartitionKey, ErrorCode]:
        answer = {}
        for each in request.replicas:
            key = (each.topic, each.number)
            known = self.replicas.get(key)
            if known is not None and each.leader_epoch not in (-1, -2) and each.leader_epoch < known.leader_epoch:
                answer[key] = ErrorCode.FENCED_LEADER_EPOCH
                continue
            if each.delete:
                self.replicas.pop(key, None)
                self.logs -= {log for log in self.logs if (log[0], log[2]) == key}
            answer[key] = ErrorCode.NONE
        return answer


def _all(request: BrokerRequest, code: ErrorCode) -> dict[PartitionKey, ErrorCode]:
    if isinstance(request, StopReplica):
        return {(each.topic, each.number): code for each in request.replicas}
    return {(each.topic, each.number): code for each in request.partitions}


@attrs.define(eq=False)
class SmallCluster(StoredCluster):
    settings: ControllerSettings = attrs.field(factory=ControllerSettings)
    tree: MemoryTree = attrs.field(factory=MemoryTree)
    brokers: dict[int, ModelBroker] = attrs.field(factory=dict)
    disks: dict[int, set[tuple[str, uuid.UUID, int]]] = attrs.field(factory=dict)
    controller: ClusterController | None = None
    channels: Channels = attrs.field(factory=Channels)
    earlier_requests: list[tuple[int, BrokerRequest]] = attrs.field(factory=list)
    """Requests of former controllers."""
    changed: dict[str, None] = attrs.field(factory=dict)
    """Watched nodes whose change the controller has not seen."""
    dead_leaderships: list[tuple[int, tuple[str, uuid.UUID, int, int]]] = attrs.field(factory=list)
    clock: int = 1000
    faults: dict[int, Fault] = attrs.field(factory=dict)
    """Faults of controllers' transactions, by number."""
    transactions: int = 0
    crashed: list[int] = attrs.field(factory=list)
    """Brokers that died by a fault, to be started again."""

    def __attrs_post_init__(self) -> None:
        for path in (
            *("/brokers", "/brokers/ids", "/brokers/topics", "/config", "/config/topics", "/admin"),
            *("/admin/delete_topics", "/isr_change_notification", "/latest_producer_id_block"),
            "/log_dir_event_notification",
        ):
            self.tree.apply([Create(path)])
        self.tree.listeners.append(self._note_change)

    def _note_change(self, path: str) -> None:
        is_topic = path.startswith("/brokers/topics/") and path.count("/") == 3
        if is_topic or path in WATCHED_CHILDREN or path in WATCHED_NODES:
            self.changed.setdefault(path)

    def _fault(self, operation: Operation) -> Fault | None:
        self.transactions += 1
        return self.faults.get(self.transactions - 1)

    # -- brokers

    def start(self, *ids: int) -> None:
        for broker_id in ids:
            self.register(broker_id, self.tree.session())

    def register(self, broker_id: int, session: TreeSession) -> None:
        path = zk_paths.broker(broker_id)
        session.fault = self._fault
        node = BrokerNode((f"PLAINTEXT://b{broker_id}:9092",), {"PLAINTEXT": "PLAINTEXT"}, host="b", port=9092)
        self.tree.apply([Create(path, b"", ephemeral=True)], session.number)
        self.tree.apply([SetData(path, zk_schema.encode_broker(node, self.clock), 0)], session.number)
        created = self.tree.node(path)
        assert created
        former = self.brokers.get(broker_id)
        disk = self.disks.setdefault(broker_id, set())
        self.brokers[broker_id] = ModelBroker(broker_id, session, created.stat.created, disk)
        if former is not None:
            self.dead_leaderships += [(broker_id, each) for each in former.led]

    def kill(self, broker_id: int) -> None:
        """End a broker's process and session, also a controller's."""
        broker = self.brokers.pop(broker_id)
        self.dead_leaderships += [(broker_id, each) for each in broker.led]
        self.tree.expire(broker.session)
        if self.controller is not None and self.controller.term.broker_id == broker_id:
            self.controller = None

    def bounce(self, broker_id: int) -> None:
        """Let a broker's session expire, and register it again at once."""
        session = self.brokers[broker_id].session
        if self.controller is not None and self.controller.term.broker_id == broker_id:
            self.controller.resign()
            self.controller = None
        self.tree.expire(session)
        self.register(broker_id, self.tree.session())

    # -- the controller

    def elect(self, broker_id: int) -> bool:
        """Let a broker try to become the controller, and take over."""
        session = self.brokers[broker_id].session
        self.clock += 1
        try:
            term = now(elect(session, broker_id, self.clock))
            if term is None:
                return False
            self.changed.clear()
            self.earlier_requests += self.channels.log
            self.channels = Channels(session)
            self.controller = ClusterController.of(term, session, self.channels, self.settings, AtOnce())
            now(self.controller.take_over())
        except (Killed, Unavailable):
            self._crash(broker_id)
            return False
        except KafkaError:
            self._end_term()
            return False
        return True

    def ask(self, call: Callable[[ClusterController], Any]) -> Any:
        """Let the controller handle an event; return its result or error, None if it died or there is none."""
        controller = self.controller
        if controller is None:
            return None
        try:
            return now(call(controller))
        except Killed:
            self._crash(controller.term.broker_id)
            return None
        except KafkaError as error:
            if controller.phase is ControllerPhase.RESIGNED:
                self._end_term()
            return error

    def _end_term(self) -> None:
        """Forget a controller that has resigned. Without a session its broker has to register again."""
        controller, self.controller = self.controller, None
        if controller is not None and self.brokers[controller.term.broker_id].session.is_expired:
            self._crash(controller.term.broker_id)

    def _crash(self, broker_id: int) -> None:
        self.kill(broker_id)
        self.crashed.append(broker_id)

    # -- what operators and other brokers do

    def create_topic(self, name: str, replicas: Sequence[Sequence[int]], topic_id: uuid.UUID | None = None) -> None:
        known_id = uuid.uuid4() if topic_id is None else topic_id
        node = TopicNode(known_id, {n: tuple(brokers) for n, brokers in enumerate(replicas)})
        if self.tree.node(zk_paths.topic_config(name)) is None:
            self.tree.apply([Create(zk_paths.topic_config(name), zk_schema.encode_config({}))])
        self.tree.apply([Create(zk_paths.topic(name), zk_schema.encode_topic(node))])

    def add_partition(self, name: str, replicas: Sequence[int]) -> None:
        node = self.topic(name)
        added = {**node.replicas, len(node.replicas): tuple(replicas)}
        self.tree.apply([SetData(zk_paths.topic(name), zk_schema.encode_topic(attrs.evolve(node, replicas=added)))])

    def mark_deleted(self, name: str) -> None:
        self.tree.apply([Create(zk_paths.deleted_topic(name))])

    def alter_isr(self, key: PartitionKey, isr: Sequence[int], leader: int | None = None) -> Any:
        """Let the leader ask for an ISR, with the epochs in the tree."""
        state = self.state(key)
        sender = self.brokers.get(state.leader if leader is None else leader)
        if sender is None:
            return None
        change = WantedIsr(state.leader_epoch, state.partition_epoch, tuple(isr))
        answer = self.ask(lambda controller: controller.alter_partitions(sender.id, sender.epoch, {key: change}))
        return answer[key] if isinstance(answer, dict) else answer

    # -- what the tree has

    # -- deliveries

    def deliver_watch(self, path: str) -> None:
        self.changed.pop(path, None)
        self.ask(lambda controller: controller.on_node_changed(path))

    def deliver_request(self, broker_id: int) -> None:
        request = self.channels.queues[broker_id].pop(0)
        broker = self.brokers.get(broker_id)
        if broker is not None:
            errors = broker.receive(request)
            self.ask(lambda controller: controller.on_answer(broker_id, request, errors))

    def waiting_requests(self) -> list[int]:
        return [broker for broker, queue in sorted(self.channels.queues.items()) if queue and broker in self.brokers]

    def settle(self) -> None:
        """Deliver everything that waits."""
        for _ in range(10_000):
            if self.controller is None:
                return
            waiting = self.waiting_requests()
            if self.changed:
                self.deliver_watch(next(iter(self.changed)))
            elif waiting:
                self.deliver_request(waiting[0])
            else:
                return
        raise AssertionError("the cluster does not come to rest")

    def remove_controller_node(self) -> None:
        """Depose the controller as an operator can; its session and process live on."""
        self.tree.apply([Delete(zk_paths.CONTROLLER)])


T0: PartitionKey = ("t", 0)


def running(*replicas: Sequence[int], settings: ControllerSettings | None = None) -> SmallCluster:
    """Return a cluster of four brokers with a topic `t`; broker 4 is the controller."""
    cluster = SmallCluster(settings or ControllerSettings())
    cluster.start(1, 2, 3, 4)
    assert cluster.elect(4)
    cluster.create_topic("t", replicas, uuid.UUID(int=5))
    cluster.settle()
    cluster.channels.log.clear()
    return cluster


def written(cluster: SmallCluster, key: PartitionKey = T0) -> tuple[int, tuple[int, ...], int]:
    state = cluster.state(key)
    return state.leader, state.isr, state.leader_epoch


def sent(cluster: SmallCluster, broker: int) -> list[BrokerRequest]:
    return [request for to, request in cluster.channels.log if to == broker]


def kinds(cluster: SmallCluster, broker: int) -> list[str]:
    return [type(request).__name__ for request in sent(cluster, broker)]
