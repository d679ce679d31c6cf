"""The compiler of encoders: a declaration and a version in, a closure `(message, pieces)` out.

The closure appends the bytes of the encoded message to `Pieces`.  A struct is written in steps, each a
getter of one or several fields and a writer of what it gets::

    index  error_code  base_offset | record_errors | error_message      ->   one pack of ">ihq", two writers
    i4     i2          i8          | array         | nullable string

Records that are a region of a file, or large, become chunks of their own and are never copied.  What is the
same each time (an empty section of tagged fields, a short string's bytes with their length) is not made
again.
"""

import struct
from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter
from typing import Any, Final, TypeAlias

import attrs

from pylogbroker.wire.errors import EncodingError
from pylogbroker.wire.primitives import REMEMBERED, REMEMBERED_SIZE, compact_size, uvarint
from pylogbroker.wire.schema import Chunk, Field, Kind, fields_of


class Pieces(list[bytes]):
    """The pieces since the last chunk that stands alone, and the chunks up to there."""

    __slots__ = ("chunks",)

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []

    def cut(self, chunk: Chunk) -> None:
        """Let a chunk that stands alone follow the pieces."""
        self.chunks += (b"".join(self), chunk)
        self.clear()

    def finish(self) -> list[Chunk]:
        """All that was written, as chunks, of which the first one is bytes."""
        if self or not self.chunks:
            self.chunks.append(b"".join(self))
        return self.chunks


Write: TypeAlias = Callable[[Any, Pieces], None]
Step: TypeAlias = tuple[Callable[[Any], Any], Write]
Lead: TypeAlias = Callable[[int], bytes]

OWN_CHUNK: Final = 4096
"""Records of at least this size are not copied into the bytes around them."""

_EMPTY: Final = b"\0"
_ABSENT: Final = b"\xff"
_PRESENT: Final = b"\1"
_BUFFERS: Final = frozenset((bytes, bytearray, memoryview))
_known_strings: Final[dict[Lead, dict[str, bytes]]] = {}
_pack_int16 = struct.Struct(">h").pack
_pack_int32 = struct.Struct(">i").pack


@cache
def struct_encoder(cls: type, version: int, flexible: bool) -> Write:
    """The encoder of one struct."""
    fields = fields_of(cls)
    present = [field for field in fields if field.is_in(version)]
    steps = _absence(cls, [field for field in fields if not (field in present or field.ignorable)], version)
    steps += _runs([field for field in present if field.tag is None], version, flexible)
    if flexible:
        steps += _tags([field for field in present if field.tag is not None], version)
    if len(steps) == 1:
        return _single(*steps[0])
    return _several(tuple(steps))


def _single(get: Callable[[Any], Any], write: Write) -> Write:
    return lambda message, pieces: write(get(message), pieces)


def _several(steps: tuple[Step, ...]) -> Write:
    def encode(message: Any, pieces: Pieces) -> None:
        for get, write in steps:
            write(get(message), pieces)

    return encode


