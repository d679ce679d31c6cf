"""Decoder compiler: generates the source of one straight-line function from a message's declaration and a version.

One `struct.Struct` reads consecutive fields of fixed size, and the size prefix (if compact, its first byte) of the next
field. Nested structs and arrays are inlined. From ProduceRequest 9::

    def decode(buffer, position):
        ...
        message.acks, message.timeout_ms, size = unpack_from_hiB(buffer, position)
        position += 7
        if size > 0x7F:
            size, position = rest_of_uvarint(buffer, position, size)
        ...
        left -= size - 1
        ...
        message.topic_data = list_1 = []
        for _ in range(size - 1):
            item_1 = new(TopicProduceData)
            ...
            item_1.name = text(buffer[position:end].tobytes())
            position = end
            ...
            list_1.append(item_1)
        ...

A slice beyond the end of the buffer is short, but the position after it is not: the next field fails, or the check of
the final position. A claimed array size allocates nothing.

`left` is the number of array elements and tagged fields that may still come. They take a hundred times their bytes in
memory, which a limit on the frame's bytes would not bound.
"""

import struct
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import attrs

from pylogbroker.wire.errors import WireError
from pylogbroker.wire.primitives import STRING_BYTES_MAX, identifier, read_uvarint, rest_of_uvarint, text
from pylogbroker.wire.schema import TEXTS, Field, FieldType, WireMessage, fields_of, is_frozen
from pylogbroker.wire.source import SourceText

Decode: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]
DecodeInSteps: TypeAlias = Callable[[memoryview, int], Coroutine[Any, Any, tuple[Any, int]]]
_DecodeField: TypeAlias = Callable[[memoryview, int, int], tuple[Any, int, int]]
Tagged: TypeAlias = dict[int, tuple[str, _DecodeField]]


def decoder(cls: type[WireMessage], version: int, flexible: bool) -> Decode:
    made: Decode = _DecoderCompiler(cls, version, flexible).message(cls)
    return made


def stepwise_decoder(cls: type[WireMessage], version: int, flexible: bool) -> DecodeInSteps:
    """Compile a decoder that gives way after every `STEP` structs in arrays."""
    made: DecodeInSteps = _DecoderCompiler(cls, version, flexible, in_steps=True).message(cls)
    return made


