"""Settings of the transaction coordinator."""

from __future__ import annotations

import attrs

from pylogbroker.config import Values


@attrs.frozen
class TransactionSettings:
    partitions: int = 50  # transaction.state.log.num.partitions
    max_timeout_ms: int = 900_000  # transaction.max.timeout.ms
    abort_interval_ms: int = 10_000  # transaction.abort.timed.out.transaction.cleanup.interval.ms
    expiration_ms: int = 604_800_000  # transactional.id.expiration.ms
    expiration_interval_ms: int = 3_600_000  # transaction.remove.expired.transaction.cleanup.interval.ms

    @classmethod
    def of(cls, config: Values) -> TransactionSettings:
        return cls(
            partitions=config.integer("transaction.state.log.num.partitions"),
            max_timeout_ms=config.integer("transaction.max.timeout.ms"),
            abort_interval_ms=config.integer("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            expiration_ms=config.integer("transactional.id.expiration.ms"),
            expiration_interval_ms=config.integer("transaction.remove.expired.transaction.cleanup.interval.ms"),
        )
