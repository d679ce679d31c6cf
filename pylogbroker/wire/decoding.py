"""The compiler of decoders: a declaration and a version in, a closure out.

The closure is `(buffer, position) -> (value, position)`.  A struct is read in *runs*.  A run is one
`struct.Struct` over consecutive fields of fixed size and the *lead* of the variable field that ends it: the
length of a string, the count of an array (of the compact kinds its first byte), the count of tagged
fields.  What finishes a variable field is a function `(buffer, position, lead) -> (value, position)`::

    acks  timeout_ms  count of topics | the topics ...      ->   Struct(">hii"), then an array's finish
    i2    i4          i4              |

Nothing is checked twice.  A slice beyond the end is short, but the position behind it is not: the next run
fails there, or at last `Codec.decode`, which wants every byte read and none missing.  So a claimed length
costs nothing, and an array never has more elements than there are bytes left.
"""

import struct
from collections.abc import Callable, Iterable
from functools import cache
from operator import itemgetter
from typing import Any, TypeAlias

import attrs

from pylogbroker.wire.errors import WireError
from pylogbroker.wire.primitives import identifier, read_uvarint, rest_of_uvarint, text
from pylogbroker.wire.schema import Field, Kind, fields_of

Decode: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]
Finish: TypeAlias = Callable[[memoryview, int, Any], tuple[Any, int]]
Unpack: TypeAlias = Callable[[memoryview, int], tuple[Any, ...]]
Step: TypeAlias = tuple[Unpack, int, Finish]
Tagged: TypeAlias = dict[int, tuple[str, Decode]]


@cache
def struct_decoder(cls: type, version: int, flexible: bool) -> Decode:
    """The decoder of one struct."""
    fields = [field for field in fields_of(cls) if field.is_in(version)]
    plain = [field for field in fields if field.tag is None]
    steps, tail = _runs(plain, version, flexible)
    build = _builder(cls, plain)
    if flexible:
        tagged = {
            field.tag: (field.name, _value_decoder(field, version, True))
            for field in fields
            if field.tag is not None
        }
        return _flexible_struct(build, steps, tail + "B", tagged)
    if not steps:
        return _fixed_struct(build, tail)
    return _classic_struct(build, steps, tail)


def _runs(fields: Iterable[Field], version: int, flexible: bool) -> tuple[tuple[Step, ...], str]:
    """The runs that end in a variable field, and the format of the last one, which does not."""
    steps: list[Step] = []
    run = ">"
    for field in fields:
        if field.code:
            run += field.code
            continue
        lead, finish = _variable(field, version, flexible)
        compiled = struct.Struct(run + lead)
        steps.append((compiled.unpack_from, compiled.size, finish))
        run = ">"
    return tuple(steps), run


def _builder(cls: type, present: list[Field]) -> Callable[..., Any]:
    """What makes the object of the values read, putting the defaults of absent fields in between."""
    fields = fields_of(cls)
    while fields and fields[-1] not in present:
        fields = fields[:-1]
    if list(fields) == present:
        return cls
    absent = tuple(field.argument for field in fields if field not in present)
    names = [field.name for field in present] + [field.name for field in fields if field not in present]
    arrange = itemgetter(*(names.index(field.name) for field in fields))

    def build(*values: Any) -> Any:
        return cls(*arrange(values + absent))

    return build


def _fixed_struct(build: Callable[..., Any], tail: str) -> Decode:
    compiled = struct.Struct(tail)
    unpack, size = compiled.unpack_from, compiled.size

    def decode(buffer: memoryview, position: int) -> tuple[Any, int]:
        return build(*unpack(buffer, position)), position + size

    return decode


def _classic_struct(build: Callable[..., Any], steps: tuple[Step, ...], tail: str) -> Decode:
    compiled = struct.Struct(tail)
    last_unpack, last_size = compiled.unpack_from, compiled.size

    def decode(buffer: memoryview, position: int) -> tuple[Any, int]:
        values: list[Any] = []
        for unpack, size, finish in steps:
            values += unpack(buffer, position)
            values[-1], position = finish(buffer, position + size, values[-1])
        if last_size:
            values += last_unpack(buffer, position)
        return build(*values), position + last_size

    return decode


def _flexible_struct(build: Callable[..., Any], steps: tuple[Step, ...], tail: str, tagged: Tagged) -> Decode:
    compiled = struct.Struct(tail)
    last_unpack, last_size = compiled.unpack_from, compiled.size

    def decode(buffer: memoryview, position: int) -> tuple[Any, int]:
        values: list[Any] = []
        for unpack, size, finish in steps:
            values += unpack(buffer, position)
            values[-1], position = finish(buffer, position + size, values[-1])
        values += last_unpack(buffer, position)
        position += last_size
        count = values.pop()
        if not count:
            return build(*values), position
        message = build(*values)
        return message, read_tagged(buffer, position, count, message, tagged)

    return decode


