"""Requests as stand-ins for channels see them: also those whose bodies are encoded already."""

from __future__ import annotations

from pylogbroker.rpc.client_protocol import PreparedRequest
from pylogbroker.wire import Request, request_codec


def decoded(request: Request | PreparedRequest) -> Request:
    if isinstance(request, PreparedRequest):
        return request_codec(request.kind.api_key, request.version).decode(request.body)
    return request
