"""SaslHandshake (17): an error, because the connection is authenticated, or its listener has no SASL.

Connections that have to authenticate do so before any API is served (`pylogbroker.net.sasl_protocol`).
"""

from __future__ import annotations

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import unchecked
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@serves(SaslHandshakeRequest, access=[unchecked])
def handle(services: object, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
