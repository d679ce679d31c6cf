"""`python -m tests.cluster.controller_process CONNECT ID [PROTOCOL [KILL]]`: a broker that can only be the controller.

It registers in ZooKeeper, stands for election, serves the controller's APIs, and obeys without doing anything. Lines of
JSON on its standard input create, enlarge and delete topics; each is answered by a line `done ...`. Log lines go to
standard output as well.

KILL is `before 7` or `after 7`: the process dies by SIGKILL before or after its seventh commit to ZooKeeper. It then
names each commit in a line. `before 0` names them only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, DeferredLock, maybeDeferred
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.stdio import StandardIO
from twisted.internet.task import deferLater, react
from twisted.internet.threads import deferToThreadPool
from twisted.logger import globalLogBeginner, textFileLogObserver
from twisted.protocols.basic import LineReceiver

from pylogbroker.broker.apis import APIS
from pylogbroker.broker.membership import topic_administration
from pylogbroker.broker.membership.active_controller import TermChannels
from pylogbroker.broker.membership.controller_channels import AnswerHandler, ChannelSettings, ControllerChannels
from pylogbroker.broker.membership.controller_driver import ControllerDriver
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.runtime.slices import Slices
from pylogbroker.controller.ports import ControllerSettings
from pylogbroker.interfaces import ITree, Operation, OperationResult, SessionEvent, SessionState
from pylogbroker.metadata.delta import PartitionsChanged
from pylogbroker.metadata.image import NO_TOPIC_ID, TopicImage
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.registration import cluster_id, create_permanent_nodes, register
from pylogbroker.metadata.zk_image import new_partitions
from pylogbroker.metadata.zk_schema import BrokerNode, new_id
from pylogbroker.tree.zookeeper import ZooKeeperTree
from pylogbroker.tree.zookeeper_options import ZooKeeperOptions, parse_connect
from pylogbroker.wire import (
    SUPPORTED,
    FrameSplitter,
    Request,
    Response,
    decode_request_header,
    request_codec,
    response_codec,
)
from pylogbroker.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from pylogbroker.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pylogbroker.wire.messages.elect_leaders import ElectLeadersRequest
from pylogbroker.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from pylogbroker.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from pylogbroker.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from pylogbroker.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

SESSION_SECONDS: Final = 3.0
POLL_SECONDS: Final = 0.02
FRAME_BYTES_MAX: Final = 1 << 26
ORDERS: Final[dict[int, type[Response]]] = {
    LeaderAndIsrRequest.api_key: LeaderAndIsrResponse,
    StopReplicaRequest.api_key: StopReplicaResponse,
    UpdateMetadataRequest.api_key: UpdateMetadataResponse,
}
OF_CONTROLLER: Final = (AlterPartitionReassignmentsRequest, ElectLeadersRequest, ListPartitionReassignmentsRequest)
"""Requests that a broker alone in its cluster answers, too."""
_KEYS: Final = {request.api_key for request in OF_CONTROLLER}
HANDLERS: Final = {api.key: api for api in APIS if api.cluster_only or api.key in _KEYS}


@attrs.frozen
class ControllerOnly:
    """The services that handlers of the controller's APIs use."""

    cluster_control: ControllerDriver
    runtime: Any

    def answer(self, version: int, request: Request) -> Any:
        key = request.api_key
        if key in ORDERS:
            return ORDERS[key]()
        if key == ApiVersionsRequest.api_key:
            served = [*ORDERS, *HANDLERS, key]
            ranges = [(each, SUPPORTED[each][0].versions) for each in sorted(served)]
            return ApiVersionsResponse(
                api_keys=[ApiVersion(each, versions.first, versions.last) for each, versions in ranges]
            )
        return HANDLERS[key].handle(self, RequestContext(version), request)


class Connection(Protocol):
    """Answers requests in their order; an unknown API ends the connection."""

    def __init__(self, services: ControllerOnly) -> None:
        self._services = services
        self._frames = FrameSplitter(FRAME_BYTES_MAX)
        self._lock = DeferredLock()

    def dataReceived(self, data: bytes) -> None:
        for frame in self._frames.split(data):
            handled = self._lock.run(lambda frame=frame: Deferred.fromCoroutine(self._handle(frame)))
            handled.addErrback(self._failed)

    async def _handle(self, frame: memoryview) -> None:
        header, position = decode_request_header(frame)
        key, version = header.api_key, header.api_version
        request = request_codec(key, version).decode(frame, position)
        answer = self._services.answer(version, request)
        response = await answer if isinstance(answer, Coroutine) else answer
        assert self.transport is not None
        self.transport.write(b"".join(response_codec(key, version).frame(header.correlation_id, response)))

    def _failed(self, failure: Any) -> None:
        print(f"request failed: {failure.getTraceback()}", flush=True)
        assert self.transport is not None
        self.transport.loseConnection()


