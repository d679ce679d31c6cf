"""Errors of requests to a broker.

| error                          | state of the request                     |
|--------------------------------|------------------------------------------|
| NotConnected                   | never sent                               |
| ConnectionLost                 | outcome unknown                          |
| RequestTimedOut                | outcome unknown                          |
| Closed                         | outcome unknown if it was sent           |
| KafkaError                     | rejected by the broker                   |
"""

from __future__ import annotations

from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError

_CODES = {code.value: code for code in ErrorCode}


class ClientError(PylogbrokerError):
    """Base class of errors on the client's side of a connection."""


class ConnectionLost(ClientError):
    """The connection ended before the response arrived; the outcome of the request is unknown."""


class NotConnected(ConnectionLost):
    """No connection existed; the request was not sent."""


class RequestTimedOut(ClientError):
    """The response did not arrive in time; the outcome of the request is unknown."""


class Closed(ClientError):
    """The client has been closed."""


def error_of(code: int, detail: str | None = None) -> KafkaError:
    """Return the exception for an error code; a code newer than `ErrorCode` becomes an unknown error."""
    known = _CODES.get(code)
    if known is None:
        return KafkaError(f"error code {code}: {detail or 'of a newer broker'}")
    return KafkaError(detail or "", known)


def raise_for(code: int, detail: str | None = None) -> None:
    """Raise the exception for an error code, unless it is 0."""
    if code:
        raise error_of(code, detail)


def code_of(number: int) -> ErrorCode:
    """Return the error code of a number; a number newer than `ErrorCode` gives UNKNOWN_SERVER_ERROR."""
    return _CODES.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)
