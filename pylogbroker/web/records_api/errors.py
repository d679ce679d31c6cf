"""Errors of the records API: their status, and their form as JSON."""

from __future__ import annotations

from typing import Final, TypedDict

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.web.records_api.idempotence import KeyTaken
from pylogbroker.web.records_api.json_members import BadRecord

_STATUSES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.INVALID_TOPIC_EXCEPTION: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: 403,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
    ErrorCode.MESSAGE_TOO_LARGE: 413,
    ErrorCode.RECORD_LIST_TOO_LARGE: 413,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: 429,
    ErrorCode.OFFSET_OUT_OF_RANGE: 416,
    ErrorCode.BROKER_NOT_AVAILABLE: 503,
    ErrorCode.UNKNOWN_SERVER_ERROR: 503,
}


class RecordError(TypedDict):
    """Reason why something failed."""

    error: str
    status: int


class Rejected(Exception):
    """A request that is answered with a status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def status_of_error(error: Exception) -> int:
    """Return the status of an answer that has an error."""
    match error:
        case Rejected():
            return error.status
        case KeyTaken():
            return 409
        case KafkaError():
            status = _STATUSES.get(error.code)
            return (503 if error.code.retriable else 400) if status is None else status
        case BadRecord():
            return error.status
    return 400


def error_row(error: Exception) -> RecordError:
    """Return an error as a value of JSON."""
    return {"error": str(error), "status": status_of_error(error)}
