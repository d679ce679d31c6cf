"""Topic filters by regex.

As in Kafka's connector, the whole name must match, and a comma means `|`: `Whitelist("orders,returns")`. Kafka's
internal topics need `internal`.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from pylogbroker.client import arguments
from pylogbroker.errors import ConfigError

_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__cluster_metadata", "__share_group_state"})


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(_alternatives(pattern))
    except re.error as error:
        raise ConfigError(f"pattern: {pattern!r} is not a valid regex for topics: {error}") from None


def _alternatives(pattern: str) -> str:
    return re.sub(r"\\.|\{[^}]*\}|\[[^]]*\]|,", lambda match: "|" if match[0] == "," else match[0], pattern.strip())


@attrs.frozen
class TopicFilter:
    pattern: str
    internal: bool = False  # whether Kafka's internal topics can match
    _regex: re.Pattern[str] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        arguments.flag("internal", self.internal)
        if not isinstance(self.pattern, str):
            raise arguments.invalid("pattern", self.pattern, "a regex for topics, as a text")
        object.__setattr__(self, "_regex", _compiled(self.pattern))

    def matches(self, topic: str) -> bool:
        return (self.internal or topic not in _INTERNAL) and self._wants(topic)

    def _wants(self, topic: str) -> bool:
        raise NotImplementedError


@attrs.frozen
class Whitelist(TopicFilter):
    """Selects matching topics."""

    @property
    def expression(self) -> str:
        """Regular expression of the whole name, without the commas of Kafka's connector."""
        return _alternatives(self.pattern)

    def _wants(self, topic: str) -> bool:
        return self._regex.fullmatch(topic) is not None


@attrs.frozen
class Blacklist(TopicFilter):
    """Selects topics that do not match."""

    def _wants(self, topic: str) -> bool:
        return self._regex.fullmatch(topic) is None
