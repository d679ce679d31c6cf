"""Hints for queries on topics that DuckDB rejects: the cause where it is not SQL's, and the option that helps."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from pylogbroker.config.parsing import closest
from pylogbroker.table.columns import COLUMNS

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_TABLE: Final = re.compile(r'Table with name "?(.+?)"? does not exist')
_NO_COLUMN: Final = re.compile(r'Referenced column "(.+?)" not found')
_NO_MEMBERS: Final = re.compile(r'Cannot extract field \'(.+?)\' from expression ""?(key|value)')
_SYNTAX: Final = re.compile(r'syntax error at or near "(.+?)"')
_READ_ONLY: Final = re.compile(r"is not an table|Can only (delete|update|insert)|Can only .* base table")
_NEAR_MAX: Final = 3


def explained(sql: str, head: str, names: Collection[str]) -> str:
    """Return the text of an error of DuckDB, without the line of the query; `names` are the topics."""
    if unquoted := [name for name in sorted(names) if _is_unquoted(name, sql)]:
        return f'{head.splitlines()[0]}\nThe name {unquoted[0]} needs quotes: "{unquoted[0]}"'
    if match := _NO_TABLE.search(head):
        near = _near(match[1], names)
        hint = f"did you mean {' or '.join(near)}?" if near else "`pylogbroker topic list` lists topics"
        return f"there is no topic or table {match[1]!r}; {hint}"
    if (match := _NO_COLUMN.search(head)) and any(name.lower() in sql.lower() for name in names):
        near_column = closest(match[1], COLUMNS)
        hint = f"; did you mean {near_column}?" if near_column else ""
        return (
            f"there is no column {match[1]!r}{hint}\nTopics have {', '.join(COLUMNS)}, and value.NAME for members of a"
            " value with -s value=json"
        )
    if match := _NO_MEMBERS.search(head):
        return (
            f"there is no {match[2]}.{match[1]}: no {match[2]} that was seen is read as an object, and a topic without"
            f" records shows none. -s {match[2]}=json reads JSON, -s {match[2]}=avro, protobuf and json-schema what a"
            " schema registry knows"
        )
    if (match := _SYNTAX.search(head)) and match[1] in names:
        return f'{head}\nThe topic {match[1]} has the name of a word of SQL, and needs quotes: "{match[1]}"'
    if _READ_ONLY.search(head):
        return f"{head}\nSQL only reads topics; `pylogbroker produce` writes records"
    return head.replace("\t", "    ")


def _is_unquoted(name: str, sql: str) -> bool:
    """Return whether a query has a name that needs quotes, without them."""
    if _PLAIN_NAME.fullmatch(name):
        return False
    return re.search(rf"(?<![\w\".-]){re.escape(name)}(?![\w\".-])", sql) is not None


def _near(name: str, names: Iterable[str]) -> list[str]:
    """Return the names that are most like one."""
    left = set(names)
    near: list[str] = []
    while len(near) < _NEAR_MAX and (candidate := closest(name, left)):
        near.append(candidate)
        left.remove(candidate)
    return near
