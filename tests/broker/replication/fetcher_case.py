"""A fetcher whose replicas and channels are stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.replication.fetcher import ReplicaFetcher
from pylogbroker.broker.replication.leader_requests import FetcherSettings
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.replication import FetchFrom, FollowerReplica, FollowerRequest
from pylogbroker.replication.settings import ReplicationSettings
from pylogbroker.rpc.client_protocol import PreparedRequest
from pylogbroker.rpc.errors import NotConnected
from pylogbroker.wire import Request
from pylogbroker.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tests.broker.nodes import Threads
from tests.broker.prepared_requests import decoded
from tests.replication.model_log import ModelLog

TOPIC_ID = UUID(int=3)


@attrs.define(eq=False)
class Replica:
    """Stands for `Followership`: notes what it hears."""

    index: int
    wanted: list[FollowerRequest]
    topic: str = "t"
    topic_id: UUID = TOPIC_ID
    heard: list[Any] = attrs.field(factory=list)
    is_syncing: bool = False
    is_fetching: bool = True
    is_throttled: bool = False
    on_ready: Any = None
    on_asked: Callable[[], None] | None = None
    on_fetched: Callable[[], None] | None = None
    follower: FollowerReplica = attrs.field(
        factory=lambda: FollowerReplica(ModelLog(), 1, ReplicationSettings(), 0), init=False
    )

    def next_request(self) -> FollowerRequest | None:
        if self.on_asked is not None:
            call, self.on_asked = self.on_asked, None
            call()
        return self.wanted.pop(0) if self.wanted else None

    def fetched(self, request: FollowerRequest, answer: Any) -> None:
        self.heard.append("fetched")
        if self.on_fetched is not None:
            self.on_fetched()

    def not_answered(self, request: FollowerRequest) -> None:
        self.heard.append("not answered")

    def offset_listed(self, request: FollowerRequest, offset: int) -> None:
        self.heard.append(offset)

    def request_failed(self, request: FollowerRequest, error: ErrorCode) -> None:
        self.heard.append(error)

    def connection_lost(self) -> None:
        self.heard.append("lost")


@attrs.define(eq=False)
class Channel:
    """Follows up responses as a connection does."""

    sent: list[tuple[Request, Deferred[Any]]] = attrs.field(factory=list)
    is_closed: bool = False
    prepared: int = 0
    followed_up: int = 0
    _follow_ups: dict[Deferred[Any], Callable[[Any], Any]] = attrs.field(factory=dict)

    def request(self, request: Request | PreparedRequest, version: int | None = None) -> Deferred[Any]:
        response: Deferred[Any] = Deferred()
        self._send(request, response)
        return response

    def _send(self, request: Request | PreparedRequest, response: Deferred[Any]) -> None:
        self.sent.append((decoded(request), response))
        if isinstance(request, PreparedRequest):
            self.prepared += 1
            if request.follow_up is not None:
                self._follow_ups[response] = request.follow_up

    def close(self) -> None:
        self.is_closed = True

    def answer(self, response: Any) -> Any:
        """Answer the oldest request; return it."""
        request, waiting = self.sent.pop(0)
        follow_up = self._follow_ups.pop(waiting, None)
        result = response if follow_up is None else follow_up(response)
        if isinstance(result, PreparedRequest):
            self.followed_up += 1
            self._send(result, waiting)
        else:
            waiting.callback(result)
        return request


def fetch_from(offset: int) -> FetchFrom:
    return FetchFrom(1, offset, 1, 0)


def fetched(*indexes: int, session: int = 0, records: bytes = b"") -> FetchResponse:
    partitions = [PartitionData(index, records=records) for index in indexes]
    topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)] if indexes else []
    return FetchResponse(session_id=session, responses=topics)


def partitions_of(request: Any) -> list[int]:
    return [each.partition for topic in request.topics for each in topic.partitions]


def forgotten_of(request: Any) -> list[int]:
    return [index for topic in request.forgotten_topics_data for index in topic.partitions]


class FetcherCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.runtime = Runtime.on(self.clock, Threads(), Threads())
        self.runtime.slices.seconds = inf  # the test's clock does not go on by itself
        self.channel = Channel()
        self.seconds: list[Channel] = []
        self.is_alive = True
        settings = FetcherSettings(2, InterBrokerProtocol.parse("3.9"))
        self.fetcher = ReplicaFetcher(1, self.channel, self.open_channel, settings, self.runtime)

    def open_channel(self) -> Channel:
        if not self.is_alive:
            raise NotConnected("broker 1 is not registered")
        self.seconds.append(Channel())
        return self.seconds[-1]

    def add(self, *wanted: list[FollowerRequest]) -> list[Replica]:
        replicas = [Replica(index, requests) for index, requests in enumerate(wanted)]
        for replica in replicas:
            self.fetcher.add(replica)  # type: ignore[arg-type]
        self.fetcher.start()
        return replicas
