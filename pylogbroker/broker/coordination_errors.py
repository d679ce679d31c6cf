"""What a client is told of a change that the coordination tree refused."""

from __future__ import annotations

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import CoordinationError, NoRoom


def kafka_error(error: CoordinationError) -> KafkaError:
    """The error to answer with: a full disk has a code of its own."""
    code = ErrorCode.KAFKA_STORAGE_ERROR if isinstance(error, NoRoom) else ErrorCode.UNKNOWN_SERVER_ERROR
    return KafkaError(str(error), code)
