"""Requests of a producer whose last transaction is decided, but not complete: they wait for its markers.

The producer hears of the decision, and begins its next transaction at once. Apache Kafka answers
CONCURRENT_TRANSACTIONS, after which clients pause for 20 to 300 ms. The markers take a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Protocol, TypeVar

from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.context import Caller
from pylogbroker.broker.services import HasRuntime, HasTransactions
from pylogbroker.coordinators import Reply, TopicPartition
from pylogbroker.errors import ErrorCode

COMPLETION_WAIT_MS: Final = 500
"""Markers that take longer wait for a leader, or for replicas: the client pauses, and asks again."""

T = TypeVar("T")


class _Services(HasRuntime, HasTransactions, Protocol):
    """Services that this module uses."""


async def ask_when_complete(
    services: _Services,
    caller: Caller,
    transactional_id: str,
    ask: Callable[[Reply[T]], None],
    error_of: Callable[[T], ErrorCode],
) -> T:
    """Ask the coordinator; after CONCURRENT_TRANSACTIONS again, once the end of the transaction is complete."""
    answer = await _ask(ask)
    if error_of(answer) is ErrorCode.CONCURRENT_TRANSACTIONS:
        is_complete = await _completion(services, transactional_id)
        if is_complete and not caller.is_gone:
            answer = await _ask(ask)
    return answer


async def add_when_complete(
    services: _Services,
    caller: Caller,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    partitions: Collection[TopicPartition],
) -> ErrorCode:
    """Add partitions to the producer's next transaction, once its last one is complete."""

    def ask(reply: Reply[ErrorCode]) -> None:
        now_ms = services.runtime.now_ms()
        services.transactions.add_partitions(transactional_id, producer_id, epoch, partitions, reply, now_ms)

    return await ask_when_complete(services, caller, transactional_id, ask, lambda error: error)


def _ask(ask: Callable[[Reply[T]], None]) -> Deferred[T]:
    replied: Deferred[T] = Deferred()
    ask(replied.callback)
    return replied


async def _completion(services: _Services, transactional_id: str) -> bool:
    """Wait until no end of a transaction is under way; return False if that takes long."""
    completed: Deferred[bool] = Deferred()
    stop_waiting = services.transactions.on_completion(transactional_id, completed.callback)
    if stop_waiting is None:
        return True
    timeout = services.runtime.clock.callLater(COMPLETION_WAIT_MS / 1000, completed.callback, False)
    is_complete = await completed
    if timeout.active():
        timeout.cancel()
    else:
        stop_waiting()
    return is_complete
