"""The admin client without Deferreds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pylogbroker.client.admin.client import AdminClient as AsyncAdminClient
from pylogbroker.client.sync.blocking_client import SECONDS_MAX, BlockingClient

if TYPE_CHECKING:
    from pylogbroker.client.sync.admin_parts import (
        BlockingAclAdmin,
        BlockingClusterInfoAdmin,
        BlockingConfigAdmin,
        BlockingGroupAdmin,
        BlockingQuotaAdmin,
        BlockingRecordAdmin,
        BlockingReplicaAdmin,
        BlockingTokenAdmin,
        BlockingTopicAdmin,
        BlockingTransactionAdmin,
        BlockingUserAdmin,
    )

P = TypeVar("P")


class BlockingPart:
    """Methods of a part of the admin client, each waiting for its result."""

    def __init__(self, noun: str, part: object, call: Callable[..., Any]) -> None:
        self._noun = noun
        self._part = part
        self._wait = call

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        if verb.startswith("_"):
            raise AttributeError(verb)
        method = getattr(self._part, verb)

        @wraps(method)
        def call(*arguments: Any, timeout: float | None = None, **options: Any) -> Any:
            return self._wait(f"{self._noun}.{verb}", partial(method, *arguments, **options), timeout, options)

        return call


class PartAttribute(Generic[P]):
    """Attribute of the admin client that is a part of the asynchronous one, with the methods of `P`."""

    def __set_name__(self, owner: type, noun: str) -> None:
        self._noun = noun

    def __get__(self, client: AdminClient, owner: type) -> P:
        return cast(P, BlockingPart(self._noun, getattr(client._client, self._noun), client._call))


class AdminClient(BlockingClient[AsyncAdminClient]):
    """Admin client; takes the arguments and settings of `pylogbroker.client.AdminClient`.

    Its parts, such as `topics`, have the same methods. Each waits for its result, and takes `timeout=` in seconds.
    """

    topics: PartAttribute[BlockingTopicAdmin] = PartAttribute()
    configs: PartAttribute[BlockingConfigAdmin] = PartAttribute()
    groups: PartAttribute[BlockingGroupAdmin] = PartAttribute()
    records: PartAttribute[BlockingRecordAdmin] = PartAttribute()
    cluster: PartAttribute[BlockingClusterInfoAdmin] = PartAttribute()
    transactions: PartAttribute[BlockingTransactionAdmin] = PartAttribute()
    replicas: PartAttribute[BlockingReplicaAdmin] = PartAttribute()
    acls: PartAttribute[BlockingAclAdmin] = PartAttribute()
    users: PartAttribute[BlockingUserAdmin] = PartAttribute()
    quotas: PartAttribute[BlockingQuotaAdmin] = PartAttribute()
    tokens: PartAttribute[BlockingTokenAdmin] = PartAttribute()

    def __init__(
        self, bootstrap: str | Sequence[str] | None = None, *, timeout: float = SECONDS_MAX, **options: Any
    ) -> None:
        super().__init__(partial(AsyncAdminClient, bootstrap, **options), timeout, options)

    def _trouble(self) -> str:
        return self._client.trouble

    async def _close(self, seconds: float | None) -> None:
        await self._client.close()
