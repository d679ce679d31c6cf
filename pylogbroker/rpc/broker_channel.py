"""Channel of a broker to another broker of its cluster: requests in order, few in flight, on one connection.

    channel = BrokerChannel(reactor, address, ConnectionSettings(client_id="1"), protocol.fixed_versions)
    response = await channel.request(LeaderAndIsrRequest(...))

State of a channel's connection::

    event              none                connecting         open                          ended
    request            dial: connecting    wait               send, or wait for its place   dial: connecting
    connected          -                   send: open         -                             -
    lost, timed out    -                   fail all: ended    fail all: ended               -
    close              ended               fail all: ended    fail all: ended               -

Nothing is retried: only the caller knows whether a request is still wanted. A connection that ends fails all its
requests, in their order, so that no later request overtakes one that is retried. The next request connects again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import attrs
from twisted.internet.defer import Deferred, ensureDeferred, fail
from twisted.python.failure import Failure

from pylogbroker.metadata.image import BrokerRegistration
from pylogbroker.rpc.client_protocol import PreparedRequest
from pylogbroker.rpc.connection import BrokerConnection, connect
from pylogbroker.rpc.errors import Closed, NotAuthenticated, NotConnected
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.wire import Request

Connecting = Coroutine[Deferred[Any], Any, BrokerConnection]
_DialBroker = Callable[[Any, Address, ConnectionSettings, Mapping[int, int] | None], Connecting]


def listener_address(broker: BrokerRegistration, listener: str) -> Address:
    """Return a broker's address on a listener; raise NotConnected if it has none of this name."""
    endpoint = broker.listeners.get(listener)
    if endpoint is None:
        names = ", ".join(sorted(broker.listeners)) or "none"
        raise NotConnected(f"broker {broker.id} has no listener {listener}; its listeners: {names}")
    return Address(endpoint.host, endpoint.port)


@attrs.define(eq=False, repr=False)
class _ChannelRequest:
    request: Request | PreparedRequest
    version: int | None
    timeout: float | None
    decode_later: bool
    response: Deferred[Any]


class BrokerChannel:
    """Sends requests to one broker, at most `in_flight_max` of them before their responses.

    With `versions` by API key, nothing is negotiated; without, the first request on a connection is ApiVersions.
    """

    def __init__(
        self,
        reactor: Any,
        address: Address,
        settings: ConnectionSettings,
        versions: Mapping[int, int] | None = None,
        in_flight_max: int = 1,
        dial: _DialBroker = connect,
    ) -> None:
        self.address = address
        self._in_flight_max = in_flight_max
        self._dial: Callable[[], Connecting] = partial(dial, reactor, address, settings, versions)
        self._connection: _ChannelConnection | None = None
        self._is_closed = False

    @property
    def pending(self) -> int:
        """Number of requests without a response, sent or not."""
        return 0 if self._connection is None else self._connection.pending

    def request(
        self, request: Request | PreparedRequest, version: int | None = None, timeout: float | None = None
    ) -> Deferred[Any]:
        """Send a request after those before it; return a Deferred of its response.

        It fails with NotConnected if the request was not sent, or with KafkaError if the broker does not negotiate.
        With ConnectionLost, RequestTimedOut or Closed, the outcome is unknown. `timeout` seconds begin when the request
        is sent. UnsupportedVersion and EncodingError fail this request alone.
        """
        return self._send(request, version, timeout)

    def request_undecoded(self, request: Request, version: int | None = None) -> Deferred[Callable[[], Any]]:
        """Like `request`, but fire with a function that decodes the response, in any thread."""
        return self._send(request, version, None, decode_later=True)

    def _send(
        self, request: Request | PreparedRequest, version: int | None, timeout: float | None, decode_later: bool = False
    ) -> Deferred[Any]:
        if self._is_closed:
            return fail(Closed(f"the channel to {self.address} was closed"))
        if self._connection is None or not self._connection.is_usable:
            self._connection = _ChannelConnection(self._in_flight_max)
            self._connection.open(self._dial)
        sent = _ChannelRequest(request, version, timeout, decode_later, Deferred())
        self._connection.add(sent)
        return sent.response

    def close(self) -> None:
        """Fail all requests with Closed."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close(Closed(f"the channel to {self.address} was closed"))


class _ChannelConnection:
    """One connection of a channel, from the attempt to its end."""

    # Stages without types: requests are added before the attempt, and it may end at once

    def __init__(self, in_flight_max: int) -> None:
        self._in_flight_max = in_flight_max
        self._in_flight = 0
        self._waiting: deque[_ChannelRequest] = deque()
        self._attempt: Deferred[BrokerConnection] | None = None
        self._connection: BrokerConnection | None = None
        self._ended: Exception | None = None

    @property
    def pending(self) -> int:
        return self._in_flight + len(self._waiting)

    @property
    def is_usable(self) -> bool:
        """The connection is being made, or open."""
        return self._ended is None and (self._connection is None or self._connection.is_open)

    def open(self, dial: Callable[[], Connecting]) -> None:
        self._attempt = ensureDeferred(dial())
        self._attempt.addCallbacks(self._connected, self._not_connected)

    def add(self, request: _ChannelRequest) -> None:
        self._waiting.append(request)
        self._send()

    def close(self, reason: Exception) -> None:
        if self._ended is not None:
            return
        self._ended = reason
        if self._connection is not None:
            self._connection.close(reason)
        elif self._attempt is not None:
            self._attempt.cancel()
        self._fail_waiting()

    def _connected(self, connection: BrokerConnection) -> None:
        if self._ended is not None:
            connection.close()
            return
        self._connection = connection
        self._send()

    def _not_connected(self, failure: Failure) -> None:
        if self._ended is None:
            error = failure.value
            if isinstance(error, Exception) and not isinstance(error, NotAuthenticated):
                self._ended = error
            else:  # brokers go on trying: the other one may not know the credentials yet
                self._ended = NotConnected(failure.getErrorMessage())
        self._fail_waiting()

    def _send(self) -> None:
        while (
            self._waiting
            and self._ended is None
            and self._connection is not None
            and self._in_flight < self._in_flight_max
        ):
            sent = self._waiting.popleft()
            self._in_flight += 1
            answer = self._connection.request(
                sent.request, version=sent.version, timeout=sent.timeout, decode_later=sent.decode_later
            )
            answer.addCallbacks(self._answered, self._failed, callbackArgs=(sent,), errbackArgs=(sent,))

    def _answered(self, response: Any, sent: _ChannelRequest) -> None:
        self._in_flight -= 1
        sent.response.callback(response)
        self._send()

    def _failed(self, failure: Failure, sent: _ChannelRequest) -> None:
        self._in_flight -= 1
        assert self._connection is not None
        if self._ended is None and not self._connection.is_open:
            self._ended = NotConnected(f"not sent: {failure.getErrorMessage()}")
        sent.response.errback(failure)
        if self._ended is None:
            self._send()
        elif not self._in_flight:
            self._fail_waiting()

    def _fail_waiting(self) -> None:
        """Fail the requests that were not sent."""
        assert self._ended is not None
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            request.response.errback(Failure(self._ended))
