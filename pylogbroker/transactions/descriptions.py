"""Results of DescribeTransactions and ListTransactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import give_way
from pylogbroker.transactions.requests import TransactionDescription, TransactionList, TransactionOverview
from pylogbroker.transactions.states import BY_LABEL
from pylogbroker.transactions.transaction import Transaction


def describe(transaction: Transaction) -> TransactionDescription:
    """Describe without the partitions that have their marker."""
    metadata = transaction.metadata
    return TransactionDescription(
        ErrorCode.NONE,
        transaction.transactional_id,
        metadata.state.label,
        metadata.timeout_ms,
        metadata.start_ms,
        metadata.producer_id,
        metadata.producer_epoch,
        tuple(sorted(metadata.partitions)),
    )


async def select(
    transactions: Iterable[Transaction],
    states: Collection[str],
    producer_ids: Collection[int],
    duration_ms: int,
    now_ms: int,
) -> TransactionList:
    """List the ids that pass all filters and are open for over `duration_ms`, unless that is negative; in steps."""
    unknown = tuple(dict.fromkeys(name for name in states if name not in BY_LABEL))
    accepted = {BY_LABEL[name] for name in states if name in BY_LABEL}
    wanted_ids = frozenset(producer_ids)
    overviews: list[TransactionOverview] = []
    for transaction in transactions:
        metadata = transaction.metadata
        if (
            (not wanted_ids or metadata.producer_id in wanted_ids)
            and (not states or metadata.state in accepted)
            and (duration_ms < 0 or now_ms - metadata.start_ms > duration_ms)
        ):
            overviews.append(
                TransactionOverview(transaction.transactional_id, metadata.producer_id, metadata.state.label)
            )
        await give_way()
    return TransactionList(ErrorCode.NONE, unknown, tuple(overviews))
