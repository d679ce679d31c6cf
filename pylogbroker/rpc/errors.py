"""Errors of requests to a broker."""

from __future__ import annotations

from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError

_CODES = {code.value: code for code in ErrorCode}


class ClientError(PylogbrokerError):
    """Errors on the client's side."""


class ConnectionLost(ClientError):
    """The connection ended before the response; the outcome is unknown."""


class NotConnected(ConnectionLost):
    """The request was not sent."""


class SetUpFailed(NotConnected):
    """The peer accepted the connection, and then TLS or the versions failed, or its answer did not come in time."""

    def __init__(self, text: str, *, is_late: bool = False) -> None:
        super().__init__(text)
        self.is_late = is_late


class RequestTimedOut(ClientError):
    """The response did not arrive in time; the outcome is unknown."""


class NotAuthenticated(KafkaError):
    """The broker, or this client, has ended the authentication; without other credentials it fails again."""

    def __init__(self, detail: str, code: int = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        super().__init__(detail, _CODES.get(code, ErrorCode.SASL_AUTHENTICATION_FAILED))


class Closed(ClientError):
    """The client is closed; the outcome of a sent request is unknown."""


def error_of(code: int, detail: str | None = None) -> KafkaError:
    error_code = _CODES.get(code)
    if error_code is None:
        return KafkaError(f"error code {code}: {detail or 'of a newer broker'}")
    return KafkaError(detail or "", error_code)


def raise_for(code: int, detail: str | None = None) -> None:
    if code:
        raise error_of(code, detail)


def code_of(number: int) -> ErrorCode:
    """Return UNKNOWN_SERVER_ERROR for numbers newer than `ErrorCode`."""
    return _CODES.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)
