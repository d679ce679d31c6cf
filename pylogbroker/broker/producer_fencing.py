"""What a producer is told that another one of the same transactional id has taken over from."""

from __future__ import annotations

from pylogbroker.broker.context import RequestContext
from pylogbroker.errors import ErrorCode


def error_for(error: ErrorCode, context: RequestContext, first_with_fenced: int) -> ErrorCode:
    """The error as versions below `first_with_fenced` know it."""
    if error is ErrorCode.PRODUCER_FENCED and context.api_version < first_with_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
