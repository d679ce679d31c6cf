"""Rules of access: what a request's sender must be allowed, declared where the API is (`serves(..., access=...)`).

A rule looks at a request before its handler does:

    None      it may pass as it is
    Narrowed  its handler gets what is allowed; the answer gets the rest as errors, or not at all

A rule that checks many elements is a coroutine.

So handlers know nothing of authorization, unless they serve "all" of something, or create what is missing: those ask
`RequestContext.access` themselves. Without an authorizer no rule is called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial
from itertools import compress
from operator import not_
from typing import Any, TypeVar

import attrs

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.topic_ids import name_topics
from pylogbroker.broker.security.access import Access
from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import mapped, over, settled
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.wire import SUPPORTED, Request, Response

T = TypeVar("T")
Later = Coroutine[Any, Any, T]
Complete = Callable[[Any], Any]


@attrs.frozen
class Narrowed:
    """Part of a request that the client may see, or None. `complete` adds the rejected part to the handler's answer.

    Without such a part the handler is not called, and `complete` gets an empty answer.
    """

    request: Any
    complete: Complete


Decision = Narrowed | None
Rule = Callable[[Any, RequestContext, Any], Decision | Later[Decision]]
Reject = Callable[[RequestContext, Any, ErrorCode], Response | Later[Response]]
Check = Callable[[Access, Any], bool]
Handler = Callable[..., Any]
Shortcut = Callable[[Handler, Handler], Handler]


def guard(handle: Handler, rules: Sequence[Rule], shortcut: Shortcut | None = None) -> Handler:
    """Return a handler that asks the rules in turn, then the handler.

    A `shortcut` gets the handler and the one that asks the rules. It returns one that chooses between them: requests
    that are many, and have been allowed before, need not pay for rules.
    """
    guarded = handle
    for rule in reversed(rules):
        if rule not in (unchecked, by_handler):
            guarded = _guard(guarded, rule)
    return guarded if shortcut is None else shortcut(handle, guarded)


def _guard(handle: Handler, rule: Rule) -> Handler:
    def guarded(services: Any, context: RequestContext, request: Any) -> Any:
        decision = rule(services, context, request)
        if decision is None:
            return handle(services, context, request)
        return follow(services, context, request, decision)

    async def follow(services: Any, context: RequestContext, request: Any, decision: Decision | Later[Decision]) -> Any:
        narrowed: Decision = await settled(decision)
        if narrowed is None:
            return await settled(handle(services, context, request))
        if narrowed.request is None:
            return await settled(narrowed.complete(_empty_response(request)))
        answer = await settled(handle(services, context, narrowed.request))
        return await settled(narrowed.complete(answer))

    return guarded


def _empty_response(request: Request) -> Response:
    return SUPPORTED[request.api_key][1]()


def with_fields(request: Any, **fields: Any) -> Any:
    """Return a copy of a request with other values."""
    return attrs.evolve(request, **fields)


def unchecked(services: Any, context: RequestContext, request: Any) -> None:
    """Let everybody ask."""


def by_handler(services: Any, context: RequestContext, request: Any) -> None:
    """Leave all checks to the handler."""


def _reject_with_code(context: RequestContext, request: Request, code: ErrorCode) -> Any:
    """Return an empty response with an error code, and its text: librdkafka shows some errors only with one."""
    response: Any = _empty_response(request)
    response.error_code = code
    if hasattr(response, "error_message"):
        response.error_message = code.meaning
    return response


def required(check: Check, code: ErrorCode, reject: Reject = _reject_with_code) -> Rule:
    """Reject a request as a whole unless `check` allows it."""

    def rule(services: Any, context: RequestContext, request: Any) -> Narrowed | None:
        if check(context.required_access, request):
            return None
        return Narrowed(None, lambda _: reject(context, request, code))

    return rule


def on_cluster(operation: AclOperation, reject: Reject = _reject_with_code) -> Rule:
    return required(
        lambda access, request: access.allows_on_cluster(operation), ErrorCode.CLUSTER_AUTHORIZATION_FAILED, reject
    )


def on_group(operation: AclOperation, reject: Reject = _reject_with_code) -> Rule:
    return required(
        lambda access, request: access.allows_on_group(operation, request.group_id),
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        reject,
    )


def on_transactional_id(operation: AclOperation, reject: Reject = _reject_with_code) -> Rule:
    return required(
        lambda access, request: access.allows_on_transactional_id(operation, request.transactional_id),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        reject,
    )


def on_named_topics(names_of: Callable[[Any], Collection[str] | None]) -> Rule:
    """Reject a request that names a topic which its sender may not describe."""

    async def rule(services: Any, context: RequestContext, request: Any) -> Narrowed | None:
        may_describe = partial(context.required_access.allows_on_topic, AclOperation.DESCRIBE)
        if all(await mapped(may_describe, names_of(request) or ())):
            return None
        return Narrowed(None, lambda _: _reject_with_code(context, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))

    return rule


def on_each(
    elements: str,
    answers: str,
    check: Check,
    rejected: Callable[[Any], Any],
) -> Rule:
    """Let the handler see those of the request's `elements` that `check` allows; `rejected` answers the others.

    `elements` and `answers` are the fields of request and response.
    """

    def rule(services: Any, context: RequestContext, request: Any) -> Later[Decision]:
        return narrow_each(request, elements, answers, partial(check, context.required_access), rejected)

    return rule


async def narrow_each(
    request: Any, elements: str, answers: str, check: Callable[[Any], bool], rejected: Callable[[Any], Any]
) -> Decision:
    """Leave the elements that `check` does not allow out of a request.

    `rejected` answers them, behind the others; its answers may be coroutines.
    """
    requested = getattr(request, elements)
    verdicts = await mapped(check, requested)
    if all(verdicts):
        return None
    left = list(compress(requested, verdicts))
    denied = list(compress(requested, map(not_, verdicts)))

    async def add_rejected(response: Any) -> Any:
        async for element in over(denied):
            getattr(response, answers).append(await settled(rejected(element)))
        return response

    return Narrowed(with_fields(request, **{elements: left}) if left else None, add_rejected)


def on_topics(
    operation: AclOperation,
    rejected: Callable[[Any], Any],
    elements: str = "topics",
    answers: str = "topics",
    name: str = "name",
    first_by_id: int | None = None,
) -> Rule:
    """Check each topic. From version `first_by_id` on, topics have ids, and the handler answers unknown ones."""

    def check(access: Access, topic: Any) -> bool:
        return access.allows(operation, AclResourceType.TOPIC, getattr(topic, name))

    def check_known(access: Access, topic: Any) -> bool:
        return not topic.name or check(access, topic)

    async def by_id(services: Any, context: RequestContext, request: Any) -> Decision:
        await name_topics(services.metadata.image, getattr(request, elements))
        return await narrow_each(request, elements, answers, partial(check_known, context.required_access), rejected)

    by_name = on_each(elements, answers, check, rejected)
    if first_by_id is None:
        return by_name
    return lambda services, context, request: (
        by_name(services, context, request) if context.api_version < first_by_id else by_id(services, context, request)
    )


def shows(answers: str, check: Check) -> Rule:
    """Leave those of the response's `answers` out that `check` does not allow to be seen."""

    def rule(services: Any, context: RequestContext, request: Any) -> Narrowed:
        allowed = partial(check, context.required_access)

        async def leave_out(response: Any) -> Any:
            elements = getattr(response, answers)
            verdicts = await mapped(allowed, elements)
            setattr(response, answers, list(compress(elements, verdicts)))
            return response

        return Narrowed(request, leave_out)

    return rule
