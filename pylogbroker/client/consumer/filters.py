"""Which topics a consumer reads, when it does not name them: those that match a regex, or those that do not.

As in Kafka's own connector, the whole name has to match, and a comma stands for `|`: `Whitelist("orders,returns")`.
Topics that Kafka keeps for itself are left out, unless the filter is told otherwise.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from pylogbroker.errors import ConfigError

_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__cluster_metadata", "__share_group_state"})


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(_alternatives(pattern))
    except re.error as error:
        raise ConfigError(f"{pattern!r} is no regex for topics: {error}") from None


def _alternatives(pattern: str) -> str:
    """The pattern with `|` for each comma that is not part of `{m,n}` or of `[...]`."""
    return re.sub(r"\\.|\{[^}]*\}|\[[^]]*\]|,", lambda found: "|" if found[0] == "," else found[0], pattern.strip())


@attrs.frozen
class TopicFilter:
    """A rule for topics."""

    pattern: str
    internal: bool = False  # whether Kafka's own topics can match
    _regex: re.Pattern[str] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_regex", _compiled(self.pattern))

    def matches(self, topic: str) -> bool:
        """Whether to read the topic."""
        return (self.internal or topic not in _INTERNAL) and self._wants(topic)

    def _wants(self, topic: str) -> bool:
        raise NotImplementedError


@attrs.frozen
class Whitelist(TopicFilter):
    """All topics whose name matches."""

    def _wants(self, topic: str) -> bool:
        return self._regex.fullmatch(topic) is not None


@attrs.frozen
class Blacklist(TopicFilter):
    """All topics but those whose name matches."""

    def _wants(self, topic: str) -> bool:
        return self._regex.fullmatch(topic) is None
