"""Quotas of this broker's clients."""

from __future__ import annotations

import attrs

from pylogbroker.broker.runtime import Runtime
from pylogbroker.broker.security.quota_store import QuotaStore
from pylogbroker.interfaces import ITree


@attrs.define(eq=False)
class BrokerQuotas:
    store: QuotaStore

    @classmethod
    def of(cls, runtime: Runtime, tree: ITree) -> BrokerQuotas:
        return cls(QuotaStore(tree, runtime, lambda table: None))

    async def open(self) -> None:
        await self.store.open()

    def close(self) -> None:
        self.store.close()
