"""Parameters of a handler: names, types and defaults of its function's signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Final, Unpack, get_args, get_origin, get_type_hints

import attrs

from pylogbroker.web.router.values import BadValue, description, from_json, from_text, is_text

_REQUIRED: Final = inspect.Parameter.empty
OMITTED: Final = object()
"""Default of a parameter that the handler does not get unless it is given."""


class BadRequest(ValueError):
    """A parameter is missing, unknown or wrong: the message says which, and `field` names it if it is a single one."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.field = field


@attrs.frozen
class Parameter:
    name: str
    kind: Any
    default: Any = _REQUIRED

    @property
    def is_required(self) -> bool:
        return self.default is _REQUIRED

    @property
    def description(self) -> str:
        return description(self.kind)


@attrs.frozen(slots=False)
class Parameters:
    """Parameters of a function, but those named `hidden`, which its caller gives."""

    _function: Callable[..., Any]
    _hidden: Collection[str] = ()

    @cached_property
    def by_name(self) -> Mapping[str, Parameter]:
        """Resolved at the first use: to evaluate annotations takes time."""
        hints = get_type_hints(self._function, include_extras=True)
        parameters: dict[str, Parameter] = {}
        for name, declared in inspect.signature(self._function).parameters.items():
            kind = hints.get(name, Any)
            if name in self._hidden:
                continue
            if declared.kind is inspect.Parameter.VAR_KEYWORD:
                [fields] = get_args(kind) if get_origin(kind) is Unpack else [{}]
                for field, field_kind in get_type_hints(fields, include_extras=True).items():
                    if field not in self._hidden:
                        parameters[field] = Parameter(field, field_kind, OMITTED)
            else:
                parameters[name] = Parameter(name, kind, declared.default)
        return parameters

    @property
    def answer(self) -> Any:
        return get_type_hints(self._function, include_extras=True).get("return", Any)

    def read(self, texts: Mapping[str, str], members: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of texts in path, query and form, and of a body's members; raise BadRequest."""
        for name in (*texts, *members):
            if name not in self.by_name:
                raise BadRequest(_unknown(name, self.by_name))
            if name in texts and name in members:
                raise BadRequest(f"{name} is given twice")
        arguments = {}
        try:
            for name, parameter in self.by_name.items():
                if name in members:
                    arguments[name] = from_json(parameter.kind, members[name], name)
                elif name in texts and (texts[name].strip() or is_text(parameter.kind)):
                    arguments[name] = from_text(parameter.kind, texts[name], name)
                elif parameter.is_required:
                    raise BadRequest(f"{name} is missing", name)
        except BadValue as error:
            raise BadRequest(str(error), name) from None
        return arguments


def _unknown(name: str, names: Collection[str]) -> str:
    likely = get_close_matches(name, names, 1)
    if likely:
        return f"there is no parameter {name!r}: did you mean {likely[0]!r}?"
    return f"there is no parameter {name!r}; there are: {', '.join(names)}" if names else f"there is no {name!r} here"
