"""Regular expressions of consumer groups, matched with the names of topics.

RE2 needs time in proportion to the text, whatever the expression: clients cannot make the broker search for long.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import re2

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20


def match_topics(expressions: Iterable[str], names: Iterable[str]) -> dict[str, list[str] | None]:
    """Return the whole names that each expression matches; None for an invalid one."""
    topics = tuple(names)
    return {expression: _matches(expression, topics) for expression in expressions}


def _matches(expression: str, topics: tuple[str, ...]) -> list[str] | None:
    try:
        pattern = re2.compile(expression, _OPTIONS)
    except (re2.error, UnicodeEncodeError):
        return None
    return [name for name in topics if pattern.fullmatch(name)]
