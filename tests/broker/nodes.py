"""A whole node in the test's own process, without sockets: its handlers are asked as the network asks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from inspect import iscoroutine
from math import inf
from tempfile import TemporaryDirectory
from typing import Any

import attrs
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

import pylogbroker.legacy07.storage  # noqa: F401  registers the message format
from pylogbroker.broker.assembly import Broker, RemoteStorage, assemble
from pylogbroker.broker.partitions.log_config import opening_configs
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.declared_services import select_services
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.interfaces import ITree
from pylogbroker.metadata.delta import Delta, NewTopic, PartitionsChanged
from pylogbroker.metadata.image import PartitionState
from pylogbroker.records import Buffer, Record, build
from pylogbroker.security.principals import ANONYMOUS
from pylogbroker.storage import LogManager, load_logs
from pylogbroker.tap import plugins
from pylogbroker.wire import SUPPORTED, Request, Response, codec
from tests.broker.newest_versions import newest
from tests.broker.trees import now, opened_tree

NODE_ID = 7
CLUSTER_ID = "cluster-of-one-node-xx"
PORT = 9092
START = 1_700_000_000.0


@attrs.define
class Threads:
    """The worker threads of a test: what is called there runs at once or, while `holding`, when `run_one` says so."""

    holding: bool = False
    held: list[tuple[Deferred[Any], Callable[[], Any]]] = attrs.field(factory=list)

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        if not self.holding:
            return maybeDeferred(function, *arguments)
        waiting: Deferred[Any] = Deferred()
        self.held.append((waiting, lambda: function(*arguments)))
        return waiting

    def run_one(self) -> None:
        """Let the oldest of the held calls run."""
        waiting, call = self.held.pop(0)
        maybeDeferred(call).chainDeferred(waiting)

    def finish(self) -> None:
        """Let all held calls run: else the garbage collector closes what waits for them, during another test."""
        self.holding = False
        while self.held:
            self.run_one()


@attrs.define(repr=False)  # it would be long: pytest shows the values in a failed assertion
class Node:
    """A broker, its clock and its threads."""

    broker: Broker
    clock: Clock
    directories: tuple[str, ...]
    threads: Threads
    tree: ITree
    logins: Threads = attrs.field(factory=Threads, kw_only=True)

    def ask(
        self,
        handle: Callable[..., Any],
        request: Request,
        version: int | None = None,
        host: str = "",
        principal: str = ANONYMOUS,
    ) -> Any:
        """The answer to a request, both sent through the wire's codecs in the version, by default the newest."""
        return now(self.send(handle, request, version, host, principal))

    def send(
        self,
        handle: Callable[..., Any],
        request: Request,
        version: int | None = None,
        host: str = "",
        principal: str = ANONYMOUS,
    ) -> Deferred[Any]:
        """Like `ask`, for an answer that may have to wait, or that is None and not sent."""
        request_type, response_type = SUPPORTED[request.api_key]
        version = newest(request.api_key) if version is None else version
        sent = codec(request_type, version).decode(codec(request_type, version).encode(request))

        def receive(answer: Response | Failure | None) -> Any:
            if not isinstance(answer, response_type):
                return answer
            chunks = codec(response_type, version).chunks(answer)
            data = b"".join(chunk if isinstance(chunk, Buffer) else chunk.read() for chunk in chunks)
            return codec(response_type, version).decode(data)

        def begin() -> Any:
            answer = handle(self.services_of(request), self.context(version, host, principal), sent)
            if iscoroutine(answer):
                return self.broker.runtime.slices.attempt(answer)
            return answer

        return maybeDeferred(begin).addBoth(receive)

    def services_of(self, request: Request | type[Request]) -> Any:
        """The services that the API of a request declares; none if the broker does not offer it."""
        api = next((api for api in self.broker.apis if api.key == request.api_key), None)
        return select_services(self.broker, () if api is None else api.services)

    def context(self, version: int, host: str, principal: str) -> RequestContext:
        """The context of a request from a host."""
        authorizer = self.broker.authorizer
        access = None if authorizer is None else authorizer.access(principal, host)
        return RequestContext(version, client_host=host, local_host="here", principal=principal, access=access)

    def create(self, name: str, partitions: int = 1, **overrides: str) -> None:
        """Make a topic; settings by their names with underscores for dots."""
        settings = {setting.replace("_", "."): text for setting, text in overrides.items()}
        now(self.broker.controller.create_topic(NewTopic(name, partitions, 1, settings=settings)))

    def change_partition(self, topic: str, index: int, **state: Any) -> None:
        """Publish another state of a partition, as a controller would."""
        before = self.broker.metadata.topics[topic].partitions[index]
        now(self.broker.metadata.publish(Delta.of(PartitionsChanged(topic, {index: attrs.evolve(before, **state)}))))

    def add_partition(self, topic: str, index: int, leader: int) -> None:
        """Publish another partition of a topic, as a controller would."""
        state = PartitionState(leader, (leader,), (leader,))
        now(self.broker.metadata.publish(Delta.of(PartitionsChanged(topic, {index: state}))))

    def produce(self, topic: str, partition: int, *timestamps: int, epoch: int | None = None) -> None:
        """Append a batch with a record for each timestamp."""
        found = self.broker.partitions.find(topic, partition)
        if epoch is not None:
            found.leader_epoch = epoch
        batch = build([Record(n, timestamp, None, b"value") for n, timestamp in enumerate(timestamps)])
        found.append(batch, self.broker.runtime.now_ms())


