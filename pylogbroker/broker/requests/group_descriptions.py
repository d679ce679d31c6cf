"""Answers of the APIs that describe groups whose members brokers assign: ConsumerGroupDescribe and its like."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

import attrs

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import ResponseBudget
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import Rule, on_each
from pylogbroker.broker.security.visibility import group_operations
from pylogbroker.broker.services import HasFeatures, HasGroups
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation


class _Found(Protocol):
    """Group as its coordinator describes it."""

    @property
    def error(self) -> ErrorCode: ...
    @property
    def text(self) -> str | None: ...


class _Described(Protocol):
    error_code: int
    authorized_operations: int


R = TypeVar("R")
D = TypeVar("D", bound=_Described)
G = TypeVar("G", bound=_Found)


class DescribingServices(HasGroups, HasFeatures, Protocol):
    """Services that these APIs use."""


@attrs.frozen
class GroupDescriptions(Generic[R, D]):
    """Types of an API's response, and of a group in it."""

    response: Callable[..., R]
    described: Callable[..., D]

    def error(self, group_id: str, code: ErrorCode, text: str | None = None) -> D:
        return self.described(error_code=code, error_message=text or code.meaning, group_id=group_id)

    def answer_off(self, request: Any) -> R:
        """Answer a request while the cluster's features do not allow the API."""
        return self.response(
            groups=[self.error(name, ErrorCode.UNSUPPORTED_VERSION) for name in dict.fromkeys(request.group_ids)]
        )

    def access(self) -> Rule:
        """Return the rule that a group is described to those who may describe it."""
        return on_each("group_ids", "groups", _may_describe, self._rejected)

    def _rejected(self, group_id: str) -> D:
        return self.error(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    async def answer(
        self,
        services: DescribingServices,
        context: RequestContext,
        request: Any,
        find: Callable[[str], G],
        size: Callable[[G], int],
        describe: Callable[[G], Coroutine[Any, Any, D]],
    ) -> R:
        """Describe the groups that `find` returns, as far as their approximate `size` fits in a response."""
        space, groups = ResponseBudget(), list[D]()
        async for group_id in over(dict.fromkeys(request.group_ids)):
            group = find(group_id)
            try:
                space.take(size(group))
            except KafkaError as error:
                groups.append(self.error(group_id, error.code))
                continue
            described = self.error(group_id, group.error, group.text) if group.error else await describe(group)
            if request.include_authorized_operations and not described.error_code:
                described.authorized_operations = group_operations(services.features, context, group_id)
            groups.append(described)
        return self.response(groups=groups)


def _may_describe(access: Access, group_id: str) -> bool:
    return access.allows_on_group(AclOperation.DESCRIBE, group_id)
