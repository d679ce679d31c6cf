"""SaslAuthenticate (36): an error, because the connection is authenticated, or its listener has no SASL."""

from __future__ import annotations

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import unchecked
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

_TEXT = "SaslAuthenticate request received after successful authentication"


@serves(SaslAuthenticateRequest, access=[unchecked])
def handle(services: object, context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, _TEXT)
