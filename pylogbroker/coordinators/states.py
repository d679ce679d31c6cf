"""Checked transitions of state machines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import TypeVar

from pylogbroker.errors import PylogbrokerError

_E = TypeVar("_E", bound=Enum)
_T = TypeVar("_T")

Reply = Callable[[_T], None]
"""Called once with a request's result, at once or later."""


class IllegalTransition(PylogbrokerError):
    """A state may not follow the present one: a defect of this program."""


def check_transition(present: _E, next_state: _E, predecessors: Mapping[_E, Collection[_E]]) -> None:
    """Raise IllegalTransition unless `present` precedes `next_state`."""
    if present not in predecessors[next_state]:
        raise IllegalTransition(f"{next_state.name} does not follow {present.name}")
