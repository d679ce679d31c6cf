"""One connection to a broker, in Kafka's protocol.

    connection = await connect(reactor, Address("localhost", 9092), settings)
    response = await connection.request(MetadataRequest(topics=None))
    connection.close()

The first request negotiates API versions, unless they are given: between brokers, `inter.broker.protocol.version` fixes
them. With credentials, the client is authenticated next, and again before the session ends; requests wait meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred, ensureDeferred, fail
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure

from pylogbroker.features import on_first_use
from pylogbroker.rpc.client_protocol import ClientProtocol, PreparedRequest
from pylogbroker.rpc.endpoint import dial
from pylogbroker.rpc.errors import ConnectionLost, NotConnected, RequestTimedOut
from pylogbroker.rpc.pipelined_connection import FollowingRequest, PipelinedConnection
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.wire import EncodingError, Request, UnsupportedVersion

if TYPE_CHECKING:
    from pylogbroker.rpc import authentication
    from pylogbroker.security.sasl.credentials import Credentials
else:
    authentication = on_first_use("pylogbroker.rpc.authentication")

_CORRELATION_ID_BYTES: Final = 4


class BrokerConnection(PipelinedConnection):
    protocol_name = "Kafka's protocol"

    def __init__(self, clock: Any, address: Address, settings: ConnectionSettings) -> None:
        super().__init__(clock, address, settings)
        self._kafka = ClientProtocol(str(address), settings.client_id)
        self._setup_timeout = settings.setup_timeout
        self._held: deque[Callable[[], object]] | None = None  # requests that wait for an authentication
        self._renewal: IDelayedCall | None = None

    @property
    def sent(self) -> int:
        return self._kafka.encoded

    def version_of(self, kind: type[Request]) -> int:
        return self._kafka.version_of(kind)

    def feature_level(self, name: str) -> int:
        """Return the level that a feature of the cluster had when the connection was made; 0 if it was off."""
        return self._kafka.feature_level(name)

    def request(
        self,
        request: Request | PreparedRequest,
        *,
        version: int | None = None,
        expect_answer: bool = True,
        timeout: float | None = None,
        decode_later: bool = False,
    ) -> Deferred[Any]:
        """Send a request; return a Deferred of its response, or of None if none is expected.

        With `decode_later`, it fires with an UndecodedResponse.

        Without a response, it fires when the socket has accepted the request. It fails with ConnectionLost,
        RequestTimedOut after `timeout` seconds (default request.timeout.ms), UnsupportedVersion or EncodingError. Do
        not change records before: they are not copied.
        """
        if self._held is not None:
            return self._hold(request, version, expect_answer, timeout, decode_later)
        return self._send_now(request, version, expect_answer, timeout, decode_later)

    def _send_now(
        self,
        request: Request | PreparedRequest,
        version: int | None = None,
        expect_answer: bool = True,
        timeout: float | None = None,
        decode_later: bool = False,
    ) -> Deferred[Any]:
        if not self.is_open:
            return self._not_connected()
        try:
            name, chunks, decode = self._kafka.encode(request, version)
        except (UnsupportedVersion, EncodingError) as error:
            return fail(error)
        if not expect_answer:
            return self._send_unanswered(chunks)
        if isinstance(request, PreparedRequest) and request.follow_up is not None:
            decode = partial(self._follow_up, decode, request.follow_up)
        return self._send_request(name, chunks, partial(UndecodedResponse, decode) if decode_later else decode, timeout)

    def _follow_up(
        self, decode: Callable[[memoryview], Any], follow_up: Callable[[Any], Any], frame: memoryview
    ) -> Any:
        """Return the request that follows a response, or the answer for the caller."""
        answer = decode(frame)
        if self._held is not None:  # the client is authenticated again
            return answer
        answer = follow_up(answer)
        if not isinstance(answer, PreparedRequest) or answer.follow_up is None:
            return answer
        _, chunks, decode = self._kafka.encode(answer)
        return FollowingRequest(chunks, partial(self._follow_up, decode, answer.follow_up))

    def assume_versions(self, newest: Mapping[int, int]) -> None:
        """Use the newest versions by API key, and older ones if asked for, without a negotiation."""
        self._kafka.assume_versions(newest)

    async def negotiate_versions(self, timeout: float) -> None:
        while not self._kafka.is_negotiated:
            request, version = self._kafka.next_request()
            self._kafka.handle_response(await self.request(request, version=version, timeout=timeout))

    # -- authentication ------------------------------------------------------------------------------------------

    async def authenticate(self, credentials: Credentials, timeout: float) -> None:
        """Authenticate, and again before the session ends; raise NotAuthenticated, or RequestTimedOut.

        Each step may take `timeout` seconds.
        """
        steps = authentication.authenticate(self._kafka, credentials, self._security.names)
        try:
            step = next(steps)
            while True:
                if isinstance(step, Request):
                    answer = await self._send_now(step, timeout=timeout)
                    step = steps.send(answer)
                    continue
                try:
                    working = deferToThreadPool(self._clock, self._clock.getThreadPool(), step)
                    result = await working.addTimeout(timeout, self._clock)
                except DeferredTimeout:  # of a token's provider; requests that are held must not wait for ever
                    raise RequestTimedOut(f"the login to {self.address} was not ready in {timeout:g} s") from None
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            if end.value and self.is_open:
                again = partial(self._authenticate_again, credentials)
                self._renewal = self._clock.callLater(authentication.renewal_seconds(end.value), again)

    def _authenticate_again(self, credentials: Credentials) -> None:
        self._renewal = None
        self._held = deque()
        renewal = ensureDeferred(self.authenticate(credentials, self._setup_timeout))
        renewal.addCallbacks(lambda _: self._release(), self._not_renewed)

    def _hold(self, *request: Any) -> Deferred[Any]:
        assert self._held is not None
        answer: Deferred[Any] = Deferred()
        self._held.append(lambda: self._send_now(*request).chainDeferred(answer))
        return answer

    def _release(self) -> None:
        """Send the requests that waited, in order; without a connection, they fail."""
        held, self._held = self._held, None
        for send in held or ():
            send()

    def _not_renewed(self, failure: Failure) -> None:
        self.close(ConnectionLost(f"the connection to {self.address} ended: {failure.getErrorMessage()}"))
        self._release()

    def _loss_hint(self) -> str:
        return self._kafka.hint(self.in_flight, self._security)

    def _end(self, error: Exception) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        super()._end(error)


class UndecodedResponse:
    """A response; a call returns it decoded, or raises WireError, in any thread."""

    __slots__ = ("_decode", "_frame")

    def __init__(self, decode: Callable[[memoryview], Any], frame: memoryview) -> None:
        self._decode = decode
        self._frame = frame

    def __call__(self) -> Any:
        return self._decode(self._frame)

    def __len__(self) -> int:
        return len(self._frame)

    def equals(self, other: UndecodedResponse) -> bool:
        """Return whether both have the same bytes, except for the correlation id."""
        mine, others = self._frame[_CORRELATION_ID_BYTES:], other._frame[_CORRELATION_ID_BYTES:]
        return len(mine) == len(others) and bytes(mine) == bytes(others)


async def connect(
    reactor: Any, address: Address, settings: ConnectionSettings, versions: Mapping[int, int] | None = None
) -> BrokerConnection:
    """Return a connection ready for requests; raise NotConnected, or NotAuthenticated, which is not to be retried.

    `versions` by API key are used without a negotiation.
    """
    started = reactor.seconds()
    connection = await dial(reactor, address, settings, BrokerConnection)
    credentials = settings.security.credentials

    def seconds_left() -> float:
        return max(0.001, float(started + settings.setup_timeout - reactor.seconds()))

    try:
        if versions is None or credentials is not None:
            await connection.negotiate_versions(seconds_left())
        if credentials is not None:
            await connection.authenticate(credentials, seconds_left())
    except BaseException as error:
        connection.close()
        if isinstance(error, ConnectionLost | RequestTimedOut):
            raise NotConnected(str(error)) from error
        raise
    if versions is not None:
        connection.assume_versions(versions)
    return connection
