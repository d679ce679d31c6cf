"""Queues of a controller's requests, one for each live broker. Source: Kafka's ControllerChannelManager.

| event of a queue             | what happens                                                           |
|------------------------------|------------------------------------------------------------------------|
| send                         | the request goes to the end; the first one is sent                     |
| answered                     | the answer is passed on, the next request is sent                      |
| lost, timed out, no listener | the same request is sent again after RETRY_SECONDS, on a new connection |
| not expressible              | logged as an error of this program, and dropped                        |
| close                        | all requests are dropped, also the one in flight                       |

Requests to the controller's own broker take the network, too: their order to others is that of every broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.membership.controller_requests import errors_of, prepared_update, to_wire
from pylogbroker.controller.requests import BrokerRequest, UpdateMetadata
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import BrokerRegistration, PartitionKey
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.rpc.broker_channel import BrokerChannel, listener_address
from pylogbroker.rpc.client_protocol import PreparedRequest
from pylogbroker.rpc.errors import Closed, NotConnected
from pylogbroker.rpc.retries import Pauses
from pylogbroker.rpc.security import OPEN, ConnectionSecurity
from pylogbroker.rpc.settings import ConnectionSettings
from pylogbroker.wire import EncodingError, Request, UnsupportedVersion

RETRY_SECONDS: Final = 0.1
log = Logger()

AnswerHandler = Callable[[int, BrokerRequest, Mapping[PartitionKey, ErrorCode]], None]


class OrderedChannel(Protocol):
    """A `BrokerChannel`, or a fake one."""

    def request(self, request: Request | PreparedRequest, /) -> Deferred[Any]: ...
    def close(self) -> None: ...


@attrs.frozen(eq=False, repr=False)
class ChannelSettings:
    """Connections of a controller; `listener` is inter.broker.listener.name, `request_seconds` the socket timeout."""

    reactor: Any
    protocol: InterBrokerProtocol
    listener: str
    client_id: str
    request_seconds: float = 30.0
    security: ConnectionSecurity = OPEN

    def connect(self, broker: BrokerRegistration) -> OrderedChannel:
        """Return a channel to a broker; raise NotConnected if it has no such listener."""
        settings = ConnectionSettings(
            client_id=self.client_id, request_timeout=self.request_seconds, security=self.security
        )
        address = listener_address(broker, self.listener)
        return BrokerChannel(self.reactor, address, settings, self.protocol.fixed_versions)

    def to_wire(self, request: BrokerRequest) -> Request | PreparedRequest:
        """Return the message of a request; raise EncodingError."""
        if isinstance(request, UpdateMetadata):
            return prepared_update(request, self.protocol)
        return to_wire(request, self.protocol, self.listener)


@attrs.define(eq=False, repr=False)
class ControllerChannels:
    """Requests of one term. `answered` gets each answer; `may_log` limits log lines."""

    _clock: IReactorTime
    _connect: Callable[[BrokerRegistration], OrderedChannel]
    _to_wire: Callable[[BrokerRequest], Request | PreparedRequest]
    _answered: AnswerHandler
    _may_log: Callable[[str], bool]
    _queues: dict[int, _RequestQueue] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(
        cls, settings: ChannelSettings, answered: AnswerHandler, may_log: Callable[[str], bool]
    ) -> ControllerChannels:
        return cls(settings.reactor, settings.connect, settings.to_wire, answered, may_log)

    def open(self, broker: BrokerRegistration) -> None:
        self.close(broker.id)
        answered = partial(self._answered, broker.id)
        self._queues[broker.id] = _RequestQueue(
            broker, self._clock, self._connect, self._to_wire, answered, self._may_log
        )

    def close(self, broker_id: int) -> None:
        queue = self._queues.pop(broker_id, None)
        if queue is not None:
            queue.close()

    def send(self, broker_id: int, request: BrokerRequest) -> None:
        queue = self._queues.get(broker_id)
        if queue is not None:
            queue.send(request)

    def close_all(self) -> None:
        for broker_id in list(self._queues):
            self.close(broker_id)


@attrs.define(eq=False, repr=False)
class _RequestQueue:
    _broker: BrokerRegistration
    _clock: IReactorTime
    _connect: Callable[[BrokerRegistration], OrderedChannel]
    _to_wire: Callable[[BrokerRequest], Request | PreparedRequest]
    _answered: Callable[[BrokerRequest, Mapping[PartitionKey, ErrorCode]], None]
    _may_log: Callable[[str], bool]
    _requests: deque[BrokerRequest] = attrs.field(factory=deque, init=False)
    """The first one is in flight, or waits for its next attempt."""
    _channel: OrderedChannel | None = attrs.field(default=None, init=False)
    _pauses: Pauses = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pauses = Pauses(self._clock)

    def send(self, request: BrokerRequest) -> None:
        self._requests.append(request)
        if len(self._requests) == 1:
            self._send_first()

    def close(self) -> None:
        self._requests.clear()
        self._pauses.close()
        if self._channel is not None:
            self._channel.close()

    def _send_first(self) -> None:
        request = self._requests[0]
        try:
            if self._channel is None:
                self._channel = self._connect(self._broker)
            sent = self._channel.request(self._to_wire(request))
        except (NotConnected, EncodingError):
            self._failed(Failure())
            return
        sent.addCallbacks(self._done, self._failed, callbackArgs=(request,))

    def _done(self, response: Any, request: BrokerRequest) -> None:
        if self._pauses.is_closed:
            return
        self._requests.popleft()
        if self._requests:
            self._send_first()
        self._answered(request, errors_of(request, response))

    def _failed(self, failure: Failure) -> None:
        if self._pauses.is_closed:
            return
        if failure.check(EncodingError, UnsupportedVersion):
            log.failure("a request of the controller to broker {id} was dropped", failure=failure, id=self._broker.id)
            self._requests.popleft()
            if self._requests:
                self._send_first()
            return
        if self._may_log(f"requests to broker {self._broker.id}"):
            log.warn(
                "the controller cannot reach broker {id}: {why}; trying again until its session has ended",
                id=self._broker.id,
                why=failure.getErrorMessage(),
            )
        pause = self._pauses.pause(RETRY_SECONDS)
        pause.addCallbacks(lambda _: self._send_first(), lambda closed: closed.trap(Closed) and None)
