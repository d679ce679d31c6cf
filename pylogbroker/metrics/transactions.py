"""Metrics of the transaction coordinator, and of the loads of both coordinators."""

from __future__ import annotations

from math import nan
from typing import Final

from pylogbroker.broker.assembly import Broker
from pylogbroker.long_loops import give_way
from pylogbroker.metrics import families
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.metrics.latencies import number_text
from pylogbroker.transactions.states import TransactionState

_TRANSACTIONS_PER_STEP: Final = 1000


def collect_loads(out: Exposition, broker: Broker) -> None:
    now = broker.runtime.clock.seconds()
    for (slowest, average), driver in (
        (families.GROUP_LOAD_TIMES, broker.group_service.driver),
        (families.TRANSACTION_LOAD_TIMES, broker.transaction_service.driver),
    ):
        durations = driver.loads.durations(now)
        for family, seconds in (
            (slowest, max(durations, default=nan)),
            (average, sum(durations) / len(durations) if durations else nan),
        ):
            out.lines(family).append(f"{family.name} {number_text(seconds * 1000)}\n")


async def collect_transactions(out: Exposition, broker: Broker) -> None:
    """Write how transactions come to their end."""
    markers = appends = open_ms = number = 0
    now_ms = broker.runtime.now_ms()
    for shard in tuple(broker.transactions.runtime.shards()):
        for transaction in tuple(shard.transactions.values()):
            number += 1
            if number % _TRANSACTIONS_PER_STEP == 0:
                await give_way()
            metadata = transaction.metadata
            if metadata.state is TransactionState.ONGOING:
                open_ms = max(open_ms, now_ms - metadata.start_ms)
            if transaction.is_retrying:
                markers += bool(metadata.partitions)
                appends += not metadata.partitions
    out.add(families.MARKERS_WAITING, markers)
    out.add(families.COMPLETIONS_WAITING, appends)
    out.add(families.TRANSACTION_OPEN_MAX, open_ms)
    out.add(families.MARKER_REQUESTS, broker.transaction_service.marker_requests)
