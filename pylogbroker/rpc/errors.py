"""Errors of requests to a broker."""

from __future__ import annotations

from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError

_CODES = {code.value: code for code in ErrorCode}


class ClientError(PylogbrokerError):
    """Base class of errors on the client's side."""


class ConnectionLost(ClientError):
    """The connection ended before the response arrived; the outcome is unknown."""


class NotConnected(ConnectionLost):
    """No connection existed; the request was not sent."""


class RequestTimedOut(ClientError):
    """The response did not arrive in time; the outcome is unknown."""


class Closed(ClientError):
    """The client has been closed; the outcome of a sent request is unknown."""


def error_of(code: int, detail: str | None = None) -> KafkaError:
    """Return the exception for an error code."""
    known = _CODES.get(code)
    if known is None:
        return KafkaError(f"error code {code}: {detail or 'of a newer broker'}")
    return KafkaError(detail or "", known)


def raise_for(code: int, detail: str | None = None) -> None:
    if code:
        raise error_of(code, detail)


def code_of(number: int) -> ErrorCode:
    """Return the error code of a number, UNKNOWN_SERVER_ERROR for one newer than `ErrorCode`."""
    return _CODES.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)
