"""Error codes of responses."""

from __future__ import annotations

from pylogbroker.client.errors import error_of
from pylogbroker.errors import ErrorCode


def code_of(number: int) -> ErrorCode:
    """Return the error code of a number; an unknown number gives UNKNOWN_SERVER_ERROR."""
    return error_of(number).code if number else ErrorCode.NONE
