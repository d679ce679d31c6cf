"""Encoder compiler: generates the source of one straight-line function from a message's declaration and a version.

Regions of files and large records become own chunks and are not copied. One `struct.Struct` packs consecutive numbers,
including sizes that are not compact; `x` is an empty section of tagged fields. From ProduceResponse 9::

    for item_2 in value:
        if not (item_2.current_leader is default_LeaderIdAndEpoch):
            reject(item_2, 9, lost_1)
        ...
        append(pack_ihqqq(item_2.index, item_2.error_code, item_2.base_offset, ...))
    append(pack_ix(message.throttle_time_ms))

Tagged fields, and fields that the version lacks, are compared with their defaults: by identity first, then by value.
"""

import struct
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import attrs

from pylogbroker.wire.errors import EncodingError
from pylogbroker.wire.primitives import STRING_BYTES_MAX, LookupCache, compact_size, uvarint
from pylogbroker.wire.schema import Chunk, Field, FieldType, fields_of
from pylogbroker.wire.source import SourceText, is_plain

Encode: TypeAlias = Callable[[Any], list[Chunk]]
FrameIfShort: TypeAlias = Callable[[int, Any, int], list[Chunk] | None]
EncodeInSteps: TypeAlias = Callable[[Any], Coroutine[Any, Any, list[Chunk]]]
Tagged: TypeAlias = tuple[tuple[int, str, Any, Encode], ...]

OWN_CHUNK_BYTES_MIN: Final = 4096
"""Smaller records are copied."""

_ERROR_TEXT_MAX: Final = 1000
"""Characters of an error's text; the rest is cut."""

_ERROR_TEXTS_MAX: Final = 1 << 20
"""Characters of a message's error texts; later ones are left empty: the codes are enough."""

_EMPTY: Final = b"\0"
_ABSENT: Final = b"\xff"
_ABSENT_IN_TAG: Final = b"\0"
_PRESENT: Final = b"\1"


def encoder(cls: type, version: int, flexible: bool) -> Encode:
    made: Encode = _EncoderCompiler(cls, version, flexible).message(cls)
    return made


def bounded_frame_encoder(cls: type, version: int, flexible: bool, header: struct.Struct) -> FrameIfShort:
    """Compile an encoder of frames that begin with their size and a correlation id, as `header` packs them.

    It returns None for a message with more structs in arrays than its last argument.
    """
    made: FrameIfShort = _EncoderCompiler(cls, version, flexible, bounded_frame=header).message(cls)
    return made


def stepwise_encoder(cls: type, version: int, flexible: bool) -> EncodeInSteps:
    """Compile an encoder that gives way after every `STEP` structs in arrays."""
    made: EncodeInSteps = _EncoderCompiler(cls, version, flexible, in_steps=True).message(cls)
    return made


