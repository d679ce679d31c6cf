"""The broker's settings for transactions."""

from __future__ import annotations

from pylogbroker.config.setting import cluster_wide, fixed, rows_of
from pylogbroker.config.value_kinds import BOOLEAN, NEW_PARTITIONS, SHORT, at_least
from pylogbroker.config.values import Values


class TransactionRows(Values):
    __slots__ = ()

    # __transaction_state
    transaction_state_log_num_partitions = fixed(
        "transaction.state.log.num.partitions",
        NEW_PARTITIONS,
        50,
        "high",
        "Number of partitions with which __transaction_state is created; it cannot be changed later.",
    )
    transaction_state_log_replication_factor = fixed(
        "transaction.state.log.replication.factor",
        at_least(1, SHORT),
        3,
        "high",
        "Number of replicas of __transaction_state, at most one per broker.",
    )
    transaction_state_log_min_isr = fixed(
        "transaction.state.log.min.isr",
        at_least(1),
        2,
        "high",
        "Number of in-sync replicas of __transaction_state required for a write, at most its number of replicas.",
    )
    transaction_state_log_segment_bytes = fixed(
        "transaction.state.log.segment.bytes",
        at_least(1),
        104_857_600,
        "high",
        "Segment size of __transaction_state.",
    )
    transaction_state_log_load_buffer_size = fixed(
        "transaction.state.log.load.buffer.size",
        at_least(1),
        5_242_880,
        "high",
        "Bytes of __transaction_state read at a time when transactions are loaded.",
    )
    # transactions
    transaction_max_timeout_ms = fixed(
        "transaction.max.timeout.ms",
        at_least(1),
        900_000,
        "high",
        "Maximum transaction timeout of a producer.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = fixed(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        at_least(1),
        10_000,
        "low",
        "Time between two searches for timed-out transactions to abort.",
    )
    transaction_partition_verification_enable = cluster_wide(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "low",
        "Whether transactional records are accepted only for partitions that were added to the transaction.",
    )
    add_partitions_to_txn_retry_backoff_ms = fixed(
        "add.partitions.to.txn.retry.backoff.ms",
        at_least(1),
        20,
        "high",
        "Time between attempts to add a partition to a transaction while the producer's last one is being completed.",
    )
    add_partitions_to_txn_retry_backoff_max_ms = fixed(
        "add.partitions.to.txn.retry.backoff.max.ms",
        at_least(0),
        100,
        "high",
        "Time after which a producer whose last transaction is not complete yet has to try again itself.",
    )
    # transactional ids
    transactional_id_expiration_ms = fixed(
        "transactional.id.expiration.ms",
        at_least(1),
        604_800_000,
        "high",
        "Time without a transaction after which a transactional id is removed.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = fixed(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        at_least(1),
        3_600_000,
        "low",
        "Time between two searches for expired transactional ids.",
    )


TRANSACTION_SETTINGS = rows_of(TransactionRows)
