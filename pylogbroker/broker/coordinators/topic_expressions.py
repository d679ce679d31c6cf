"""Regular expressions of consumer groups, matched with the names of topics.

RE2 needs time in proportion to the text, whatever the expression: clients cannot make the broker search for long.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import re2

from pylogbroker.groups.consumer.port import InvalidExpression

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20


def match_topics(expressions: Iterable[str], names: Iterable[str]) -> dict[str, list[str] | InvalidExpression]:
    """Return the whole names that each expression matches."""
    topics = tuple(names)
    return {expression: _matches(expression, topics) for expression in expressions}


def _matches(expression: str, topics: tuple[str, ...]) -> list[str] | InvalidExpression:
    try:
        pattern = re2.compile(expression, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        return InvalidExpression(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason))
    except UnicodeEncodeError:
        return InvalidExpression("it is not UTF-8")
    return [name for name in topics if pattern.fullmatch(name)]
