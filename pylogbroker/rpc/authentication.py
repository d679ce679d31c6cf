"""SASL on a client's connection, without I/O (KIP-152, KIP-368).

    steps = authenticate(protocol, credentials)     # a generator; versions are negotiated before
    step = next(steps)
    # a Request to send: steps.send(its response)
    # or a function to call, in a thread on a reactor: steps.send(its result), or steps.throw(its error)
    # at the end it returns the session's lifetime in ms; 0: for ever

A broker that limits sessions closes the connection unless the client authenticates again in time, on the same
connection. Meanwhile nothing else may be sent.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

from pylogbroker.errors import ErrorCode
from pylogbroker.rpc.client_protocol import ClientProtocol
from pylogbroker.rpc.errors import NotAuthenticated
from pylogbroker.rpc.security import OF_CLIENTS, SecurityNames
from pylogbroker.security.sasl.authentication import AuthenticationFailed
from pylogbroker.security.sasl.client import ClientMechanism, OauthBearerClient
from pylogbroker.security.sasl.credentials import Credentials
from pylogbroker.wire import Request, UnsupportedVersion
from pylogbroker.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

Step = Request | Callable[[], Any]
Steps = Generator[Step, Any, int]

_HANDSHAKE_VERSION: Final = 1  # version 0 has tokens without headers, of brokers before Kafka 1.0
_RENEWED: Final = 0.85, 0.95  # the share of a session's lifetime after which it is renewed, as in Kafka's client


def renewal_seconds(lifetime_ms: int) -> float:
    """Return when to authenticate again; at random, so that a client's connections do not do it all at once."""
    return lifetime_ms / 1000 * random.uniform(*_RENEWED)


def authenticate(protocol: ClientProtocol, credentials: Credentials, names: SecurityNames = OF_CLIENTS) -> Steps:
    """Return the steps of an authentication; they raise NotAuthenticated."""
    try:
        versions = protocol.version_of(SaslHandshakeRequest), protocol.version_of(SaslAuthenticateRequest)
    except UnsupportedVersion:
        versions = (0, 0)
    if versions[0] < _HANDSHAKE_VERSION:
        raise NotAuthenticated(f"{protocol.peer} has no SASL that this client knows; it is older than Kafka 1.0")
    shaken: SaslHandshakeResponse = yield SaslHandshakeRequest(credentials.mechanism)
    _check_handshake(protocol.peer, credentials.mechanism, shaken, names)
    mechanism = credentials.start()
    try:
        return (yield from _exchange(protocol.peer, mechanism))
    except AuthenticationFailed as error:
        raise NotAuthenticated(f"{protocol.peer} by {credentials.mechanism}: {error}") from error


def _check_handshake(peer: str, mechanism: str, response: SaslHandshakeResponse, names: SecurityNames) -> None:
    code = response.error_code
    if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(response.mechanisms) or "none"
        raise NotAuthenticated(f"{peer} does not enable {mechanism}, but {offered}: set {names.mechanism}", code)
    if code == ErrorCode.ILLEGAL_SASL_STATE:
        text = f"this listener has no SASL: set {names.protocol} to PLAINTEXT or SSL, or use another port"
        raise NotAuthenticated(f"{peer}: {text}", code)
    if code:
        raise NotAuthenticated(f"{peer} does not begin an authentication", code)


def _exchange(peer: str, mechanism: ClientMechanism) -> Steps:
    answer, lifetime_ms = b"", 0
    while (token := (yield partial(mechanism.respond, answer))) is not None:
        response: SaslAuthenticateResponse = yield SaslAuthenticateRequest(token)
        if response.error_code:
            reason = mechanism.reason if isinstance(mechanism, OauthBearerClient) else ""
            text = response.error_message or ErrorCode.SASL_AUTHENTICATION_FAILED.meaning
            raise NotAuthenticated(f"{peer}: {text}" + (f" ({reason})" if reason else ""), response.error_code)
        answer, lifetime_ms = bytes(response.auth_bytes), response.session_lifetime_ms
    return lifetime_ms
