"""Parts of an admin client whose methods wait for their results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pylogbroker.client.admin.parts import AdminParts

if TYPE_CHECKING:
    from pylogbroker.client.sync.admin_parts import (
        BlockingAclAdmin,
        BlockingClusterInfoAdmin,
        BlockingConfigAdmin,
        BlockingGroupAdmin,
        BlockingQuotaAdmin,
        BlockingRecordAdmin,
        BlockingReplicaAdmin,
        BlockingShareGroupAdmin,
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
            return self._wait(f"{self._noun}.{verb}", partial(method, *arguments, **options), timeout)

        return call


class PartAttribute(Generic[P]):
    """Attribute of the admin client that is a part of the asynchronous one, with the methods of `P`."""

    def __set_name__(self, owner: type, noun: str) -> None:
        self._noun = noun

    def __get__(self, client: BlockingParts, owner: type) -> P:
        return cast(P, BlockingPart(self._noun, getattr(client._parts(), self._noun), client._call))


class BlockingParts:
    """Parts such as `topics`. Each method waits for its result, and takes `timeout=` in seconds."""

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
    share_groups: PartAttribute[BlockingShareGroupAdmin] = PartAttribute()

    def _parts(self) -> AdminParts:
        raise NotImplementedError

    def _call(self, what: str, work: Callable[[], Awaitable[Any]], timeout: float | None) -> Any:
        """Return the result of `work`; `what` is its name for errors."""
        raise NotImplementedError
