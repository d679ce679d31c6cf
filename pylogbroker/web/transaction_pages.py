"""Pages of transactions and of producers: whether one is stuck and what to do, and what ends it, by its name."""

from __future__ import annotations

from typing import Final, TypedDict

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.web.formats import count_text, duration_text
from pylogbroker.web.links import link, path_of
from pylogbroker.web.page_routes import form, moved, page
from pylogbroker.web.parameters import ROWS_MAX, Count, Index, Name, Offset, Search, Start
from pylogbroker.web.router import BadRequest
from pylogbroker.web.transaction_views import (
    AbortedProducer,
    FencedProducer,
    OpenTransactions,
    ProducerRow,
    State,
    TransactionalId,
    TransactionParts,
    TransactionRow,
    abort_transaction,
    fence_producer,
    producers,
    transaction,
    transactions,
)
from pylogbroker.web.visitors import Visitor


@attrs.frozen
class TransactionState:
    """Sentence that a page opens with; `kind` is ok, warn, bad or empty."""

    kind: str
    title: str
    detail: str = ""


class TransactionTable(OpenTransactions):
    stuck: list[TransactionRow]


class TransactionPage(TransactionParts):
    verdict: TransactionState


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
    start: Start = 0,
    count: Count = ROWS_MAX,
) -> TransactionTable:
    """Return transactional ids, and those of them whose transaction is stuck."""
    table = await transactions(visitor, search, state, longer_than, start, count)
    return {**table, "stuck": [row for row in table["transactions"] if is_stuck(row)]}


async def transaction_page(
    visitor: Visitor, id: TransactionalId, start: Start = 0, count: Count = ROWS_MAX
) -> TransactionPage:
    """Return a transactional id with a part of the partitions of its transaction."""
    parts = await transaction(visitor, id, start, count)
    return {**parts, "verdict": state_of(parts)}


async def fence_producer_confirmed(visitor: Visitor, id: TransactionalId, confirm: Name) -> FencedProducer:
    """Shut out the producer of a transactional id, which is given twice."""
    if confirm != id:
        raise BadRequest(f"write {id}, the transactional id whose producer is shut out", "confirm")
    return await fence_producer(visitor, id)


async def producer_to_abort(
    visitor: Visitor, topic: Name, producer_id: Offset, partition: Index = 0
) -> ProducerToAbort:
    """Return a producer with an open transaction in a partition."""
    for row in (await producers(visitor, topic, partition))["producers"]:
        if row["producer_id"] == producer_id and row["transaction_start"] is not None:
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
    page("/topics/{topic}/producers", producers, "producers"),
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