def _absence(cls: type, fields: list[Field], version: int) -> list[Step]:
    """The step that refuses values which this version would lose."""
    names = [field.name for field in fields]
    defaults = tuple(field.default for field in fields)

    def refuse(values: tuple[Any, ...], pieces: Pieces) -> None:
        if values != defaults:
            lost = [field.name for field, value in zip(fields, values, strict=True) if value != field.default]
            raise EncodingError(f"version {version} of {cls.__name__} has no {', '.join(lost)}")

    return [(_getter(names), refuse)] if fields else []


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What gets these attributes as a tuple, be they one or several."""
    if len(names) == 1:
        get = attrgetter(names[0])
        return lambda message: (get(message),)
    return attrgetter(*names)


def _runs(fields: Iterable[Field], version: int, flexible: bool) -> list[Step]:
    """The steps of plain fields, neighbouring numbers in one."""
    steps: list[Step] = []
    run: list[Field] = []
    for field in fields:
        if field.code:
            run.append(field)
            continue
        steps += _numbers(run)
        steps.append((attrgetter(field.name), _writer(field, version, flexible)))
        run = []
    return steps + _numbers(run)


def _numbers(run: list[Field]) -> list[Step]:
    if not run:
        return []
    pack = struct.Struct(">" + "".join(field.code for field in run)).pack
    if len(run) == 1:
        return [(attrgetter(run[0].name), lambda value, pieces: pieces.append(pack(value)))]
    return [(attrgetter(*(field.name for field in run)), lambda values, pieces: pieces.append(pack(*values)))]


def _tags(fields: list[Field], version: int) -> list[Step]:
    """The step of the tagged fields: of those that are not at their default, by rising number."""
    if not fields:
        return [(lambda message: None, lambda _, pieces: pieces.append(_EMPTY))]
    fields = sorted(fields, key=lambda field: field.tag or 0)
    defaults = tuple(field.default for field in fields)
    writers = {field.name: _writer(field, version, True) for field in fields}

    def write(values: tuple[Any, ...], pieces: Pieces) -> None:
        if values == defaults:
            pieces.append(_EMPTY)
            return
        given = [pair for pair in zip(fields, values, strict=True) if pair[1] != pair[0].default]
        pieces.append(uvarint(len(given)))
        for field, value in given:
            inner = Pieces()
            writers[field.name](value, inner)
            body = b"".join(inner)
            pieces.append(uvarint(field.tag or 0) + uvarint(len(body)) + body)

    return [(_getter([field.name for field in fields]), write)]


def _writer(field: Field, version: int, flexible: bool) -> Write:
    """The writer of one field's value."""
    nullable = field.is_nullable(version)
    if field.is_array:
        element = _writer(attrs.evolve(field, is_array=False, nullable_since=float("inf")), version, flexible)
        return _array(element, *_lead(_pack_int32, flexible, nullable))
    if isinstance(field.kind, type):
        return _nested(struct_encoder(field.kind, version, flexible), nullable)
    if field.kind is Kind.STRING:
        return _string(*_lead(_pack_int16, flexible, nullable))
    if field.kind is Kind.BYTES:
        return _bytes(*_lead(_pack_int32, flexible, nullable))
    if field.kind is Kind.RECORDS:
        return _records(*_lead(_pack_int32, flexible, nullable))
    if field.kind is Kind.UUID:
        return lambda value, pieces: pieces.append(value.bytes)
    pack = struct.Struct(">" + field.code).pack
    return lambda value, pieces: pieces.append(pack(value))


def _lead(classic: Lead, flexible: bool, nullable: bool) -> tuple[Lead, bytes | None]:
    """What encodes a length, and null as it is encoded where it may be."""
    lead = compact_size if flexible else classic
    return lead, lead(-1) if nullable else None


def _nested(encode: Write, nullable: bool) -> Write:
    if not nullable:
        return encode

    def write(value: Any, pieces: Pieces) -> None:
        if value is None:
            pieces.append(_ABSENT)
        else:
            pieces.append(_PRESENT)
            encode(value, pieces)

    return write


def _array(element: Write, lead: Lead, null: bytes | None) -> Write:
    empty = lead(0)

    def write(values: list[Any] | None, pieces: Pieces) -> None:
        if values:
            pieces.append(lead(len(values)))
            for value in values:
                element(value, pieces)
        elif values is None:
            pieces.append(_allowed(null))
        else:
            pieces.append(empty)

    return write


def _string(lead: Lead, null: bytes | None) -> Write:
    known = _known_strings.setdefault(lead, {})

    def encoded(value: str | None) -> bytes:
        if value is None:
            return _allowed(null)
        raw = value.encode()
        whole = lead(len(raw)) + raw
        if len(raw) <= REMEMBERED_SIZE:
            if len(known) >= REMEMBERED:
                known.clear()
            known[value] = whole
        return whole

    return lambda value, pieces: pieces.append(known.get(value) or encoded(value))


def _bytes(lead: Lead, null: bytes | None) -> Write:
    def write(value: bytes | None, pieces: Pieces) -> None:
        if value is None:
            pieces.append(_allowed(null))
        else:
            pieces.append(lead(len(value)))
            pieces.append(bytes(value))

    return write


def _records(lead: Lead, null: bytes | None) -> Write:
    def write(value: Any, pieces: Pieces) -> None:
        if value is None:
            pieces.append(_allowed(null))
            return
        size = len(value)
        pieces.append(lead(size))
        if type(value) not in _BUFFERS:
            pieces.cut(value)
        elif size < OWN_CHUNK:
            pieces.append(bytes(value))
        else:
            pieces.cut(memoryview(value))

    return write


def _allowed(null: bytes | None) -> bytes:
    if null is None:
        raise EncodingError("a null where the field must have a value")
    return null
