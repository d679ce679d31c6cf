"""A connection of a listener with SASL: until its client is authenticated, it has no route to other APIs.

Requests behind one of authentication wait until it is over. A failure drops them, and the connection ends after the
answer, `connection.failed.authentication.delay.ms` after the credentials came.

With `connections.max.reauth.ms`, a session ends, and the client authenticates again before, on the same connection
(KIP-368). From its handshake on it has no route to other APIs. A later request than the session's end closes it.
"""

from __future__ import annotations

import struct
from collections import deque
from functools import partial
from typing import Any, Final, Protocol

import attrs
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.protocol import connectionDone
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.apis import api_versions
from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.sasl_listeners import SaslListeners
from pylogbroker.broker.services import HasApis, HasFeatures, HasNode
from pylogbroker.config.mechanisms import OAUTHBEARER
from pylogbroker.errors import ErrorCode, ProtocolViolation
from pylogbroker.net.protocol import ConnectionFactory, KafkaProtocol, Unmetered
from pylogbroker.net.routes import Routes
from pylogbroker.security.sasl.authentication import Authentication, AuthenticationFailed, IllegalState, State
from pylogbroker.security.sasl.users import MECHANISMS
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pylogbroker.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

log = Logger()

_SIZE: Final = struct.Struct(">i")
_MISSING: Final = "came before authentication: the client needs security.protocol and sasl.mechanism"
_HANDSHAKE: Final = SaslHandshakeRequest.api_key.to_bytes(2, "big")
_NO_ROUTES: Final = Routes((), None, _MISSING)
_RENEWAL_SECONDS_MIN: Final = 1.0  # from one authentication to the next


class SaslFactory(ConnectionFactory, Protocol):
    def authenticated(self, protocol: KafkaProtocol, /) -> None:
        """Take note that a connection is set up."""

    def session_expired(self) -> None:
        """Count a connection that its client has used after the end of its session."""

    def count_failure(self, step: str, /) -> None: ...


class _VersionsServices(HasApis, HasNode, HasFeatures, Protocol):
    """Services that ApiVersions uses."""


@attrs.define(eq=False, repr=False)
class _Handlers:
    """Handlers of the only requests before authentication is over."""

    protocol: SaslProtocol
    authentication: Authentication

    def routes(self) -> Routes:
        return Routes(
            (
                Api.of(SaslHandshakeRequest, self.handshake),
                Api.of(ApiVersionsRequest, self.versions),
                Api.of(SaslAuthenticateRequest, self.authenticate),
            ),
            self.protocol.factory.services,
            _MISSING,
        )

    def versions(
        self, services: _VersionsServices, context: RequestContext, request: ApiVersionsRequest
    ) -> ApiVersionsResponse:
        self._checked(self.authentication.versions_asked)
        return api_versions.handle(services, context, request)

    def handshake(
        self, services: object, context: RequestContext, request: SaslHandshakeRequest
    ) -> SaslHandshakeResponse:
        authentication = self.authentication
        is_enabled = self._checked(partial(authentication.begin, request.mechanism, context.api_version))
        answer = SaslHandshakeResponse(mechanisms=list(authentication.mechanisms))
        if is_enabled:
            return answer
        answer.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self.protocol.end(_not_enabled(request.mechanism, authentication))
        return answer

    async def authenticate(
        self, services: object, context: RequestContext, request: SaslAuthenticateRequest
    ) -> SaslAuthenticateResponse:
        outcome = await self.protocol.respond(bytes(request.auth_bytes))
        if not isinstance(outcome, AuthenticationFailed):
            return SaslAuthenticateResponse(auth_bytes=outcome, session_lifetime_ms=self.protocol.session_lifetime_ms)
        self.protocol.end(str(outcome))
        if isinstance(outcome, IllegalState):
            return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, str(outcome))
        return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, self.authentication.failure_text)

    def _checked(self, change: Any) -> Any:
        try:
            return change()
        except AuthenticationFailed as error:
            raise ProtocolViolation(f"SASL: {error}") from None


def _not_enabled(mechanism: str, authentication: Authentication) -> str:
    name = mechanism if mechanism in (*MECHANISMS, "GSSAPI", OAUTHBEARER) else "a mechanism that is not known"
    return f"{name} is not enabled, but {', '.join(authentication.mechanisms)}"


