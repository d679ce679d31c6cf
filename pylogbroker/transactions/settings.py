"""The settings of the transaction coordinator, under the field names of this room."""

from __future__ import annotations

from typing import Any, Protocol

import attrs


class _Settings(Protocol):
    def __getitem__(self, name: str, /) -> Any:
        """The value of the setting with Kafka's name."""


@attrs.frozen
class TransactionSettings:
    """Each field's comment names the setting it comes from."""

    partitions: int = 50  # transaction.state.log.num.partitions
    max_timeout_ms: int = 900_000  # transaction.max.timeout.ms
    abort_interval_ms: int = 10_000  # transaction.abort.timed.out.transaction.cleanup.interval.ms
    expiration_ms: int = 604_800_000  # transactional.id.expiration.ms
    expiration_interval_ms: int = 3_600_000  # transaction.remove.expired.transaction.cleanup.interval.ms

    @classmethod
    def of(cls, config: _Settings) -> TransactionSettings:
        """Pick them out of a broker's settings."""
        return cls(
            partitions=config["transaction.state.log.num.partitions"],
            max_timeout_ms=config["transaction.max.timeout.ms"],
            abort_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
            expiration_ms=config["transactional.id.expiration.ms"],
            expiration_interval_ms=config["transaction.remove.expired.transaction.cleanup.interval.ms"],
        )
