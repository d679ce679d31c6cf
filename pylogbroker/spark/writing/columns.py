"""Columns that the sink writes; others are ignored.

| column    | if missing                                                               |
|-----------|--------------------------------------------------------------------------|
| value     | an error                                                                 |
| key       | records have no keys                                                     |
| topic     | an error, unless the option topic is set, which overrides it             |
| partition | the key decides, as for null                                             |
| headers   | records have no headers                                                  |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from pylogbroker.errors import ConfigError

_BYTES: Final = ("string", "binary")
_ACCEPTED: Final[Mapping[str, tuple[str, ...]]] = {
    "value": _BYTES,
    "key": _BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


@attrs.frozen
class Fields:
    value: int
    key: int | None = None
    topic: int | None = None
    partition: int | None = None
    headers: int | None = None


def fields_of(columns: Sequence[tuple[str, str]], topic: str | None) -> Fields:
    """Raise ConfigError for a missing or mistyped column."""
    numbers: dict[str, int] = {}
    for number, (name, _) in enumerate(columns):
        if name in _ACCEPTED and (name != "topic" or topic is None):
            numbers.setdefault(name, number)
    if "value" not in numbers:
        raise ConfigError(f"the column value is missing; there are {', '.join(name for name, _ in columns) or 'none'}")
    if "topic" not in numbers and topic is None:
        raise ConfigError("no topic is given: set the option topic, or add a column topic")
    for name, number in numbers.items():
        kind = columns[number][1]
        if kind not in _ACCEPTED[name]:
            raise ConfigError(f"column {name} is {kind}: it must be {' or '.join(_ACCEPTED[name])}")
    return Fields(**numbers)
