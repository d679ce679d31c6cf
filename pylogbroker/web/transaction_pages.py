"""Pages of transactions and of producers: whether one is stuck and what to do, and what ends it, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypedDict

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.web.formats import count_text, duration_text
from pylogbroker.web.group_views import TopicPartition
from pylogbroker.web.links import link, path_of
from pylogbroker.web.page_routes import form, moved, page
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import Index, Name, Offset, Search
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import OneOf
from pylogbroker.web.transaction_views import (
    OPEN_STATES,
    AbortedProducer,
    FencedProducer,
    ListedTransaction,
    ProducerRow,
    State,
    TransactionalId,
    TransactionRow,
    abort_transaction,
    active_producers,
    describe_transactions,
    fence_producer,
    has_open_transaction,
    list_transactions,
    partition_rows,
    producer_rows,
    transaction_with_partitions,
)
from pylogbroker.web.visitors import Visitor

_ORDERS: Final[Mapping[str, Callable[[ListedTransaction], Any]]] = {
    "id": lambda row: row.id,
    "state": lambda row: (row.state, row.id),
    "producer": lambda row: (row.producer_id, row.id),
    "coordinator": lambda row: (row.coordinator, row.id),
}
Sort = Annotated[str, OneOf((*_ORDERS, *(f"-{key}" for key in _ORDERS))), "a column; with - before it downwards"]
_LOOKED_AT_MAX: Final = 2000
"""Open transactions whose age is compared with their timeout, to find those that are stuck."""


@attrs.frozen
class TransactionState:
    """Sentence that a page opens with; `kind` is ok, warn, bad or empty."""

    kind: str
    title: str
    detail: str = ""


class TransactionTable(Paged):
    """`stuck` are transactions of any page, of those that are open and were looked at."""

    search: str
    state: str
    longer_than: int | None
    is_complete: bool
    transactions: list[TransactionRow]
    stuck: list[TransactionRow]
    looked_at: int
    all_open: int


class TransactionPage(TransactionRow, Paged):
    partitions: list[TopicPartition]
    verdict: TransactionState


class ProducerTable(TopicPartition, Paged):
    """`open_transactions` counts those of all pages, of which the first begins at `first_open`."""

    producers: list[ProducerRow]
    open_transactions: int
    first_open: int | None


class ProducerToAbort(TypedDict):
    topic: str
    partition: int
    producer: ProducerRow


def is_stuck(row: TransactionRow) -> bool:
    """Return whether a transaction is open for longer than its timeout, after which its coordinator aborts it."""
    return row["age_ms"] is not None and row["age_ms"] > row["timeout_ms"]


def state_of(row: TransactionRow) -> TransactionState:
    """Return what a transaction does, and what to do about it."""
    if row["age_ms"] is None:
        return TransactionState("ok", "No transaction is open.", "Nobody waits for this transactional id.")
    age, timeout = duration_text(row["age_ms"]), duration_text(row["timeout_ms"])
    partitions = "1 partition" if row["partition_count"] == 1 else f"{count_text(row['partition_count'])} partitions"
    waiting = f"Readers of committed records wait at its first record in {partitions}."
    if row["state"] != "Ongoing":
        title = "Its end is being written." if not is_stuck(row) else "It is stuck: its end cannot be written."
        return TransactionState("bad" if is_stuck(row) else "", title, f"{waiting} Leaders of these must answer.")
    if is_stuck(row):
        detail = f"It is open for {age}, and its timeout is {timeout}. {waiting} Shut out its producer to abort it."
        return TransactionState("bad", "It is stuck.", detail)
    return TransactionState("", f"It is open for {age}.", f"It is aborted after {timeout} without an end. {waiting}")


async def transaction_table(
    visitor: Visitor,
    search: Search = "",
    state: State = "open",
    longer_than: Offset | None = None,
    sort: Sort = "id",
    page: PageNumber = 1,
) -> TransactionTable:
    """Return a page of transactional ids, and those with a stuck transaction, on whatever page they are."""
    slices = visitor.services.runtime.slices
    listing = await list_transactions(visitor, search, state, longer_than)
    ordered = await slices.in_order(listing.transactions, key=_ORDERS[sort.removeprefix("-")])
    values, shown = paged(page, sort, ordered[::-1] if sort.startswith("-") else ordered)
    described = await describe_transactions(visitor, shown)
    all_open = [row async for row in slices.over(ordered) if row.state in OPEN_STATES]
    looked_at = await describe_transactions(visitor, all_open[:_LOOKED_AT_MAX])
    return {
        "search": search,
        "state": state,
        "longer_than": longer_than,
        "is_complete": listing.is_complete and described.is_complete and looked_at.is_complete,
        **values,
        "transactions": described.rows,
        "stuck": [row for row in looked_at.rows if is_stuck(row)],
        "looked_at": min(len(all_open), _LOOKED_AT_MAX),
        "all_open": len(all_open),
    }


async def transaction_page(visitor: Visitor, id: TransactionalId, page: PageNumber = 1) -> TransactionPage:
    """Return a transactional id with a page of the partitions of its transaction."""
    row, keys = await transaction_with_partitions(visitor, id)
    values, shown = paged(page, "", keys)
    return {**row, **values, "partitions": partition_rows(shown), "verdict": state_of(row)}


async def producer_table(visitor: Visitor, topic: Name, partition: Index = 0, page: PageNumber = 1) -> ProducerTable:
    """Return a page of the producers of a partition; those with an open transaction come first."""
    producers = await active_producers(visitor, topic, partition)
    starts = [
        producer.current_txn_start_offset
        async for producer in visitor.services.runtime.slices.over(producers)
        if has_open_transaction(producer)
    ]
    values, shown = paged(page, "", producers)
    return {
        "topic": topic,
        "partition": partition,
        **values,
        "producers": producer_rows(shown),
        "open_transactions": len(starts),
        "first_open": min(starts, default=None),
    }


async def fence_producer_confirmed(visitor: Visitor, id: TransactionalId, confirm: Name) -> FencedProducer:
    """Shut out the producer of a transactional id, which is given twice."""
    if confirm != id:
        raise BadRequest(f"write {id}, the transactional id whose producer is shut out", "confirm")
    return await fence_producer(visitor, id)


async def producer_to_abort(
    visitor: Visitor, topic: Name, producer_id: Offset, partition: Index = 0
) -> ProducerToAbort:
    """Return a producer with an open transaction in a partition."""
    producers = await active_producers(visitor, topic, partition)
    matching = [row for row in producers if row.producer_id == producer_id and has_open_transaction(row)]
    for row in producer_rows(matching):
        return {"topic": topic, "partition": partition, "producer": row}
    raise KafkaError(
        f"producer {producer_id} has no open transaction in {topic}-{partition}", ErrorCode.RESOURCE_NOT_FOUND
    )


async def abort_transaction_confirmed(
    visitor: Visitor, topic: Name, producer_id: Offset, confirm: Name, partition: Index = 0
) -> AbortedProducer:
    """Abort a producer's transaction in one partition of a topic, whose name is given twice."""
    if confirm != topic:
        raise BadRequest(f"write {topic}, the name of the topic", "confirm")
    return await abort_transaction(visitor, topic, producer_id, partition)


_TRANSACTION: Final = page("/transactions/{id}", transaction_page, "transaction")
_FENCE: Final = page("/transactions/{id}/fence", transaction_page, "transaction-fence")
_ABORT: Final = page("/topics/{topic}/producers/abort", producer_to_abort, "producer-abort")

TRANSACTION_PAGES: Final = (
    page("/transactions", transaction_table),
    _TRANSACTION,
    _FENCE,
    page("/topics/{topic}/producers", producer_table, "producers"),
    _ABORT,
    form(
        "/transactions/{id}/fence",
        fence_producer_confirmed,
        _FENCE,
        lambda done: path_of("transactions", done["id"]),
    ),
    form(
        "/topics/{topic}/producers/abort",
        abort_transaction_confirmed,
        _ABORT,
        lambda done: link(path_of("topics", done["topic"], "producers"), partition=done["partition"]),
    ),
    moved("/transaction", lambda given: path_of("transactions", given["id"]) if given.get("id") else "/transactions"),
    moved(
        "/producers",
        lambda given: (
            link(path_of("topics", given["topic"], "producers"), partition=given.get("partition"))
            if given.get("topic")
            else "/topics"
        ),
    ),
)
