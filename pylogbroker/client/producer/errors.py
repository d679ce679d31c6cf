"""Errors of a producer's records and transactions."""

from __future__ import annotations

from collections.abc import Sequence

from pylogbroker.client.errors import ClientError
from pylogbroker.client.producer.model import RecordMetadata


class DeliveryTimedOut(ClientError):
    """A record was not acknowledged within `delivery.timeout.ms`; whether it was written is unknown.

    `why` is the last error that a broker gave.
    """

    def __init__(self, topic: str, partition: int, seconds: float, why: str = "") -> None:
        super().__init__(
            f"{topic}-{partition} did not acknowledge a record within {seconds:g} s (delivery.timeout.ms):"
            f" the record may or may not be written{f'; {why}' if why else ''}"
        )


class NotAllSent(ClientError):
    """The producer was closed with `count` unacknowledged records."""

    def __init__(self, count: int, why: str) -> None:
        super().__init__(f"records not acknowledged when the producer was closed, which may be lost: {count} ({why})")
        self.count = count


class SomeFailed(ClientError):
    """Some records of a `send_many` failed; the cause is the first error.

    `results` has each record's metadata or exception, in order.
    """

    def __init__(self, results: Sequence[RecordMetadata | BaseException]) -> None:
        self.results = results
        errors = [result for result in results if isinstance(result, BaseException)]
        super().__init__(f"{len(errors)} of {len(results)} records failed; the first: {errors[0]}")
        self.__cause__ = errors[0]


class TransactionError(ClientError):
    """The call does not fit the transaction's state."""


class TransactionAborted(TransactionError):
    """The transaction was aborted before the record was written."""


class NeedsAbort(TransactionError):
    """Part of the transaction failed: only `abort` is possible. The cause is the failure."""


class Fenced(TransactionError):
    """Another producer with this transactional id has taken over; this one is unusable."""