class Commands(LineReceiver):
    """Creates, enlarges and deletes topics as each broker does, and waits until the controller has acted on that."""

    delimiter = b"\n"

    def __init__(self, reactor: Any, tree: ITree, driver: ControllerDriver, *, has_topic_ids: bool) -> None:
        self._reactor = reactor
        self._tree = tree
        self._driver = driver
        self._has_topic_ids = has_topic_ids

    def lineReceived(self, line: bytes) -> None:
        name, topic, *rest = json.loads(line)
        commands = {"create": self._create, "enlarge": self._enlarge, "delete": self._delete}
        done = maybeDeferred(lambda: Deferred.fromCoroutine(commands[name](topic, *rest)))
        done.addCallbacks(
            lambda _: print(f"done {name}", flush=True),
            lambda failure: print(f"failed {name}: {failure.value!r}", flush=True),
        )

    async def _create(self, topic: str, replicas: list[list[int]]) -> None:
        states = PersistentMap(new_partitions(dict(enumerate(replicas))))
        image = TopicImage(topic, new_id() if self._has_topic_ids else NO_TOPIC_ID, states)
        await topic_administration.create(self._tree, image, {})
        await self._until(lambda topics: topic in topics)

    async def _enlarge(self, topic: str, number: int, replicas: list[int]) -> None:
        added = new_partitions({number: replicas})
        await topic_administration.enlarge(self._tree, PartitionsChanged(topic, added))
        await self._until(lambda topics: number in topics[topic].partitions)

    async def _delete(self, topic: str) -> None:
        await topic_administration.mark_deleted(self._tree, topic)
        await self._until(lambda topics: topic not in topics)

    async def _until(self, holds: Callable[[Mapping[str, TopicImage]], bool]) -> None:
        """Ask this process's controller until a condition holds for its topics; fail if it is not the controller."""
        while True:
            await self._driver.list_reassignments([])  # answered after all earlier events
            if holds(self._driver.image.topics):
                return
            await deferLater(self._reactor, POLL_SECONDS)


def open_channels(settings: ChannelSettings, answered: AnswerHandler) -> TermChannels:
    return ControllerChannels.of(settings, answered, lambda about: False)


def die_at_commit(kill: str) -> None:
    """Let the process die before or after one of its commits, whatever its outcome."""
    when, _, number = kill.partition(" ")
    numbers, commit = count(1), ZooKeeperTree.commit

    async def counted(tree: ZooKeeperTree, operations: Sequence[Operation]) -> list[OperationResult]:
        own = next(numbers)
        print(f"commit {own}: {[each.path for each in operations]}", flush=True)
        try:
            if (own, when) == (int(number), "before"):
                os.kill(os.getpid(), signal.SIGKILL)
            return await commit(tree, operations)
        finally:
            if (own, when) == (int(number), "after"):
                os.kill(os.getpid(), signal.SIGKILL)

    ZooKeeperTree.commit = counted  # type: ignore[method-assign]


async def run(reactor: Any, connect: str, broker_id: str, protocol: str = "3.9", kill: str = "") -> None:
    if kill:
        die_at_commit(kill)

    def in_thread(work: Callable[[], None]) -> Deferred[None]:
        return deferToThreadPool(reactor, reactor.getThreadPool(), work)

    options = ZooKeeperOptions(session_timeout=SESSION_SECONDS, connection_timeout=30.0)
    tree: ITree = await ZooKeeperTree.connect(parse_connect(connect), options, reactor, in_thread)
    number, spoken = int(broker_id), InterBrokerProtocol.parse(protocol)
    slices = Slices(reactor)
    driver = ControllerDriver(
        number,
        tree,
        reactor,
        slices,
        lambda: ControllerSettings(protocol=spoken),
        partial(open_channels, ChannelSettings(reactor, spoken, "PLAINTEXT", broker_id, 5.0)),
    )
    services = ControllerOnly(driver, SimpleNamespace(slices=slices))
    factory = Factory()
    factory.buildProtocol = lambda _: Connection(services)  # type: ignore[method-assign]
    port = reactor.listenTCP(0, factory, interface="127.0.0.1").getHost().port
    await create_permanent_nodes(tree)
    await cluster_id(tree)
    node = BrokerNode((f"PLAINTEXT://127.0.0.1:{port}",), {"PLAINTEXT": "PLAINTEXT"}, host="127.0.0.1", port=port)

    async def join() -> None:
        await tree.new_session()
        await register(tree, number, node, int(reactor.seconds() * 1000))
        driver.start()

    def session_changed(event: SessionEvent) -> None:
        if event.state is SessionState.EXPIRED:
            reactor.callLater(0, lambda: Deferred.fromCoroutine(join()))

    tree.watch_session(session_changed)
    await join()
    StandardIO(Commands(reactor, tree, driver, has_topic_ids=spoken.has_topic_ids))
    print(f"listening {port}", flush=True)
    await Deferred()


def main() -> None:
    globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stdout)], redirectStandardIO=False)
    react(lambda reactor: Deferred.fromCoroutine(run(reactor, *sys.argv[1:])))


if __name__ == "__main__":
    main()
