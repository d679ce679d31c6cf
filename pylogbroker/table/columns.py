"""Columns of a table, and which of them a read returns.

| column         | type                                                            |
|----------------|-----------------------------------------------------------------|
| partition      | int32                                                           |
| offset         | int64                                                           |
| timestamp      | timestamp in microseconds, UTC; null for a time out of range    |
| key, value     | as decoded: binary, text, or columns of a struct                |
| headers        | list of key and value; null without headers                     |
| timestamp_type | CreateTime, LogAppendTime; null for records of message format 0 |
| topic          | text                                                            |

`value.user` is a member of a struct, as a column of that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pylogbroker.config.parsing import closest
from pylogbroker.errors import ConfigError
from pylogbroker.table.decoder import TYPES

DEFAULT: Final = ("partition", "offset", "timestamp", "key", "value", "headers", "timestamp_type")
"""Columns of a read that names none: all but the topic."""
COLUMNS: Final = (*DEFAULT, "topic")
DECODED: Final = ("key", "value")
"""Columns whose types depend on how they are read."""
_DECODER_NAMES: Final = {"timestamp_type": "timestampType"}
_KINDS: Final = pa.array(["CreateTime", "LogAppendTime"], pa.string())


@attrs.frozen
class ColumnSelection:
    """Columns in their order: names as users give them, and the column and members that each stands for."""

    names: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, names: Sequence[str] | None) -> ColumnSelection:
        """Return the selection of users' names; raise ConfigError."""
        if isinstance(names, str):
            raise ConfigError(f"columns: {names!r} is a text; expected a list of names, such as [{names!r}]")
        chosen = DEFAULT if names is None else tuple(names)
        if not chosen:
            raise ConfigError(f"columns: none is named; expected some of {', '.join(COLUMNS)}")
        paths = []
        for name in chosen:
            column, *members = name.split(".") if isinstance(name, str) else [""]
            if column not in COLUMNS or (members and column not in DECODED):
                near = closest(column, COLUMNS)
                hint = f"; did you mean {near}?" if near else ""
                raise ConfigError(f"columns: there is no {name!r}{hint} There are {', '.join(COLUMNS)}, and value.NAME")
            paths.append((column, *members))
        if len(set(chosen)) < len(chosen):
            raise ConfigError(f"columns: one is named twice: {', '.join(chosen)}")
        return cls(chosen, tuple(paths))

    def uses(self, column: str) -> bool:
        return any(path[0] == column for path in self.paths)

    def schema(self, types: Mapping[str, pa.DataType]) -> pa.Schema:
        """Return the schema for the types of key and value; raise ConfigError for a member that is missing."""
        fields = []
        for name, (column, *members) in zip(self.names, self.paths, strict=True):
            kind = types[column] if column in DECODED else type_of(column)
            for member in members:
                if not pa.types.is_struct(kind) or kind.get_field_index(member) < 0:
                    have = [field.name for field in kind] if pa.types.is_struct(kind) else []
                    raise ConfigError(
                        f"columns: there is no {name!r}: {column} has {', '.join(have) or 'no members'}; it is read as"
                        f" {kind}"
                    )
                kind = kind.field(member).type
            fields.append(pa.field(name, kind))
        return pa.schema(fields)

    def arrays(self, columns: Mapping[str, pa.Array]) -> list[pa.Array]:
        return [
            columns[path[0]] if len(path) == 1 else pc.struct_field(columns[path[0]], list(path[1:]))
            for path in self.paths
        ]


def type_of(column: str) -> pa.DataType:
    """Return the type of a column that is not decoded."""
    return pa.string() if column == "timestamp_type" else TYPES[column]


def decoder_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the decoder's names of columns."""
    return tuple(_DECODER_NAMES.get(name, name) for name in columns)


def column_of(rows: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column of the decoder's rows."""
    column = rows.column(_DECODER_NAMES.get(name, name))
    if name != "timestamp_type":
        return column
    return _KINDS.take(pc.if_else(pc.less(column, 0), pa.scalar(None, column.type), column))
