"""Two nodes that get the same requests: one learns the forms of repeated requests, the other handles each as usual."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import attrs

from pylogbroker.broker.apis import APIS
from pylogbroker.broker.partitions.traffic import TopicTraffic
from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.requests.produced_records import FIRST_BY_ID
from pylogbroker.metadata.image import topic_resource
from pylogbroker.net.protocol import KafkaProtocol
from pylogbroker.storage import FileRegion
from pylogbroker.wire import NO_ID, Request
from pylogbroker.wire.messages.produce import ProduceRequest, TopicProduceData
from tests.broker.nodes import Node, opened_node
from tests.broker.trees import now
from tests.net.fakes import FakeFactory, FakeTransport, connect, frame
from tests.storage.support import bytes_on_disk

LOST = UUID(int=99)
"""Id of topics that do not exist."""


@attrs.define
class Side:
    """A node with one connection; `usual` counts the requests that took the usual path."""

    node: Node
    learns: bool
    factory: FakeFactory = attrs.field(init=False)
    protocol: KafkaProtocol = attrs.field(init=False)
    transport: FakeTransport = attrs.field(init=False)
    usual: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        broker = self.node.broker
        apis = tuple(api if self.learns else api.handled_by(lambda api: api.handle) for api in APIS)
        self.factory = FakeFactory(
            tuple(self._guarded(api) for api in apis),
            reactor=self.node.clock,
            services=broker,
            authorizer=broker.authorizer,
            quotas=broker.quotas,
            deferred_actions=broker.runtime.deferred_actions,
        )
        self.connect()

    def _guarded(self, api: Api) -> Api:
        return api if self.node.broker.authorizer is None else api.guarded()

    def connect(self) -> None:
        self.protocol, self.transport = connect(self.factory)
        handle = self.protocol._request

        def count(frame: memoryview) -> None:
            self.usual += 1
            handle(frame)

        patch.object(self.protocol, "_request", count).start()

    def receive(self, data: bytes) -> tuple[bytes, str]:
        """Let the connection receive what its peer sent at once; return its answers, and how it was closed."""
        self.protocol.dataReceived(data)
        self.node.clock.advance(0)
        sent, self.transport.sent = self.transport.sent, []
        return sent_bytes(sent), self.transport.closed

    @property
    def ids(self) -> dict[str, UUID]:
        """Ids of the topics, in the order of the names; each side has its own."""
        topics = self.node.broker.metadata.topics
        return {name: topics[name].id for name in sorted(topics)}

    def frame(self, request: Request, version: int, number: int) -> bytes:
        """Encode a request, with ids in place of names where the version has them."""
        return frame(_with_ids(request, self.ids, version), version, number)

    def without_ids(self, answers: bytes, closed: str) -> tuple[bytes, str]:
        """Return answers, and how a connection was closed, as both sides have them."""
        for number, (name, topic_id) in enumerate(self.ids.items()):
            answers = answers.replace(topic_id.bytes, b"id of topic %4d" % number)
            closed = closed.replace(str(topic_id), name)
        return answers, closed

    def state(self, *topics: str) -> Any:
        """Return what requests leave behind: files, producers, counters."""
        broker = self.node.broker
        partitions = {key: found for key, found in broker.partitions.hosted.items() if key[0] in topics}
        return (
            {key: bytes_on_disk(found.log.path) for key, found in partitions.items()},
            {key: sorted(map(repr, found.log.producers)) for key, found in partitions.items()},
            {key: (found.log.log_end_offset, found.log.high_watermark) for key, found in partitions.items()},
            {topic: _counts(broker.partitions.traffic.of(topic)) for topic in topics},
            [(version, route.name, route.requests, route.errors) for version, route in self.routes()],
        )

    def routes(self) -> Iterator[Any]:
        return iter(self.protocol._headers.routes)


class Pair:
    """Both sides; no attrs class, of which Hypothesis would show the attributes."""

    def __init__(self, learning: Side, usual: Side) -> None:
        self.learning, self.usual = learning, usual

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.learning, self.usual

    def receive(self, *requests: tuple[Request, int, int]) -> tuple[bytes, str]:
        """Let both receive requests at once (version and correlation id behind each); return what both answer."""
        learning, usual = (self._received(side, requests) for side in self.sides)
        assert learning == usual
        return learning

    def _received(self, side: Side, requests: Sequence[tuple[Request, int, int]]) -> tuple[bytes, str]:
        """Let a side receive requests; return its answers without ids."""
        return side.without_ids(*side.receive(b"".join(side.frame(*request) for request in requests)))

    def each(self, change: Callable[[Node], Any]) -> None:
        for side in self.sides:
            change(side.node)

    def connect(self) -> None:
        for side in self.sides:
            side.protocol.connectionLost()
            side.connect()

    def check(self, topics: Sequence[str]) -> None:
        learning, usual = (side.state(*topics) for side in self.sides)
        assert learning == usual


def sent_bytes(chunks: Sequence[Any]) -> bytes:
    """Return the bytes of chunks, which may be regions of files."""
    return b"".join(chunk.read() if isinstance(chunk, FileRegion) else bytes(chunk) for chunk in chunks)


def _with_ids(request: Request, ids: Mapping[str, UUID], version: int) -> Request:
    if not isinstance(request, ProduceRequest) or version < FIRST_BY_ID:
        return request
    topics = [
        topic if topic.topic_id != NO_ID else TopicProduceData("", topic.partition_data, ids.get(topic.name, LOST))
        for topic in request.topic_data
    ]
    return attrs.evolve(request, topic_data=topics)


def _counts(traffic: TopicTraffic) -> dict[str, Any]:
    return {name: count for name, count in attrs.asdict(traffic, recurse=False).items() if name != "_costs"}


@contextmanager
def opened_pair(path: Path, settings: dict[str, str] | None = None) -> Iterator[Pair]:
    with ExitStack() as stack:
        (path / "learning").mkdir()
        (path / "ordinary").mkdir()
        nodes = [stack.enter_context(opened_node((str(path / name),), settings)) for name in ("learning", "ordinary")]
        stack.callback(patch.stopall)
        yield Pair(Side(nodes[0], learns=True), Side(nodes[1], learns=False))


def set_topic(node: Node, topic: str, **settings: str) -> None:
    """Replace the settings of a topic; names have underscores for dots."""
    texts = {name.replace("_", "."): text for name, text in settings.items()}
    now(node.broker.controller.alter_config(topic_resource(topic), lambda _: texts))
