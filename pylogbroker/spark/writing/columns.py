"""The columns that the sink writes, and which types they may have; others are not looked at.

| column    | type                                        | without it                                    |
|-----------|---------------------------------------------|-----------------------------------------------|
| value     | string or binary                            | an error                                      |
| key       | string or binary                            | there is none                                 |
| topic     | string; not looked at if the option topic   | an error                                      |
|           | is given, which then says where rows go     |                                               |
| partition | int; null is none                           | the key decides                               |
| headers   | array of structs of key and value           | there are none                                |
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
    """Where in the rows these columns are."""

    value: int
    key: int | None = None
    topic: int | None = None
    partition: int | None = None
    headers: int | None = None


def fields_of(columns: Sequence[tuple[str, str]], topic: str | None) -> Fields:
    """For columns' names and types, as Spark calls them, and the option topic; ConfigError says what is wrong."""
    found: dict[str, int] = {}
    for number, (name, _) in enumerate(columns):
        if name in _ACCEPTED and (name != "topic" or topic is None):
            found.setdefault(name, number)
    if "value" not in found:
        raise ConfigError(f"there is no column value: there are {', '.join(name for name, _ in columns) or 'none'}")
    if "topic" not in found and topic is None:
        raise ConfigError("there is neither an option topic nor a column topic: one of them says where rows go")
    for name, number in found.items():
        kind = columns[number][1]
        if kind not in _ACCEPTED[name]:
            raise ConfigError(f"column {name} is {kind}: it has to be {' or '.join(_ACCEPTED[name])}")
    return Fields(**found)
