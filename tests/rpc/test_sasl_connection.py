"""Authentication on a connection, and again before its session ends; the broker's answers are scripted."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.client.settings import CLIENT, read
from pylogbroker.errors import ErrorCode
from pylogbroker.rpc.connection import BrokerConnection
from pylogbroker.rpc.errors import ConnectionLost, NotAuthenticated, NotConnected, RequestTimedOut
from pylogbroker.rpc.security import ConnectionSecurity, SecurityNames
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.security.sasl.credentials import Credentials
from pylogbroker.wire import UnsupportedVersion, request_codec, response_codec
from pylogbroker.wire.headers import decode_request_header
from pylogbroker.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.rpc.test_connection import MemoryTransport

VERSIONS = ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 4), ApiVersion(17, 0, 1), ApiVersion(36, 0, 2)])
BEAT = HeartbeatRequest(group_id="g", member_id="m")
SHAKEN = SaslHandshakeResponse(mechanisms=["PLAIN"])


class ThreadedClock(Clock):
    """Its threads run what they are given at once, or keep it while `holding`."""

    def __init__(self) -> None:
        super().__init__()
        self.holding = False
        self.held: list[Callable[[], None]] = []

    def getThreadPool(self) -> ThreadedClock:
        return self

    def callInThreadWithCallback(self, done: Callable[[bool, Any], None], work: Callable[[], Any]) -> None:
        def run() -> None:
            try:
                result = work()
            except Exception:
                done(False, Failure())
            else:
                done(True, result)

        if self.holding:
            self.held.append(run)
        else:
            run()

    def callFromThread(self, function: Callable[..., None], *arguments: Any) -> None:
        function(*arguments)


class SaslConnectionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.transport = ThreadedClock(), MemoryTransport()
        user = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret"}
        self.credentials = Credentials.of_client(read(CLIENT, user), None)
        security = ConnectionSecurity(
            credentials=self.credentials, names=SecurityNames("the.protocol", "the.mechanism")
        )
        self.connection = BrokerConnection(self.clock, Address("there", 9093), ConnectionSettings(security=security))
        self.connection.makeConnection(self.transport)  # type: ignore[arg-type]
        self.numbers: list[tuple[int, int, int]] = []

    def requests(self) -> list[Any]:
        """Return what was sent since the last time."""
        data, found = memoryview(self.transport.take()), []
        while data:
            (size,) = struct.unpack_from(">i", data)
            frame, data = data[4 : 4 + size], data[4 + size :]
            header, position = decode_request_header(frame)
            found.append(request_codec(header.api_key, header.api_version).decode(frame, position))
            self.numbers.append((header.api_key, header.api_version, header.correlation_id))
        return found

    def answer(self, response: Any) -> None:
        key, version, correlation_id = self.numbers.pop(0)
        chunks = response_codec(key, version).frame(correlation_id, response)
        self.connection.dataReceived(b"".join(map(bytes, chunks)))

    def start(self, versions: ApiVersionsResponse = VERSIONS) -> Deferred[None]:
        """Begin, and answer ApiVersions."""

        async def run() -> None:
            await self.connection.negotiate_versions(5)
            await self.connection.authenticate(self.credentials, 5)
            self.connection.assume_versions({12: 2})

        done = ensureDeferred(run())
        self.requests()
        self.answer(versions)
        return done

    def finish(self, lifetime_ms: int = 0) -> None:
        """Expect the authentication, and answer it."""
        assert self.requests() == [SaslHandshakeRequest("PLAIN")]
        self.answer(SHAKEN)
        assert self.requests() == [SaslAuthenticateRequest(b"\0alice\0secret")]
        self.answer(SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms))

    def test_the_authentication_follows_the_versions(self) -> None:
        done = self.start()
        self.finish()
        self.successResultOf(done)
        self.clock.advance(1e6)
        self.assertEqual(self.requests(), [])
        with self.assertRaises(UnsupportedVersion, msg="the versions between brokers count from now on"):
            self.connection.version_of(ListGroupsRequest)

    def failure_of(self, *answers: Any) -> NotAuthenticated:
        done = self.start()
        for each in answers:
            self.requests()
            self.answer(each)
        error = self.failureResultOf(done, NotAuthenticated).value
        assert isinstance(error, NotAuthenticated)
        self.assertFalse(error.code.retriable)
        self.assertNotIn("secret", str(error))
        return error

    def test_wrong_credentials(self) -> None:
        error = self.failure_of(SHAKEN, SaslAuthenticateResponse(58, "invalid credentials"))
        self.assertEqual((str(error), error.code), ("there:9093: invalid credentials", 58))

    def test_a_mechanism_that_is_not_enabled(self) -> None:
        error = self.failure_of(SaslHandshakeResponse(33, ["SCRAM-SHA-256", "SCRAM-SHA-512"]))
        self.assertIn("does not enable PLAIN, but SCRAM-SHA-256, SCRAM-SHA-512: set the.mechanism", str(error))

    def test_a_listener_without_sasl(self) -> None:
        error = self.failure_of(SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))
        self.assertIn("this listener has no SASL: set the.protocol to PLAINTEXT or SSL", str(error))

    def test_a_broker_that_knows_tokens_without_headers_alone(self) -> None:
        done = self.start(ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 4), ApiVersion(17, 0, 0)]))
        self.assertIn("older than Kafka 1.0", str(self.failureResultOf(done, NotAuthenticated).value))
        self.assertEqual(self.requests(), [])

    def test_the_session_is_renewed_while_requests_wait(self) -> None:
        done = self.start()
        self.finish(lifetime_ms=10_000)
        self.successResultOf(done)
        self.clock.advance(8.4)
        before = self.connection.request(BEAT)
        self.assertEqual(self.requests(), [BEAT])
        self.clock.advance(1.2)
        waiting = [self.connection.request(BEAT), self.connection.request(BEAT, version=0)]
        self.assertEqual(self.requests(), [SaslHandshakeRequest("PLAIN")])
        self.answer(HeartbeatResponse())
        self.successResultOf(before)
        self.answer(SHAKEN)
        self.assertEqual(self.requests(), [SaslAuthenticateRequest(b"\0alice\0secret")])
        self.answer(SaslAuthenticateResponse(session_lifetime_ms=10_000))
        self.assertEqual(self.requests(), [BEAT, BEAT])
        self.assertEqual([version for _, version, _ in self.numbers], [2, 0])
        for each in waiting:
            self.answer(HeartbeatResponse())
            self.successResultOf(each)
        self.clock.advance(9.6)
        self.finish(lifetime_ms=0)
        self.clock.advance(1e6)
        self.assertEqual(self.requests(), [])

    def test_a_renewal_that_fails_ends_the_connection(self) -> None:
        self.successResultOf(self._renewing())
        in_flight, waiting = self.connection.request(BEAT), self.connection.request(BEAT)
        self.answer(SaslHandshakeResponse(33, []))
        self.failureResultOf(in_flight, NotConnected)
        self.failureResultOf(waiting, NotConnected)
        self.assertTrue(self.transport.aborted)

    def test_a_login_that_does_not_get_ready(self) -> None:
        """Token providers may wait for a server."""
        done = self.start()
        self.clock.holding = True
        self.assertEqual(self.requests(), [SaslHandshakeRequest("PLAIN")])
        self.answer(SHAKEN)
        self.clock.advance(4.9)
        self.assertNoResult(done)
        self.clock.advance(0.2)
        error = self.failureResultOf(done, RequestTimedOut).value
        self.assertEqual(str(error), "the login to there:9093 was not ready in 5 s")
        for late in self.clock.held:
            late()
        self.assertEqual(self.requests(), [])

    def test_a_renewal_that_does_not_get_ready(self) -> None:
        self.successResultOf(self._renewing())
        waiting = self.connection.request(BEAT)
        self.clock.holding = True
        self.answer(SHAKEN)
        self.clock.advance(9.9)
        self.assertNoResult(waiting)
        self.clock.advance(0.2)
        self.failureResultOf(waiting, ConnectionLost)
        self.assertFalse(self.connection.is_open)

    def test_a_connection_that_is_lost_during_the_renewal(self) -> None:
        self.successResultOf(self._renewing())
        waiting = self.connection.request(BEAT)
        self.answer(SHAKEN)
        self.clock.holding = True
        self.connection.connectionLost(Failure(ConnectionDone()))
        self.failureResultOf(waiting, ConnectionLost)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_lost_connection_is_not_renewed(self) -> None:
        done = self.start()
        self.finish(lifetime_ms=10_000)
        self.successResultOf(done)
        self.connection.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def _renewing(self) -> Deferred[None]:
        done = self.start()
        self.finish(lifetime_ms=1000)
        self.clock.advance(0.96)
        self.assertEqual(self.requests(), [SaslHandshakeRequest("PLAIN")])
        return done
