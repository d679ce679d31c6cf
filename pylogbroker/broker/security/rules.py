"""Rules of access: what a request's sender must be allowed, declared where the API is (`serves(..., access=...)`).

A rule looks at a request before its handler does:

    None      it may pass as it is
    Narrowed  its handler gets what is allowed; the answer gets the rest as errors, or not at all

So handlers know nothing of authorization, unless they serve "all" of something, or create what is missing: those ask
`RequestContext.access` themselves. Without an authorizer no rule is called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from inspect import isawaitable
from types import GeneratorType
from typing import Any

import attrs

from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.security.access import Access
from pylogbroker.errors import ErrorCode
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.wire import SUPPORTED, Request, Response

Complete = Callable[[Any], Any]


@attrs.frozen
class Narrowed:
    """Rest of a request, None if nothing is left. `complete` makes the answer of the handler's.

    If nothing is left the handler is not asked, and `complete` gets an empty answer.
    """

    request: Any
    complete: Complete


Rule = Callable[[Any, RequestContext, Any], Narrowed | None]
Reject = Callable[[RequestContext, Any, ErrorCode], Response]
Check = Callable[[Access, Any], bool]


def guard(handle: Callable[..., Any], rules: Sequence[Rule]) -> Callable[..., Any]:
    """Return a handler that asks the rules in turn, then the handler."""
    for rule in reversed(rules):
        handle = _guard(handle, rule)
    return handle


def _guard(handle: Callable[..., Any], rule: Rule) -> Callable[..., Any]:
    def guarded(services: Any, context: RequestContext, request: Any) -> Any:
        narrowed = rule(services, context, request)
        if narrowed is None:
            return handle(services, context, request)
        if narrowed.request is None:
            return narrowed.complete(empty_response(request))
        return _completed(handle(services, context, narrowed.request), narrowed.complete)

    return guarded


def _completed(answer: Any, complete: Complete) -> Any:
    """Complete an answer of any kind that a handler may return."""
    if type(answer) is GeneratorType:
        return _completed_steps(answer, complete)
    if isawaitable(answer):
        return _completed_later(answer, complete)
    return complete(answer)


def _completed_steps(steps: Generator[None, None, Any], complete: Complete) -> Generator[None, None, Any]:
    return _completed((yield from steps), complete)


async def _completed_later(answer: Awaitable[Any], complete: Complete) -> Any:
    return complete(await answer)


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

    def rule(services: Any, context: RequestContext, request: Any) -> Narrowed | None:
        access = context.required_access
        verdicts = [check(access, each) for each in getattr(request, elements)]
        return None if all(verdicts) else split(request, elements, verdicts, answers, rejected)

    return rule


def split(
    request: Any, elements: str, verdicts: Sequence[bool], answers: str, rejected: Callable[[Any], Any]
) -> Narrowed:
    """Leave the elements without a verdict out of a request; `rejected` answers them, behind the others."""
    asked = getattr(request, elements)

    def complete(response: Any) -> Any:
        denied = (each for each, allowed in zip(asked, verdicts, strict=True) if not allowed)
        getattr(response, answers).extend(map(rejected, denied))
        return response

    left = [each for each, allowed in zip(asked, verdicts, strict=True) if allowed]
    return Narrowed(with_fields(request, **{elements: left}) if left else None, complete)


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
        access = context.required_access

        def complete(response: Any) -> Any:
            found = getattr(response, answers)
            setattr(response, answers, [each for each in found if check(access, each)])
            return response

        return Narrowed(request, complete)

    return rule
