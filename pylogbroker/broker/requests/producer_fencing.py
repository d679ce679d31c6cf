"""Error of a producer that another one of its transactional id has fenced."""

from __future__ import annotations

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.errors import ErrorCode


def error_for(error: ErrorCode, context: RequestContext, first_with_fenced: int) -> ErrorCode:
    """Return the error that clients below version `first_with_fenced` know."""
    if error is ErrorCode.PRODUCER_FENCED and context.api_version < first_with_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