class _DecoderCompiler:
    def __init__(self, cls: type[WireMessage], version: int, flexible: bool, in_steps: bool = False) -> None:
        self._in_steps = in_steps
        self._elements_max = cls.elements_max
        self._excess = f"{cls.__name__} v{version} has more than {cls.elements_max} elements: send several requests"
        self._version = version
        self._flexible = flexible
        self._source = SourceText(_NAMES)
        self._line = self._source.line
        self._codes = ""
        self._targets: list[str] = []
        self._raw: list[str] = []  # identifiers to make of the bytes that the next `unpack` reads
        self._depth = 0

    def message(self, cls: type[WireMessage]) -> Any:
        name = f"{cls.__name__} v{self._version}"
        cut_off = f'raise WireError("{name} is cut off") from None'
        with self._source.function("decode(buffer, position)", self._in_steps):
            with self._source.block("try"):
                self._line(f"left = {self._elements_max}")
                self._source.begin_steps(self._in_steps)
                self._struct(cls, "message")
            with self._source.block("except CUT_OFF"):
                self._line(cut_off)
            with self._source.block("if position > len(buffer)"):
                self._line(cut_off)
            self._line("return message, position")
        return self._source.compile("decode", f"decode {name}{' in steps' * self._in_steps}")

    # -- structs -------------------------------------------------------------------------------------------

    def _struct(self, cls: type, target: str) -> None:
        """Read a struct. A frozen one is created from its fields, others are created first."""
        new = self._source.name(cls, cls.__name__)
        fields = fields_of(cls)
        plain = [field for field in fields if field.tag is None and field.is_in(self._version)]
        if not is_frozen(cls):
            self._line(f"{target} = new({new})")
            for field in fields:
                if field not in plain:
                    self._line(f"{target}.{field.name} = {self._source.literal(field.default)}")
            self._plain({field: f"{target}.{field.name}" for field in plain})
        else:
            given = {field: f"{target}_{field.name}".replace(".", "_") for field in plain}
            self._plain(given)
            arguments = (f"{field.name}={value}" for field, value in given.items())
            self._line(f"{target} = {new}({', '.join(arguments)})")
        if self._flexible:
            self._tagged([field for field in fields if field.tag is not None], target)

    def _plain(self, targets: dict[Field, str]) -> None:
        for field, target in targets.items():
            self._field(field, target)
        if self._flexible:
            self._fixed("B", "tags")
        self._unpack()

    def _tagged(self, fields: Iterable[Field], target: str) -> None:
        fields = [field for field in fields if field.is_in(self._version)]
        decoders = ", ".join(f"{field.tag}: ({field.name!r}, {self._function(field)})" for field in fields)
        table = self._source.constant(f"{{{decoders}}}") if fields else "{}"
        with self._source.block("if tags"):
            self._line(f"position, left = read_tagged(buffer, position, tags, {target}, {table}, left)")

    def _function(self, field: Field) -> str:
        name = f"decode_{field.name}"
        in_steps, self._in_steps = self._in_steps, False
        with self._source.function(f"{name}(buffer, position, left)"):
            self._field(field, "value")
            self._unpack()
            self._line("return value, position, left")
        self._in_steps = in_steps
        return name

    # -- fields --------------------------------------------------------------------------------------------

    def _fixed(self, code: str, target: str) -> None:
        self._codes += code
        self._targets.append(target)

    def _unpack(self) -> None:
        codes, targets = self._codes, self._targets
        self._codes, self._targets = "", []
        if codes == "B":
            self._line(f"{targets[0]} = buffer[position]")
        elif codes:
            unpack = self._source.packing("unpack_from", codes)
            self._line(f"{', '.join(targets)}{',' * (len(targets) == 1)} = {unpack}(buffer, position)")
        if codes:
            self._line(f"position += {struct.calcsize('>' + codes)}")
        raw, self._raw = self._raw, []
        for number, target in enumerate(raw):
            self._line(f"{target} = identifier(raw_{number})")

    def _field(self, field: Field, target: str) -> None:
        if field.code:
            self._fixed(field.code, target)
        elif field.is_array:
            with self._sized(field, "i", target):
                self._array(field, target)
        elif isinstance(field.kind, type):
            self._nested(field, field.kind, target)
        elif field.kind is FieldType.UUID:
            self._fixed("16s", f"raw_{len(self._raw)}")
            self._raw.append(target)
        else:
            with self._sized(field, "h" if field.kind in TEXTS else "i", target):
                self._line(f"end = position + size{' - 1' if self._flexible else ''}")
                self._line(f"{target} = {_STRETCHES[field.kind]}")
                self._line("position = end")

    def _nested(self, field: Field, cls: type, target: str) -> None:
        if not field.is_nullable(self._version):
            self._struct(cls, target)
            return
        self._fixed("b", "present")
        self._unpack()
        with self._source.block("if present < 0" if field.tag is None else "if present <= 0"):
            self._line(f"{target} = None")
        with self._source.block("else"):
            self._struct(cls, target)

    @contextmanager
    def _sized(self, field: Field, code: str, target: str) -> Iterator[None]:
        """Read a size; then do what the context generates, unless null."""
        self._fixed("B" if self._flexible else code, "size")
        self._unpack()
        if self._flexible:
            with self._source.block("if size > 0x7F"):
                self._line("size, position = rest_of_uvarint(buffer, position, size)")
                if not field.is_array and field.kind in TEXTS:
                    with self._source.block(f"if size > {STRING_BYTES_MAX + 1}"):
                        self._line(f'raise WireError("{field.name} is longer than {STRING_BYTES_MAX} bytes")')
        if not field.is_nullable(self._version):
            self._reject("not size" if self._flexible else "size < 0", field)
            yield
            return
        with self._source.block("if not size" if self._flexible else "if size == -1"):
            self._line(f"{target} = None")
        with self._source.block("else"):
            if not self._flexible:
                self._reject("size < 0", field)
            yield

    def _reject(self, condition: str, field: Field) -> None:
        with self._source.block(f"if {condition}"):
            self._line(f'raise WireError("{field.name} is null or has an invalid size")')

    def _array(self, field: Field, target: str) -> None:
        count = "size - 1" if self._flexible else "size"
        self._line(f"left -= {count}")
        with self._source.block("if left < 0"):
            self._line(f"raise WireError({self._excess!r})")
        if isinstance(field.kind, FieldType) and field.kind.code:
            self._line(f'{target}, position = read_numbers(buffer, position, {count}, "{field.kind.code}")')
            return
        self._depth += 1
        item, items = f"item_{self._depth}", f"list_{self._depth}"
        self._line(f"{target} = {items} = []")
        with self._source.block(f"for _ in range({count})"):
            self._field(attrs.evolve(field, is_array=False, nullable_since=float("inf")), item)
            self._unpack()
            self._line(f"{items}.append({item})")
            if self._in_steps:
                self._source.step()
        self._depth -= 1


# -- called by the functions -------------------------------------------------------------------------------


def read_tagged(
    buffer: memoryview, position: int, count: int, message: Any, tagged: Tagged, left: int
) -> tuple[int, int]:
    """Set a message's known tagged fields, skip others; one byte of their `count` has been read.

    Return the next position, and how many elements and tagged fields may still come.
    """
    if count > 0x7F:
        count, position = rest_of_uvarint(buffer, position, count)
    left -= count
    if left < 0:
        raise WireError(f"{count} tagged fields are too many")
    seen: set[int] = set()
    for _ in range(count):
        tag, size = buffer[position], buffer[position + 1]
        if tag > 0x7F or size > 0x7F:
            tag, position = read_uvarint(buffer, position)
            size, position = read_uvarint(buffer, position)
        else:  # as a rule
            position += 2
        end = position + size
        if end > len(buffer) or tag in seen:
            raise WireError(f"tagged field {tag} is cut off or comes twice")
        seen.add(tag)
        if tag in tagged:
            name, decode = tagged[tag]
            value, position, left = decode(buffer, position, left)
            if position != end:
                raise WireError(f"tagged field {tag} ({name}) is not of the size it claims")
            setattr(message, name, value)
        position = end
    return position, left


def _read_numbers(buffer: memoryview, position: int, count: int, code: str) -> tuple[list[Any], int]:
    end = position + count * struct.calcsize(">" + code)
    if end > len(buffer):
        raise WireError(f"an array of {count} numbers in {len(buffer) - position} bytes")
    return list(struct.unpack_from(f">{count}{code}", buffer, position)), end


_STRETCHES: Final = {
    FieldType.STRING: "text(buffer[position:end].tobytes())",
    FieldType.ERROR_TEXT: "text(buffer[position:end].tobytes())",
    FieldType.BYTES: "buffer[position:end].tobytes()",
    FieldType.RECORDS: "buffer[position:end]",
}
_NAMES: Final = {
    "CUT_OFF": (struct.error, IndexError),
    "WireError": WireError,
    "identifier": identifier,
    "new": object.__new__,
    "read_numbers": _read_numbers,
    "read_tagged": read_tagged,
    "rest_of_uvarint": rest_of_uvarint,
    "text": text,
}
