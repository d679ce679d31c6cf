"""Rules of access: what a request's sender must be allowed, declared where the API is (`serves(..., access=...)`).

A rule looks at a request before its handler does:

    None      it may pass as it is
    Narrowed  its handler gets what is allowed; the answer gets the rest as errors, or not at all

Checks of many elements are steps: a rule may return a generator of its decision.

So handlers know nothing of authorization, unless they serve "all" of something, or create what is missing: those ask
`RequestContext.access` themselves. Without an authorizer no rule is called.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from itertools import compress
from operator import not_
from types import GeneratorType
from typing import Any, TypeVar

import attrs

from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.slices import after, inline_if_short, map_in_steps
from pylogbroker.errors import ErrorCode
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.wire import SUPPORTED, Request, Response

T = TypeVar("T")
Steps = Generator[None, None, T]
Complete = Callable[[Any], Any]


@attrs.frozen
class Narrowed:
    """Part of a request that the client may see, or None. `complete` adds the rejected part to the handler's answer.

    Without such a part the handler is not called, and `complete` gets an empty answer.
    """

    request: Any
    complete: Complete


Decision = Narrowed | None
Rule = Callable[[Any, RequestContext, Any], Decision | Steps[Decision]]
Reject = Callable[[RequestContext, Any, ErrorCode], Response | Steps[Response]]
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
        if isinstance(decision, Narrowed):
            return follow(services, context, request, decision)
        return after(decision, partial(follow, services, context, request))

    def follow(services: Any, context: RequestContext, request: Any, decision: Decision) -> Any:
        if decision is None:
            return handle(services, context, request)
        if decision.request is None:
            return decision.complete(empty_response(request))
        answer = handle(services, context, decision.request)
        return services.runtime.slices.complete(answer, decision.complete)

    return guarded


def empty_response(request: Request) -> Response:
    return SUPPORTED[request.api_key][1]()


def with_fields(request: Any, **fields: Any) -> Any:
    """Return a copy of a request with other values."""
    return attrs.evolve(request, **fields)


def unchecked(services: Any, context: RequestContext, request: Any) -> None:
    """Let everybody ask."""


def by_handler(services: Any, context: RequestContext, request: Any) -> None:
    """Leave all checks to the handler."""


def reject_with_code(context: RequestContext, request: Request, code: ErrorCode) -> Any:
    """Return an empty response with an error code, and its text: librdkafka shows some errors only with one."""
    response: Any = empty_response(request)
    response.error_code = code
    if hasattr(response, "error_message"):
        response.error_message = code.meaning
    return response


def required(check: Check, code: ErrorCode, reject: Reject = reject_with_code) -> Rule:
    """Reject a request as a whole unless `check` allows it."""

    def rule(services: Any, context: RequestContext, request: Any) -> Narrowed | None:
        if check(context.required_access, request):
            return None
        return Narrowed(None, lambda _: reject(context, request, code))

    return rule


def on_cluster(operation: AclOperation, reject: Reject = reject_with_code) -> Rule:
    return required(
        lambda access, request: access.allows_on_cluster(operation), ErrorCode.CLUSTER_AUTHORIZATION_FAILED, reject
    )


def on_group(operation: AclOperation, reject: Reject = reject_with_code) -> Rule:
    return required(
        lambda access, request: access.allows_on_group(operation, request.group_id),
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        reject,
    )


def on_transactional_id(operation: AclOperation, reject: Reject = reject_with_code) -> Rule:
    return required(
        lambda access, request: access.allows_on_transactional_id(operation, request.transactional_id),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        reject,
    )


def on_each(
    elements: str,
    answers: str,
    check: Check,
    rejected: Callable[[Any], Any],
) -> Rule:
    """Let the handler see those of the request's `elements` that `check` allows; `rejected` answers the others.

    `elements` and `answers` are the fields of request and response.
    """

    def rule(services: Any, context: RequestContext, request: Any) -> Decision | Steps[Decision]:
        return narrow_each(request, elements, answers, partial(check, context.required_access), rejected)

    return rule


def narrow_each(
    request: Any, elements: str, answers: str, check: Callable[[Any], bool], rejected: Callable[[Any], Any]
) -> Decision | Steps[Decision]:
    """Leave the elements that `check` does not allow out of a request.

    `rejected` answers them, behind the others; its answers may be steps.
    """
    asked = getattr(request, elements)
    return inline_if_short(narrow_in_steps(request, elements, answers, check, rejected), len(asked))


def narrow_in_steps(
    request: Any, elements: str, answers: str, check: Callable[[Any], bool], rejected: Callable[[Any], Any]
) -> Steps[Decision]:
    asked = getattr(request, elements)
    verdicts = yield from map_in_steps(check, asked)
    if all(verdicts):
        return None
    left = list(compress(asked, verdicts))
    denied = list(compress(asked, map(not_, verdicts)))

    def add_rejected(response: Any) -> Steps[Any]:
        for found in (yield from map_in_steps(rejected, denied)):
            answer = (yield from found) if type(found) is GeneratorType else found
            getattr(response, answers).append(answer)
        return response

    return Narrowed(with_fields(request, **{elements: left}) if left else None, add_rejected)


def on_topics(
    operation: AclOperation,
    rejected: Callable[[Any], Any],
    elements: str = "topics",
    answers: str = "topics",
    name: str = "name",
) -> Rule:
    def check(access: Access, topic: Any) -> bool:
        return access.allows(operation, AclResourceType.TOPIC, getattr(topic, name))

    return on_each(elements, answers, check, rejected)


def shows(answers: str, check: Check) -> Rule:
    """Leave those of the response's `answers` out that `check` does not allow to be seen."""

    def rule(services: Any, context: RequestContext, request: Any) -> Narrowed:
        allowed = partial(check, context.required_access)

        def leave_out(response: Any) -> Steps[Any]:
            found = getattr(response, answers)
            verdicts = yield from map_in_steps(allowed, found)
            setattr(response, answers, list(compress(found, verdicts)))
            return response

        return Narrowed(request, lambda response: inline_if_short(leave_out(response), len(getattr(response, answers))))

    return rule
