"""Error codes of answers as values."""

from __future__ import annotations

from pylogbroker.client.errors import error_of
from pylogbroker.errors import ErrorCode


def code_of(number: int) -> ErrorCode:
    """The code that a number of an answer stands for; one that only newer brokers know is an unknown error."""
    return error_of(number).code if number else ErrorCode.NONE
