"""Messages chosen at random, as their declarations allow in a version.

    for message in messages(FetchRequest, 12, examples(20), budget.chance("fetch")): ...

Hypothesis takes fifty times as long: its engine starts for each of 600 versions, and it would not shrink here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any
from uuid import UUID

from pylogbroker.wire.schema import Field, FieldType, fields_of

LONG = "a name of more than 127 bytes " * 5
BITS = {FieldType.INT8: 8, FieldType.INT16: 16, FieldType.INT32: 32, FieldType.INT64: 64}
FLOATS = (0.0, -0.5, 1e300, 5e-324, math.inf, -math.inf)
NAMES = ("", "topic", "名前", LONG)
TEXTS = ("", "an error", "名前", LONG)
BYTES = bytes(range(256))
ELEMENTS_MAX = 2
ERROR_CODE_MAX = 105
"""Codes up to this one have a name in every peer."""
MILLISECONDS_MAX = 1 << 30
"""Longest time that every peer can tell as a duration."""
SECONDS_MAX = 1 << 31
"""Last time that every peer can tell as a date."""


def messages(cls: type, version: int, count: int, chance: Random) -> Iterator[Any]:
    """Yield messages that the version can carry; the first is the one with the least in it."""
    yield _struct(cls, version, None)
    for _ in range(count - 1):
        yield _struct(cls, version, chance)


@cache
def _fields(cls: type, version: int) -> tuple[Field, ...]:
    return tuple(field for field in fields_of(cls) if field.is_in(version) and not field.is_own)


def _struct(cls: type, version: int, chance: Random | None) -> Any:
    """Return a struct: without a source of choices, the one with the least in it."""
    return cls(**{field.name: _value(field, version, chance) for field in _fields(cls, version)})


def _value(field: Field, version: int, chance: Random | None) -> Any:
    if field.is_nullable(version) and (chance is None or chance.random() < 0.25):
        return None
    if field.is_array:
        return [_one(field, version, chance) for _ in range(0 if chance is None else chance.randint(0, ELEMENTS_MAX))]
    return _one(field, version, chance)


def _one(field: Field, version: int, chance: Random | None) -> Any:
    if isinstance(field.kind, type):
        return _struct(field.kind, version, chance)
    if field.name.endswith("error_code"):
        return 0 if chance is None else chance.randint(-1, ERROR_CODE_MAX)
    if field.name == "log_append_time_ms" and (chance is None or chance.random() < 0.5):
        return -1
    # a peer has no word for a transaction without a start
    if field.name.endswith("_timestamp_ms") or field.name in ("transaction_start_time_ms", "log_append_time_ms"):
        return 0 if chance is None else 1000 * chance.randint(0, SECONDS_MAX)
    if field.name.endswith("_ms"):
        return 0 if chance is None else chance.choice((-1, 0, MILLISECONDS_MAX, chance.randint(-1, MILLISECONDS_MAX)))
    return _LEAST[field.kind] if chance is None else _primitive(field.kind, chance)


_LEAST = {
    **dict.fromkeys(BITS, 0),
    FieldType.BOOLEAN: False,
    FieldType.UINT16: 0,
    FieldType.FLOAT64: 0.0,
    FieldType.UUID: UUID(int=0),
    FieldType.STRING: "",
    FieldType.ERROR_TEXT: "",
    FieldType.BYTES: b"",
    FieldType.RECORDS: b"",
}


def _primitive(kind: FieldType, chance: Random) -> Any:
    if kind in BITS:
        end = 1 << BITS[kind] - 1
        return chance.choice((-end, -1, 0, 1, end - 1, chance.randrange(-end, end)))
    match kind:
        case FieldType.BOOLEAN:
            return chance.random() < 0.5
        case FieldType.UINT16:
            return chance.choice((0, 65535, chance.randrange(65536)))
        case FieldType.FLOAT64:
            return chance.choice((*FLOATS, chance.uniform(-1e6, 1e6)))
        case FieldType.UUID:
            return UUID(int=chance.getrandbits(128))
        case FieldType.STRING:
            return chance.choice((*NAMES, _text(chance)))
        case FieldType.ERROR_TEXT:
            return chance.choice((*TEXTS, _text(chance)))
        case FieldType.BYTES:
            return chance.choice((b"", BYTES, chance.randbytes(chance.randint(1, 4))))
        case FieldType.RECORDS:
            return chance.choice((b"", BYTES * 2, chance.randbytes(chance.randint(1, 4))))
    raise AssertionError(f"no message has a {kind}")


def _text(chance: Random) -> str:
    """Return up to four characters of any kind; halves of surrogate pairs are none."""
    numbers = (chance.randint(0, chance.choice((0x7F, 0x7FF, 0xFFFF, sys.maxunicode))) for _ in range(4))
    return "".join(chr(number) for number in numbers if not 0xD800 <= number < 0xE000)