@contextmanager
def opened_node(directories: tuple[str, ...], settings: dict[str, str] | None = None) -> Iterator[Node]:
    """A node on these directories, the first of which holds the tree; they keep what it wrote."""
    config = BrokerConfig({"log.dirs": ",".join(directories)} | (settings or {}))
    clock = Clock()
    clock.advance(START)
    with opened_tree(directories[0]) as tree:
        logs = LogManager(directories)
        logs.directories.lock()
        logs.directories.claim(NODE_ID, CLUSTER_ID)
        threads, logins = Threads(), Threads()
        policies = plugins.delete_policies()
        runtime = Runtime.on(clock, threads, threads, None, logins)
        receivers = plugins.telemetry_receivers(config)
        storage = plugins.remote_storage(config)
        broker = assemble(
            config, NODE_ID, CLUSTER_ID, runtime, tree, logs, policies, telemetry_receivers=receivers,
            remote_storage=None if storage is None else RemoteStorage(storage, threads, threads),
        )  # fmt: skip
        broker.runtime.slices.seconds = inf  # long loops run to their end: a test's clock does not go on by itself
        broker.node.listeners["PLAINTEXT"] = Listener("PLAINTEXT", "", PORT, "PLAINTEXT", "", PORT)
        now(broker.controller.open(broker.runtime.slices))
        load_logs(logs, opening_configs(config, broker.metadata.image), int(START * 1000), print)
        now(broker.open())
        try:
            yield Node(broker, clock, directories, threads, tree, logins=logins)
        finally:
            release(broker)
            threads.finish()
            logins.finish()
            logs.close()


def release(broker: Broker) -> None:
    """Stop a broker; fail if work on its archive is left: a later test would end it, or collect it."""
    broker.release()
    left = [] if broker.archive is None else broker.archive.unfinished()
    assert not left, f"the archive has not ended: {', '.join(left)}"


class NodeTests(SynchronousTestCase):
    """Each test has a node of its own, `self.node`, with `settings` in its file."""

    settings: dict[str, str] = {}
    directory_count = 1

    def setUp(self) -> None:
        self.directories = tuple(self.enterContext(TemporaryDirectory()) for _ in range(self.directory_count))
        self._stack = self.enterContext(ExitStack())
        self.node = self._stack.enter_context(opened_node(self.directories, self.settings))

    def stop(self) -> None:
        self._stack.close()

    def restart(self) -> None:
        """Stop the node, and start it again on the same directories."""
        self.stop()
        self.node = self._stack.enter_context(opened_node(self.directories, self.settings))
