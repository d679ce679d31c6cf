"""Errors for changes that could not be written to the coordination tree."""

from __future__ import annotations

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import CoordinationError, NoRoom


def kafka_error(error: CoordinationError) -> KafkaError:
    code = ErrorCode.KAFKA_STORAGE_ERROR if isinstance(error, NoRoom) else ErrorCode.UNKNOWN_SERVER_ERROR
    return KafkaError(str(error), code)
