"""The broker's settings for transactions."""

from __future__ import annotations

from pylogbroker.config.setting import Setting, cluster_wide, fixed
from pylogbroker.config.value_kinds import BOOLEAN, NEW_PARTITIONS, SHORT, at_least

TRANSACTION_SETTINGS: tuple[Setting, ...] = (
    # __transaction_state
    fixed(
        "transaction.state.log.num.partitions",
        NEW_PARTITIONS,
        50,
        "high",
        "Number of partitions with which __transaction_state is created; it cannot be changed later.",
    ),
    fixed(
        "transaction.state.log.replication.factor",
        at_least(1, SHORT),
        3,
        "high",
        "Number of replicas of __transaction_state, at most one per broker.",
    ),
    fixed(
        "transaction.state.log.min.isr",
        at_least(1),
        2,
        "high",
        "Number of in-sync replicas of __transaction_state required for a write, at most its number of replicas.",
    ),
    fixed(
        "transaction.state.log.segment.bytes",
        at_least(1),
        104_857_600,
        "high",
        "Segment size of __transaction_state.",
    ),
    fixed(
        "transaction.state.log.load.buffer.size",
        at_least(1),
        5_242_880,
        "high",
        "Bytes of __transaction_state read at a time when transactions are loaded.",
    ),
    # transactions
    fixed(
        "transaction.max.timeout.ms",
        at_least(1),
        900_000,
        "high",
        "Maximum transaction timeout of a producer.",
    ),
    fixed(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        at_least(1),
        10_000,
        "low",
        "Time between two searches for timed-out transactions to abort.",
    ),
    cluster_wide(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "low",
        "Whether transactional records are accepted only for partitions that were added to the transaction.",
    ),
    # transactional ids
    fixed(
        "transactional.id.expiration.ms",
        at_least(1),
        604_800_000,
        "high",
        "Time without a transaction after which a transactional id is removed.",
    ),
    fixed(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        at_least(1),
        3_600_000,
        "low",
        "Time between two searches for expired transactional ids.",
    ),
)
