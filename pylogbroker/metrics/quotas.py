"""Metrics of quotas."""

from __future__ import annotations

import heapq
from typing import Final

from pylogbroker.broker.security.client_quotas import BrokerQuotas, QuotaUse
from pylogbroker.long_loops import give_way
from pylogbroker.metrics import families
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.security.quotas.keys import QuotaKey

CLIENTS_MAX: Final = 100
"""Clients of each resource that are shown."""

_USES_PER_STEP: Final = 50
_RESOURCES: Final = {
    QuotaKey.PRODUCER_BYTE_RATE: ("Produce", families.QUOTA_BYTE_RATE),
    QuotaKey.CONSUMER_BYTE_RATE: ("Fetch", families.QUOTA_BYTE_RATE),
    QuotaKey.REQUEST_PERCENTAGE: ("Request", families.QUOTA_REQUEST_TIME),
}


async def collect_quotas(out: Exposition, quotas: BrokerQuotas) -> None:
    out.add(families.THROTTLED, quotas.throttles.responses)
    out.add(families.THROTTLE_SECONDS, quotas.throttles.ms / 1000)
    uses: dict[QuotaKey, list[QuotaUse]] = {}
    for number, use in enumerate(quotas.used()):
        uses.setdefault(use.key, []).append(use)
        if number % _USES_PER_STEP == 0:
            await give_way()
    for key, key_uses in uses.items():
        resource, rate = _RESOURCES[key]
        for use in heapq.nlargest(CLIENTS_MAX, key_uses, key=lambda quota_use: quota_use.per_second):
            labels = resource, use.user, use.client_id
            out.add(rate, round(use.per_second, 3), *labels)
            out.add(families.QUOTA_THROTTLE_TIME, use.throttle_ms, *labels)
        await give_way()
