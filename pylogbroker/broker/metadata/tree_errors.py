"""Errors of the coordination tree: which of them are retried, and what clients get."""

from __future__ import annotations

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import CoordinationError, NoRoom, SessionExpired


def kafka_error(error: CoordinationError) -> KafkaError:
    code = ErrorCode.KAFKA_STORAGE_ERROR if isinstance(error, NoRoom) else ErrorCode.UNKNOWN_SERVER_ERROR
    return KafkaError(str(error), code)


def is_coordination_error(error: BaseException) -> bool:
    return isinstance(error, CoordinationError)


def is_error_within_session(error: BaseException) -> bool:
    """Return whether the tree failed while its session lasts; the next session reads everything again."""
    return isinstance(error, CoordinationError) and not isinstance(error, SessionExpired)