class SaslProtocol(KafkaProtocol):
    factory: SaslFactory

    def connectionMade(self) -> None:
        super().connectionMade()
        services = self.factory.services
        self._authentication: Authentication | None = None
        self._begin(None)
        self._quotas = Unmetered()
        setting = "sasl.server.max.receive.size"
        self._requests.splitter.limit(services.config.integer(setting), setting)
        self._identity: tuple[str, str] | None = None
        self._has_failed = False
        self._authenticated_at = 0.0
        self.session_lifetime_ms = 0
        """Of the session that has begun; 0: for ever."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        # the others refer to this connection, and with them only a collection would free it
        self._headers.use(_NO_ROUTES)

    def _request(self, frame: memoryview) -> None:
        authentication = self._authentication
        if authentication is None:
            if not self.session_lifetime_ms or self._may_go_on(frame):
                super()._request(frame)
        elif authentication.state is State.RAW:
            ensureDeferred(self._token(bytes(frame))).addErrback(self._broken)
        elif authentication.state is not State.FAILED:  # else dropped: it came behind a failure
            super()._request(frame)

    def _answer_repeated(self, frames: deque[memoryview]) -> bool:
        """Leave the requests to `_request` after the session's end."""
        return not self._is_session_over and super()._answer_repeated(frames)

    def _waits_for_other_reads(self, size: int) -> bool:
        return not self._is_session_over and super()._waits_for_other_reads(size)

    @property
    def _authenticated_seconds(self) -> float:
        return self.factory.services.runtime.clock.seconds() - self._authenticated_at

    @property
    def _is_session_over(self) -> bool:
        lifetime_ms = self.session_lifetime_ms
        return lifetime_ms > 0 and self._authenticated_seconds * 1000 > lifetime_ms

    def _may_go_on(self, frame: memoryview) -> bool:
        """Begin another authentication if the request is a handshake; close after the session's end."""
        if frame[:2] == _HANDSHAKE:
            if self._authenticated_seconds >= _RENEWAL_SECONDS_MIN:
                self._begin(self._identity)
            return True
        if not self._is_session_over:
            return True
        self.factory.session_expired()
        self.close_because("its session has ended: it did not authenticate again in time", is_fault=False)
        return False

    def _begin(self, identity: tuple[str, str] | None) -> None:
        self._authentication = self._sasl.authentication(self.factory.listener_name, identity)
        self._headers.use(_Handlers(self, self._authentication).routes())

    async def _token(self, token: bytes) -> None:
        """Handle a token without a header, as after SaslHandshake 0; a failure has no answer."""
        self._requests.at_work_bytes += len(token)
        try:
            outcome = await self.respond(token)
        except ProtocolViolation as violation:
            self.violated(str(violation))
        except CancelledError:
            pass  # the connection is lost
        else:
            if isinstance(outcome, AuthenticationFailed):
                self.end(str(outcome))
            elif not self.is_closing:
                self._answers.send([_SIZE.pack(len(outcome)) + outcome])
        finally:
            self._requests.at_work_bytes -= len(token)

    def _broken(self, failure: Failure) -> None:
        log.failure("the authentication of {peer} failed", failure, peer=self.peer)
        self._count_failure()
        self.close_because("its authentication failed")

    def violated(self, reason: str, api: str = "") -> None:
        """Count a client that sends anything else than its credentials, too."""
        if not self.is_closing:
            self._count_failure()
        super().violated(reason, api)

    def _count_failure(self) -> None:
        if self._authentication is not None and not self._has_failed:
            self._has_failed = True
            self.factory.count_failure("SASL")

    def respond(self, token: bytes) -> Deferred[bytes | AuthenticationFailed]:
        """Return the mechanism's answer, or after the delay why there is none; other requests wait for it."""
        authentication, services = self._authentication, self.factory.services
        assert authentication is not None
        self._flow.hold()
        began = services.runtime.clock.seconds()

        def failed(failure: Any) -> Deferred[Any]:
            delay = services.config.connection_failed_authentication_delay_ms / 1000
            left = max(0.0, delay - (services.runtime.clock.seconds() - began))
            return deferLater(services.runtime.clock, left, lambda: failure)

        def responded(outcome: bytes | AuthenticationFailed) -> Any:
            return failed(outcome) if isinstance(outcome, AuthenticationFailed) else self._responded(outcome)

        def go_on(result: Any) -> Any:
            self.factory.reactor.callLater(0, self._flow.release)  # after the answer
            return result

        login = self._sasl.run(self._host, authentication.attempt, token)
        self._requests.cancel_with_connection(login)  # so that no thread works for nobody
        return login.addCallback(responded).addErrback(failed).addBoth(go_on)

    @property
    def _sasl(self) -> SaslListeners:
        sasl = self.factory.services.sasl
        assert sasl is not None  # this listener has it
        return sasl

    def _responded(self, token: bytes) -> bytes:
        authentication = None if self.is_closing else self._authentication
        user = authentication.user if authentication is not None else None
        if authentication is not None and user is not None:
            is_first = self._identity is None
            self._identity = authentication.mechanism, user
            services = self.factory.services
            self._authenticated_at = services.runtime.clock.seconds()
            listener = self.factory.listener_name
            self.session_lifetime_ms = self._sasl.session_lifetime_ms(
                listener, authentication.mechanism, authentication.expires_ms
            )
            self._headers.identify(f"User:{user}", authentication.by_token)
            self._headers.use(self.factory.routes)
            self._authentication = None
            self._quotas = self.factory.quotas
            self._requests.splitter.limit(self.factory.max_request_bytes, "socket.request.max.bytes")
            if is_first:
                self.factory.authenticated(self)
        return token

    def end(self, cause: str) -> None:
        """End the connection after the answer; drop what came behind."""
        if not self._has_failed:
            self._has_failed = True
            self.factory.setup_failed(self, "SASL", cause)
        self.factory.reactor.callLater(0, self.finish)