class _EncoderCompiler:
    def __init__(
        self,
        cls: type,
        version: int,
        flexible: bool,
        in_steps: bool = False,
        bounded_frame: struct.Struct | None = None,
    ) -> None:
        self._in_steps = in_steps
        self._bounded_frame = bounded_frame
        self._version = version
        self._flexible = flexible
        self._source = SourceText(_NAMES)
        self._line = self._source.line
        self._codes = ""
        self._values: list[str] = []
        self._depth = 0
        self._explains = _contains(cls, FieldType.ERROR_TEXT)

    def message(self, cls: type) -> Any:
        name = f"{cls.__name__} v{self._version}"
        header = self._bounded_frame
        signature = "encode(correlation_id, message, left)" if header else "encode(message)"
        with self._source.function(signature, self._in_steps):
            with self._source.block("try"), self._frame(cls, header) if header else self._chunks():
                self._source.begin_steps(self._in_steps)
                self._struct(cls, "message")
            with self._source.block("except UNENCODABLE as error"):
                self._line(f'raise EncodingError(f"{name} cannot be encoded: {{error}}") from error')
        variant = " in steps" * self._in_steps + " if short" * bool(header)
        return self._source.compile("encode", f"encode {name}{variant}")

    @contextmanager
    def _chunks(self) -> Iterator[None]:
        with self._pieces():
            yield
        with self._source.block("if pieces or not chunks"):
            self._line('chunks.append(b"".join(pieces))')
        self._line("return chunks")

    @contextmanager
    def _frame(self, cls: type, header: struct.Struct) -> Iterator[None]:
        """Put the header before the first chunk; as a rule it is the only one."""
        pack_header = self._source.name(header.pack, "pack_header")
        with self._pieces():
            yield
        if _contains(cls, FieldType.RECORDS):
            with self._source.block("if chunks"):
                with self._source.block("if pieces"):
                    self._line('chunks.append(b"".join(pieces))')
                size = f"{header.size - 4} + sum(map(len, chunks))"
                self._line(f"chunks[0] = {pack_header}({size}, correlation_id) + chunks[0]")
                self._line("return chunks")
        self._line('body = b"".join(pieces)')
        self._line(f"return [{pack_header}({header.size - 4} + len(body), correlation_id) + body]")

    @contextmanager
    def _pieces(self) -> Iterator[None]:
        self._line("chunks = []")
        self._line("pieces = []")
        self._line("append = pieces.append")
        if self._explains:
            self._line(f"texts_left = {_ERROR_TEXTS_MAX}")
        yield
        self._pack()

    # -- structs -------------------------------------------------------------------------------------------

    def _struct(self, cls: type, value: str) -> None:
        fields = fields_of(cls)
        present = [field for field in fields if field.is_in(self._version)]
        self._absent([field for field in fields if not (field in present or field.ignorable)], value)
        for field in present:
            if field.tag is None:
                self._field(field, f"{value}.{field.name}")
        if self._flexible:
            self._tagged([field for field in present if field.tag is not None], value)

    def _absent(self, fields: list[Field], value: str) -> None:
        if fields:
            lost = self._source.name(fields, "lost")
            with self._source.block(f"if not ({self._at_default(fields, value)})"):
                self._line(f"reject({value}, {self._version}, {lost})")

    def _tagged(self, fields: list[Field], value: str) -> None:
        if not fields:
            self._fixed("x")
            return
        self._pack()
        rows = (
            f"({field.tag}, {field.name!r}, {self._source.literal(field.default)}, {self._encoder(field)}),"
            for field in sorted(fields, key=lambda field: field.tag or 0)
        )
        table = self._source.constant(f"({' '.join(rows)})")
        section = f"tagged_section({value}, {table})"
        self._line(f"append({_EMPTY!r} if {self._at_default(fields, value)} else {section})")

    def _encoder(self, field: Field) -> str:
        name = f"encode_{field.name}"
        variant = self._in_steps, self._bounded_frame
        self._in_steps, self._bounded_frame = False, None
        with self._source.function(f"{name}(tagged)"), self._chunks():
            self._field(field, "tagged")
        self._in_steps, self._bounded_frame = variant
        return name

    def _at_default(self, fields: list[Field], value: str) -> str:
        return " and ".join(
            f"{value}.{field.name} {_sameness(field.default)} {self._source.literal(field.default)}" for field in fields
        )

    # -- fields --------------------------------------------------------------------------------------------

    def _fixed(self, code: str, *value: str) -> None:
        self._codes += code
        self._values += value

    def _pack(self) -> None:
        codes, values = self._codes, self._values
        self._codes, self._values = "", []
        if values:
            self._line(f"append({self._source.packing('pack', codes)}({', '.join(values)}))")
        elif codes:
            self._line(f"append({bytes(len(codes))!r})")

    def _append(self, piece: str) -> None:
        self._pack()
        self._line(f"append({piece})")

    def _field(self, field: Field, value: str) -> None:
        if field.code:
            self._fixed(field.code, value)
        elif field.is_array:
            with self._given(field, value):
                self._array(field)
        elif isinstance(field.kind, type):
            self._nested(field, field.kind, value)
        elif field.kind is FieldType.UUID:
            self._fixed("16s", f"{value}.bytes")
        elif field.kind is FieldType.STRING:
            self._string(field, value)
        elif field.kind is FieldType.ERROR_TEXT:
            self._error_text(field, value)
        else:
            with self._given(field, value):
                self._lead("len(value)")
                self._records() if field.kind is FieldType.RECORDS else self._append("bytes(value)")

    def _nested(self, field: Field, cls: type, value: str) -> None:
        if not field.is_nullable(self._version):
            self._struct(cls, value)
            return
        self._pack()
        with self._source.block(f"if {value} is None"):
            self._append(repr(_ABSENT if field.tag is None else _ABSENT_IN_TAG))
        with self._source.block("else"):
            self._append(repr(_PRESENT))
            self._struct(cls, value)
            self._pack()

    def _string(self, field: Field, value: str) -> None:
        strings, null = ("compact_string", b"\0") if self._flexible else ("string", b"\xff\xff")
        nullable = f"{null!r} if {value} is None else " if field.is_nullable(self._version) else ""
        self._append(f"{nullable}{strings}({value})")

    def _error_text(self, field: Field, value: str) -> None:
        self._line(f"explanation = {value}")
        with self._source.block("if explanation"):
            self._line("explanation = shortened(explanation, texts_left)")
            self._line("texts_left -= len(explanation)")
        self._string(field, "explanation")

    @contextmanager
    def _given(self, field: Field, value: str) -> Iterator[None]:
        self._line(f"value = {value}")
        if not field.is_nullable(self._version):
            with self._source.block("if value is None"):
                self._line(f'raise EncodingError("a null where {field.name} must have a value")')
            yield
            return
        self._pack()
        with self._source.block("if value is None"):
            self._append(repr(b"\0" if self._flexible else b"\xff\xff\xff\xff"))
        with self._source.block("else"):
            yield
            self._pack()

    def _lead(self, size: str) -> None:
        if self._flexible:
            self._append(f"uvarint({size} + 1)")
        else:
            self._fixed("i", size)
            self._pack()

    def _array(self, field: Field) -> None:
        self._line("size = len(value)")
        self._lead("size")
        if isinstance(field.kind, FieldType) and field.kind.code:
            self._append(f'pack(f">{{size}}{field.kind.code}", *value)')
            return
        if self._bounded_frame is not None and isinstance(field.kind, type):
            self._line("left -= size")
            with self._source.block("if left < 0"):
                self._line("return None")
        self._depth += 1
        item = f"item_{self._depth}"
        with self._source.block(f"for {item} in value"):
            self._field(attrs.evolve(field, is_array=False, nullable_since=float("inf")), item)
            self._pack()
            if self._in_steps:
                self._source.step('chunks.append(b"".join(pieces))', "pieces.clear()")
        self._depth -= 1

    def _records(self) -> None:
        with self._source.block("if type(value) not in BUFFERS"):
            self._own_chunk("value")
        with self._source.block("elif len(value) < OWN_CHUNK_BYTES_MIN"):
            self._append("bytes(value)")
        with self._source.block("else"):
            self._own_chunk("memoryview(value)")

    def _own_chunk(self, value: str) -> None:
        self._line(f'chunks += b"".join(pieces), {value}')
        self._line("pieces.clear()")


