"""Settings of the transaction coordinator."""

from __future__ import annotations

import attrs

from pylogbroker.config import BrokerConfig


@attrs.frozen
class TransactionSettings:
    partitions: int = 50  # transaction.state.log.num.partitions
    max_timeout_ms: int = 900_000  # transaction.max.timeout.ms
    abort_interval_ms: int = 10_000  # transaction.abort.timed.out.transaction.cleanup.interval.ms
    expiration_ms: int = 604_800_000  # transactional.id.expiration.ms
    expiration_interval_ms: int = 3_600_000  # transaction.remove.expired.transaction.cleanup.interval.ms

    @classmethod
    def of(cls, config: BrokerConfig) -> TransactionSettings:
        return cls(
            partitions=config.transaction_state_log_num_partitions,
            max_timeout_ms=config.transaction_max_timeout_ms,
            abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            expiration_ms=config.transactional_id_expiration_ms,
            expiration_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        )
