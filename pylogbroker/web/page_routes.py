"""Routes of pages, of their forms and of old addresses.

A form that is rejected is shown again, with what was typed and the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.web.changes import PartlyDone
from pylogbroker.web.router import BadRequest, HttpRoute
from pylogbroker.web.router.routes import HTML
from pylogbroker.web.visitors import Visitor


@attrs.frozen
class TypedForm:
    """Texts of a form, and why it was rejected; `field` is the wrong one, or empty.

    `outcome` says what was changed all the same.
    """

    values: Mapping[str, str]
    reason: str = ""
    outcome: str = ""
    field: str = ""
    action: str = ""


EMPTY_FORM: Final = TypedForm({})
_UNKNOWN_OUTCOME: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
"""Errors after which a change may have been made."""


class RejectedField(KafkaError):
    """Error of a change that concerns one field of its form."""

    def __init__(self, failure: KafkaError, field: str) -> None:
        super().__init__(failure.detail, failure.code)
        self.field = field


class Preview(Exception):
    """A form asks what its change would do: its page is shown again, and nothing is changed."""


@attrs.frozen(slots=False)
class PageRoute(HttpRoute):
    """`template` is by default named like the path; the figures of a page that is live are sent as they change."""

    template: str = attrs.field(default="", kw_only=True)
    is_live: bool = attrs.field(default=False, kw_only=True)


@attrs.frozen(slots=False)
class FormRoute(HttpRoute):
    """A form of the page `page`; `after` returns the address that shows what has changed.

    A change that raises an error, or Preview, shows the page again, as `form` and its parameters of the same names say.
    """

    page: PageRoute = attrs.field(kw_only=True)
    after: Callable[[Mapping[str, Any]], str] = attrs.field(kw_only=True)

    async def again(
        self, visitor: Visitor, parts: Mapping[str, str], typed: Mapping[str, str], error: Exception
    ) -> dict[str, Any]:
        """Return the values of the page, and the form as it was typed; raise what the page raises."""
        names = self.page.parameters.by_name
        try:
            arguments = self.page.arguments(parts, {name: typed[name] for name in typed if name in names}, {})
        except BadRequest:
            arguments = self.page.arguments(parts, {}, {})
        field = error.field if isinstance(error, BadRequest | RejectedField) else ""
        reason = "" if isinstance(error, Preview) else str(error)
        reason += "." if reason and reason[-1] not in ".?!" else ""
        values: dict[str, Any] = await self.page.handle(visitor, **arguments)
        return {**values, "form": TypedForm(typed, reason, _outcome(error), field, self.path)}


def _outcome(error: Exception) -> str:
    if isinstance(error, PartlyDone):
        return "Only a part was changed."
    is_known = not isinstance(error, KafkaError) or error.code not in _UNKNOWN_OUTCOME
    return "Nothing was changed." if is_known else "It is not known what was changed: look before you repeat it."


@attrs.frozen(slots=False)
class MovedRoute(HttpRoute):
    """An old address; `target` returns the new one for the parts of the path and the parameters."""

    target: Callable[[Mapping[str, str]], str] = attrs.field(kw_only=True)

    def arguments(
        self, parts: Mapping[str, str], texts: Mapping[str, str], members: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {"location": self.target({**texts, **parts})}


async def _location(visitor: Visitor, location: str) -> dict[str, str]:
    return {"location": location}


def moved(path: str, target: Callable[[Mapping[str, str]], str]) -> MovedRoute:
    return MovedRoute("GET", path, _location, media=HTML, target=target)


def page(path: str, view: Callable[..., Any], template: str = "", is_live: bool = False) -> PageRoute:
    return PageRoute("GET", path, view, media=HTML, template=template or path.strip("/"), is_live=is_live)


def form(
    path: str, change: Callable[..., Any], shown_on: PageRoute, after: Callable[[Mapping[str, Any]], str]
) -> FormRoute:
    return FormRoute("POST", path, change, media=HTML, page=shown_on, after=after)
