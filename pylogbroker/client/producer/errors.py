"""What a producer's records may fail with, besides what the broker says."""

from __future__ import annotations

from collections.abc import Sequence

from pylogbroker.client.errors import ClientError
from pylogbroker.client.producer.model import RecordMetadata


class DeliveryTimedOut(ClientError):
    """A record was not acknowledged within `delivery.timeout.ms`; whether it was written is not known."""

    def __init__(self, topic: str, partition: int, seconds: float) -> None:
        super().__init__(f"{topic}-{partition} did not take a record within {seconds:g} s (delivery.timeout.ms)")


class NotAllSent(ClientError):
    """A producer was closed before it could send everything, or everything was acknowledged; `count` is of records."""

    def __init__(self, count: int, why: str) -> None:
        super().__init__(f"records that were not acknowledged when the producer was closed: {count} ({why})")
        self.count = count


class SomeFailed(ClientError):
    """Of the records of one `send_many`, some have failed; the cause is the first one's error.

    `results` has, in their order, what became of each: its metadata, or the exception that it failed with.
    """

    def __init__(self, results: Sequence[RecordMetadata | BaseException]) -> None:
        self.results = results
        errors = [result for result in results if isinstance(result, BaseException)]
        super().__init__(f"{len(errors)} of {len(results)} records failed; the first: {errors[0]}")
        self.__cause__ = errors[0]


class TransactionError(ClientError):
    """What the producer was asked for does not fit the state of its transaction."""


class TransactionAborted(TransactionError):
    """The record's transaction was aborted before the record was written."""


class NeedsAbort(TransactionError):
    """Something in the transaction has failed: all that can be done with it is to abort it. The cause says what."""


class Fenced(TransactionError):
    """Another producer with the same transactional id has taken over: this one can do nothing more."""