def _sameness(default: Any) -> str:
    return "==" if is_plain(default) and default is not None else "is"


def _contains(cls: type, kind: FieldType) -> bool:
    return any(
        field.kind is kind or (isinstance(field.kind, type) and _contains(field.kind, kind)) for field in fields_of(cls)
    )


# -- called by the functions -------------------------------------------------------------------------------


def _shortened(explanation: str, texts_left: int) -> str:
    most = min(_ERROR_TEXT_MAX, texts_left)
    return explanation if len(explanation) <= most else explanation[: max(most - 3, 0)] + "..." * (most > 3)


def _reject(message: Any, version: int, fields: Iterable[Field]) -> None:
    lost = [field.name for field in fields if getattr(message, field.name) != field.default]
    if lost:
        raise EncodingError(f"version {version} of {type(message).__name__} has no {', '.join(lost)}")


def _tagged_section(message: Any, tagged: Tagged) -> bytes:
    section = []
    for tag, name, default, encode in tagged:
        value = getattr(message, name)
        if value != default:
            chunks: list[Any] = encode(value)
            body = b"".join(chunks)
            section.append(uvarint(tag) + uvarint(len(body)) + body)
    return uvarint(len(section)) + b"".join(section)


def _encoded(value: str) -> bytes:
    if value is None:
        raise EncodingError("a null where a string must be")
    return value.encode()


def _string(value: str) -> bytes:
    raw = _encoded(value)
    return struct.pack(">h", len(raw)) + raw


def _compact_string(value: str) -> bytes:
    raw = _encoded(value)
    if len(raw) > STRING_BYTES_MAX:
        raise EncodingError(f"a string of {len(raw)} bytes; at most {STRING_BYTES_MAX} can be carried")
    return compact_size(len(raw)) + raw


_known_strings: Final = {"string": LookupCache(_string), "compact_string": LookupCache(_compact_string)}
_NAMES: Final = {
    "BUFFERS": frozenset((bytes, bytearray, memoryview)),
    "EncodingError": EncodingError,
    "OWN_CHUNK_BYTES_MIN": OWN_CHUNK_BYTES_MIN,
    "UNENCODABLE": (struct.error, AttributeError, TypeError, UnicodeEncodeError),
    "pack": struct.pack,
    "reject": _reject,
    "shortened": _shortened,
    "tagged_section": _tagged_section,
    "uvarint": uvarint,
    **{name: cache.__getitem__ for name, cache in _known_strings.items()},
}