def read_tagged(buffer: memoryview, position: int, count: int, message: Any, tagged: Tagged) -> int:
    """Set a message's tagged fields, of whose count one byte is read; skip those that are not known."""
    if count > 0x7F:
        count, position = rest_of_uvarint(buffer, position, count)
    seen: set[int] = set()
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        end = position + size
        if end > len(buffer) or tag in seen:
            raise WireError(f"tagged field {tag} is cut off or comes twice")
        seen.add(tag)
        if tag in tagged:
            name, decode = tagged[tag]
            value, position = decode(buffer, position)
            if position != end:
                raise WireError(f"tagged field {tag} ({name}) is not of the size it claims")
            setattr(message, name, value)
        position = end
    return position


def _value_decoder(field: Field, version: int, flexible: bool) -> Decode:
    """The decoder of a value that stands alone: that of a tagged field, or an element of an array."""
    lead, finish = _variable(field, version, flexible)
    compiled = struct.Struct(">" + lead)
    unpack, size = compiled.unpack_from, compiled.size
    return lambda buffer, position: finish(buffer, position + size, *unpack(buffer, position))


def _variable(field: Field, version: int, flexible: bool) -> tuple[str, Finish]:
    """The lead of a field that is not a plain number, and what finishes it."""
    nullable = field.is_nullable(version)
    if field.is_array:
        return _sized(_array(field, version, flexible), "i", nullable, flexible)
    if isinstance(field.kind, type):
        return _nested(struct_decoder(field.kind, version, flexible), nullable)
    if field.code:
        return field.code, lambda buffer, position, number: (number, position)
    if field.kind is Kind.UUID:
        return field.kind.value, lambda buffer, position, raw: (identifier(raw), position)
    return _sized(_STRETCHES[field.kind], "h" if field.kind is Kind.STRING else "i", nullable, flexible)


def _sized(finish: Finish, lead: str, nullable: bool, flexible: bool) -> tuple[str, Finish]:
    """What finishes a field of known size, behind a lead that holds the size, or says null."""
    return ("B", _compact(finish, nullable)) if flexible else (lead, _classic(finish, nullable))


def _classic(finish: Finish, nullable: bool) -> Finish:
    def finish_classic(buffer: memoryview, position: int, size: int) -> tuple[Any, int]:
        if size < 0:
            if size != -1 or not nullable:
                raise WireError(f"a length of {size}")
            return None, position
        return finish(buffer, position, size)

    return finish_classic


def _compact(finish: Finish, nullable: bool) -> Finish:
    def finish_compact(buffer: memoryview, position: int, size: int) -> tuple[Any, int]:
        if size > 0x7F:
            size, position = rest_of_uvarint(buffer, position, size)
        if not size:
            if not nullable:
                raise WireError("a null where the field must have a value")
            return None, position
        return finish(buffer, position, size - 1)

    return finish_compact


def _nested(decode: Decode, nullable: bool) -> tuple[str, Finish]:
    """A struct in a struct; where it may be null, a byte says whether it is there."""
    if not nullable:
        return "0s", lambda buffer, position, _: decode(buffer, position)

    def finish(buffer: memoryview, position: int, present: int) -> tuple[Any, int]:
        return (None, position) if present < 0 else decode(buffer, position)

    return "b", finish


def _finish_string(buffer: memoryview, position: int, size: int) -> tuple[str, int]:
    end = position + size
    return text(buffer[position:end].tobytes()), end


def _finish_bytes(buffer: memoryview, position: int, size: int) -> tuple[bytes, int]:
    end = position + size
    return buffer[position:end].tobytes(), end


def _finish_records(buffer: memoryview, position: int, size: int) -> tuple[memoryview, int]:
    end = position + size
    return buffer[position:end], end


_STRETCHES = {Kind.STRING: _finish_string, Kind.BYTES: _finish_bytes, Kind.RECORDS: _finish_records}


def _array(field: Field, version: int, flexible: bool) -> Finish:
    """What finishes an array of so many elements."""
    if isinstance(field.kind, type):
        return _array_of(struct_decoder(field.kind, version, flexible))
    if field.kind.code:
        return _array_of_numbers(field.kind.code)
    element = attrs.evolve(field, is_array=False, nullable_since=float("inf"))
    return _array_of(_value_decoder(element, version, flexible))


def _array_of(decode: Decode) -> Finish:
    def finish(buffer: memoryview, position: int, count: int) -> tuple[list[Any], int]:
        if count == 1:
            element, position = decode(buffer, position)
            return [element], position
        if count > len(buffer) - position:
            raise WireError(f"an array of {count} elements in {len(buffer) - position} bytes")
        elements = []
        for _ in range(count):
            element, position = decode(buffer, position)
            elements.append(element)
        return elements, position

    return finish


def _array_of_numbers(code: str) -> Finish:
    width = struct.calcsize(">" + code)

    def finish(buffer: memoryview, position: int, count: int) -> tuple[list[Any], int]:
        end = position + count * width
        if end > len(buffer):
            raise WireError(f"an array of {count} numbers in {len(buffer) - position} bytes")
        return list(struct.unpack_from(f">{count}{code}", buffer, position)), end

    return finish
