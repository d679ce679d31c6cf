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
        "How many partitions __transaction_state gets. Never change it once there were transactions.",
    ),
    fixed(
        "transaction.state.log.replication.factor",
        at_least(1, SHORT),
        3,
        "high",
        "How many replicas __transaction_state gets, though no more than there are brokers.",
    ),
    fixed(
        "transaction.state.log.min.isr",
        at_least(1),
        2,
        "high",
        "How many replicas of __transaction_state must be in sync for a write, though no more than it has.",
    ),
    fixed(
        "transaction.state.log.segment.bytes",
        at_least(1),
        104_857_600,
        "high",
        "The segment size of __transaction_state.",
    ),
    fixed(
        "transaction.state.log.load.buffer.size",
        at_least(1),
        5_242_880,
        "high",
        "How many bytes of __transaction_state are read at a time when transactions are loaded.",
    ),
    # transactions
    fixed(
        "transaction.max.timeout.ms",
        at_least(1),
        900_000,
        "high",
        "The longest transaction timeout that a producer may ask for.",
    ),
    fixed(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        at_least(1),
        10_000,
        "low",
        "How often it is looked for transactions that have timed out, to abort them.",
    ),
    cluster_wide(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "low",
        "Whether records are taken only for partitions that were added to their transaction.",
    ),
    # transactional ids
    fixed(
        "transactional.id.expiration.ms",
        at_least(1),
        604_800_000,
        "high",
        "After how long without a transaction a transactional id is forgotten.",
    ),
    fixed(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        at_least(1),
        3_600_000,
        "low",
        "How often it is looked for transactional ids to forget.",
    ),
)
