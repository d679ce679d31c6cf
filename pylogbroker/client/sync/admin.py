"""The admin client without Deferreds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pylogbroker.client.admin.client import AdminClient as AsyncAdminClient
from pylogbroker.client.admin.parts import AdminParts
from pylogbroker.client.sync.blocking_client import SECONDS_MAX, BlockingClient
from pylogbroker.client.sync.parts import BlockingParts


class AdminClient(BlockingClient[AsyncAdminClient], BlockingParts):
    """Admin client; takes the arguments and settings of `pylogbroker.client.AdminClient`.

    Its parts, such as `topics`, have the same methods. Each waits for its result, and takes `timeout=` in seconds.
    """

    def __init__(
        self, bootstrap: str | Sequence[str] | None = None, *, timeout: float = SECONDS_MAX, **options: Any
    ) -> None:
        super().__init__(partial(AsyncAdminClient, bootstrap, **options), timeout, options)

    def _parts(self) -> AdminParts:
        return self._client

    def _trouble(self) -> str:
        return self._client.trouble

    async def _close(self, seconds: float | None) -> None:
        await self._client.close()
