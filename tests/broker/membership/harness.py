"""A driver of a controller on an embedded tree, with brokers that obey, and faults of the session."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from pylogbroker.broker.membership import topic_administration
from pylogbroker.broker.membership.controller_channels import AnswerHandler
from pylogbroker.broker.membership.controller_driver import ControllerDriver
from pylogbroker.controller.ports import ControllerSettings
from pylogbroker.controller.requests import BrokerRequest
from pylogbroker.interfaces import (
    Changed,
    Create,
    Delete,
    Operation,
    OperationResult,
    SessionEvent,
    SessionExpired,
    SessionListener,
    SessionState,
    Unavailable,
    Watch,
)
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.delta import PartitionsChanged
from pylogbroker.metadata.image import BrokerRegistration, PartitionState, TopicImage
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.zk_image import assigned_partitions, new_partitions, with_stored_state
from pylogbroker.metadata.zk_schema import BrokerNode, new_id
from pylogbroker.tree.embedded import EmbeddedTree
from tests.broker.trees import now
from tests.controller.memory_tree import AtOnce
from tests.controller.small_cluster import ModelBroker

T = TypeVar("T")
CONTROLLER = 0


@attrs.define(eq=False)
class BreakableTree:
    """An embedded tree whose session can be lost or expire."""

    tree: EmbeddedTree
    session_id: int = 1
    is_suspended: bool = False
    has_expired: bool = False
    loses_answers: int = 0
    """Commits that are done, and whose answer is lost."""
    listeners: list[SessionListener] = attrs.field(factory=list)
    commits: list[Sequence[Operation]] = attrs.field(factory=list)
    reads: list[str] = attrs.field(factory=list)
    """Paths that were read without a watch."""
    watches: list[tuple[str, Watch]] = attrs.field(factory=list)
    """All that were ever set; calls of those that were called do no harm."""

    def _check(self) -> None:
        if self.has_expired:
            raise SessionExpired("/")
        if self.is_suspended:
            raise Unavailable("/")

    def watch_session(self, listener: SessionListener) -> None:
        self.listeners.append(listener)

    async def commit(self, operations: Sequence[Operation]) -> list[OperationResult]:
        self._check()
        self.commits.append(operations)
        done = await self.tree.commit(operations)
        if self.loses_answers:
            self.loses_answers -= 1
            raise Unavailable(operations[-1].path)
        return done

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.tree, name)

        async def checked(*arguments: Any) -> Any:
            self._check()
            path, *watch = arguments
            if watch and watch[0] is not None:
                self.watches.append((path, watch[0]))
            else:
                self.reads += [path] if isinstance(path, str) else path
            return await method(*arguments)

        return checked

    def reconnect(self) -> None:
        """Call all watches, as after a lost connection."""
        watches, self.watches = self.watches, []
        for path, watch in watches:
            watch(Changed(path))

    def expire(self) -> None:
        """End the session: its ephemeral nodes are removed. Brokers of other sessions keep theirs."""
        self.has_expired = True
        if now(self.tree.exists(zk_paths.CONTROLLER)) is not None:
            now(self.tree.commit([Delete(zk_paths.CONTROLLER)]))
        for listener in self.listeners:
            listener(SessionEvent(SessionState.EXPIRED, self.session_id))

    def new_session(self) -> None:
        self.has_expired = False
        self.session_id += 1


@attrs.define(eq=False)
class ModelChannels:
    """Channels of one term. Requests wait until `deliver`."""

    cluster: DrivenCluster
    answered: AnswerHandler
    queues: dict[int, deque[BrokerRequest]] = attrs.field(factory=dict)
    is_closed: bool = False

    def open(self, broker: BrokerRegistration) -> None:
        self.queues[broker.id] = deque()

    def close(self, broker_id: int) -> None:
        self.queues.pop(broker_id, None)

    def send(self, broker_id: int, request: BrokerRequest) -> None:
        self.queues[broker_id].append(request)

    def close_all(self) -> None:
        self.queues.clear()
        self.is_closed = True

    def deliver(self) -> None:
        while waiting := next(((id, queue) for id, queue in sorted(self.queues.items()) if queue), None):
            broker, queue = waiting
            request = queue.popleft()
            self.answered(broker, request, self.cluster.brokers[broker].receive(request))


@attrs.define(eq=False)
class DrivenCluster:
    """`start` brokers, then `driver.start()`."""

    embedded: EmbeddedTree
    settings: ControllerSettings = attrs.field(factory=ControllerSettings)
    balance_seconds: float | None = None
    clock: Clock = attrs.field(factory=Clock)
    brokers: dict[int, ModelBroker] = attrs.field(factory=dict)
    channels: list[ModelChannels] = attrs.field(factory=list)
    tree: BreakableTree = attrs.field(init=False)
    driver: ControllerDriver = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.tree = BreakableTree(self.embedded)
        self.driver = ControllerDriver(
            CONTROLLER,
            self.tree,  # type: ignore[arg-type]
            self.clock,
            AtOnce(),
            lambda: self.settings,
            self.open_channels,
            self.balance_seconds,
        )

    def open_channels(self, answered: AnswerHandler) -> ModelChannels:
        self.channels.append(ModelChannels(self, answered))
        return self.channels[-1]

    def start(self, *ids: int, has_archive: bool = False) -> None:
        for broker_id in ids:
            endpoints = (f"PLAINTEXT://b{broker_id}:9092",)
            node = BrokerNode(endpoints, {"PLAINTEXT": "PLAINTEXT"}, None, "b", 9092, has_archive=has_archive)
            self.write(Create(zk_paths.broker(broker_id), zk_schema.encode_broker(node, 1), ephemeral=True))
            epoch = now(self.embedded.get(zk_paths.broker(broker_id))).stat.created
            session: Any = None
            self.brokers[broker_id] = ModelBroker(broker_id, session, epoch, set())

    def end(self, broker_id: int) -> None:
        self.write(Delete(zk_paths.broker(broker_id)))

    def write(self, *operations: Operation) -> None:
        """Write as another broker or tool."""
        now(self.embedded.commit(operations))

    def deliver(self) -> None:
        for channels in self.channels:
            channels.deliver()

    def state(self, topic: str, number: int) -> PartitionState:
        assigned = zk_schema.decode_topic(now(self.embedded.get(zk_paths.topic(topic))).data)
        [node] = now(self.embedded.get_many([zk_paths.partition_state(topic, number)]))
        return with_stored_state(assigned_partitions(assigned)[number], node)

    def create(self, name: str, *replicas: Sequence[int], **settings: str) -> TopicImage:
        """Create a topic as each broker does; return it as the controller knows it then."""
        states = PersistentMap(new_partitions(dict(enumerate(replicas))))
        now(topic_administration.create(self._tree, TopicImage(name, new_id(), states), settings))
        return self.driver.image.topics[name]

    def enlarge(self, name: str, added: Mapping[int, Sequence[int]]) -> TopicImage:
        now(topic_administration.enlarge(self._tree, PartitionsChanged(name, new_partitions(added))))
        return self.driver.image.topics[name]

    def delete(self, name: str) -> None:
        now(topic_administration.mark_deleted(self._tree, name))

    @property
    def _tree(self) -> Any:
        return self.tree


def begin(work: Coroutine[Deferred[Any], Any, T]) -> Deferred[T]:
    return Deferred.fromCoroutine(work)


def error_of(work: Awaitable[Any]) -> BaseException:
    """Return the error that a call raises at once."""
    raised: list[Any] = []
    Deferred.fromCoroutine(_awaited(work)).addBoth(raised.append)
    [failure] = raised
    assert isinstance(failure, Failure), failure
    assert failure.value is not None
    return failure.value


async def _awaited(work: Awaitable[T]) -> T:
    return await work
