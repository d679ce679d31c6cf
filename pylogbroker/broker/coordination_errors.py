"""Errors for clients whose change could not be written to the coordination tree."""

from __future__ import annotations

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import CoordinationError, NoRoom


def kafka_error(error: CoordinationError) -> KafkaError:
    """Return the error to answer with; a full disk has its own code."""
    code = ErrorCode.KAFKA_STORAGE_ERROR if isinstance(error, NoRoom) else ErrorCode.UNKNOWN_SERVER_ERROR
    return KafkaError(str(error), code)
