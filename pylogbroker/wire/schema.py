"""Declaration of messages: typed classes whose annotations are the schema.

    @struct
    class ProduceRequest(Request):
        api_key, versions = APIS["produce"]  # a row of pylogbroker.wire.api_table; the response has the same line

        transactional_id: Annotated[String | None, Since(3)] = None
        acks: Int16 = 0
        timeout_ms: Int32 = 0
        topic_data: list[TopicProduceData] = fresh(list)

Annotations:

    `Int16`, `String`   type on the wire; for type checkers, the Python type
    `ErrorText`         string that explains an error; encoders shorten it
    `list[...]`         array
    `... | None`        nullable in all its versions, or from `NullableSince(n)` on; a struct begins with 1, or is -1
                        for None, or 0 in a tagged field
    `Since(n)`          absent below version n, where the field has its default
    `Until(n)`          absent above version n
    `Tag(n)`            tagged field, written only if it differs from its default; from `OWN_TAGS` on they are of
                        pylogbroker alone, and Kafka's brokers and clients skip them
    `Before("f")`       written before the field f, which is declared earlier
    `IGNORABLE`         dropped silently where a version lacks it; other fields must have their default

Fields have defaults and are in wire order, except with `Before`: it keeps the positions of older fields where a newer
one comes between them. Annotations are read as objects, so these modules must not use `from
__future__ import annotations`.
"""

from collections.abc import Callable
from enum import Enum
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)
from uuid import UUID

import attrs

T = TypeVar("T")
C = TypeVar("C", bound=type)


class FieldType(Enum):
    """Primitive types; the value of a fixed size is its code in `struct`."""

    BOOLEAN = "?"
    INT8 = "b"
    INT16 = "h"
    UINT16 = "H"
    INT32 = "i"
    UINT32 = "I"
    INT64 = "q"
    FLOAT64 = "d"
    UUID = "16s"
    STRING = "string"
    ERROR_TEXT = "error text"
    BYTES = "bytes"
    RECORDS = "records"

    @property
    def code(self) -> str:
        """Code of a number in `struct`, else empty."""
        return self.value if len(self.value) == 1 else ""


TEXTS: Final = frozenset((FieldType.STRING, FieldType.ERROR_TEXT))


@attrs.frozen
class Since:
    version: int


@attrs.frozen
class Until:
    version: int


@attrs.frozen
class NullableSince:
    version: int


@attrs.frozen
class Tag:
    number: int


@attrs.frozen
class Before:
    name: str


class Ignorable(Enum):
    IGNORABLE = True


IGNORABLE = Ignorable.IGNORABLE


class Region(Protocol):
    """Bytes in a file, which encoders pass on after their size."""

    def __len__(self) -> int: ...


Buffer: TypeAlias = bytes | bytearray | memoryview
Chunk: TypeAlias = Buffer | Region

Boolean = Annotated[bool, FieldType.BOOLEAN]
Int8 = Annotated[int, FieldType.INT8]
Int16 = Annotated[int, FieldType.INT16]
UInt16 = Annotated[int, FieldType.UINT16]
Int32 = Annotated[int, FieldType.INT32]
UInt32 = Annotated[int, FieldType.UINT32]
Int64 = Annotated[int, FieldType.INT64]
Float64 = Annotated[float, FieldType.FLOAT64]
Uuid = Annotated[UUID, FieldType.UUID]
String = Annotated[str, FieldType.STRING]
ErrorText = Annotated[str, FieldType.ERROR_TEXT]
Bytes = Annotated[bytes, FieldType.BYTES]
Records = Annotated[Buffer, FieldType.RECORDS]
RecordsChunk = Annotated[Chunk, FieldType.RECORDS]

NO_ID: Final = UUID(int=0)
OWN_TAGS: Final = 10_000
"""Absent topic id."""

NOT_ASKED: Final = -(1 << 31)
"""Authorised operations that were not requested."""


@attrs.frozen
class Versions:
    """Versions of an API; compact sizes and tagged fields from `flexible` on."""

    first: int
    last: int
    flexible: int | None = None

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def is_flexible(self, version: int) -> bool:
        return self.flexible is not None and version >= self.flexible


class WireMessage:
    """Base class of messages.

    Decoders reject more than `elements_max` elements in all arrays.
    """

    __slots__ = ()

    api_key: ClassVar[int]
    versions: ClassVar[Versions]
    elements_max: ClassVar[int] = 1 << 62


class Request(WireMessage):
    """Base class of requests. Senders are not trusted, so elements are limited."""

    __slots__ = ()

    elements_max: ClassVar[int] = 50_000


class ClusterRequest(Request):
    """Base class of requests between brokers that may name every partition of a cluster.

    With three replicas the limit is about 140,000 partitions. Brokers cannot be asked to send several requests.
    """

    __slots__ = ()

    elements_max: ClassVar[int] = 1_000_000


class Response(WireMessage):
    __slots__ = ()


@dataclass_transform()
def struct(cls: C) -> C:
    """Make a class a mutable struct with slots.

    Structs share their comparison and repr, which would be half the cost of a class.
    """
    made: Any = attrs.define(cls, eq=False, repr=False)
    made.__eq__, made.__repr__, made.__hash__ = _equal, _shown, None
    return made  # type: ignore[no-any-return]


_values_of: Final[dict[type, Callable[[Any], Any]]] = {}
"""Functions that return the values of all fields, by class, made by the first comparison."""


def _equal(one: Any, other: object) -> Any:
    cls: type = one.__class__
    if cls is not other.__class__:
        return NotImplemented
    values = _values_of.get(cls)
    if values is None:
        values = _values_of[cls] = attrgetter("__class__", *_names(one))
    return values(one) == values(other)


_SECRETS: Final = frozenset({"auth_bytes", "salted_password"})
"""Fields that are not shown."""


def _shown(value: Any) -> str:
    values = ", ".join(f"{name}={'?' if name in _SECRETS else repr(getattr(value, name))}" for name in _names(value))
    return f"{type(value).__name__}({values})"


def _names(value: Any) -> list[str]:
    return [attribute.name for attribute in attrs.fields(type(value))]


@dataclass_transform(frozen_default=True)
def frozen_struct(cls: C) -> C:
    """Make a class an immutable struct, for shared defaults."""
    return attrs.frozen(cls)


def is_frozen(cls: Any) -> bool:
    return cls.__setattr__ is not object.__setattr__


def fresh(factory: Callable[[], T]) -> T:
    default: T = attrs.field(factory=factory)
    return default


@attrs.frozen(eq=False, repr=False)
class Field:
    name: str
    kind: FieldType | type
    is_array: bool
    since: int
    until: float
    nullable_since: float
    tag: int | None
    ignorable: bool
    default: Any

    @property
    def code(self) -> str:
        """Code of a single number in `struct`, else empty."""
        return self.kind.code if isinstance(self.kind, FieldType) and not self.is_array else ""

    @property
    def is_own(self) -> bool:
        """Return whether Kafka does not have the field."""
        return self.tag is not None and self.tag >= OWN_TAGS

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    def is_nullable(self, version: int) -> bool:
        return version >= self.nullable_since


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """Return the fields of a struct in wire order."""
    fields: list[Field] = []
    for attribute in attrs.fields(cls):
        field, before = _field(cls, attribute)
        names = [other.name for other in fields]
        fields.insert(len(fields) if before is None else names.index(before), field)
    return tuple(fields)


def _field(cls: type, attribute: "attrs.Attribute[Any]") -> tuple[Field, str | None]:
    """Return a field, and the name of the one that it is written before."""
    hint, marks, nullable = _unwrap(attribute.type)
    is_array = get_origin(hint) is list
    if is_array:
        hint, inner, _ = _unwrap(get_args(hint)[0])
        marks += inner
    since = _mark(marks, Since, "version", 0)
    default: Any = attribute.default
    made = isinstance(default, attrs.Factory)  # type: ignore[arg-type]
    field = Field(
        name=attribute.name,
        kind=_kind(cls, attribute.name, hint, marks),
        is_array=is_array,
        since=since,
        until=_mark(marks, Until, "version", float("inf")),
        nullable_since=_mark(marks, NullableSince, "version", since) if nullable else float("inf"),
        tag=_mark(marks, Tag, "number", None),
        ignorable=IGNORABLE in marks,
        default=default.factory() if made else default,
    )
    return field, _mark(marks, Before, "name", None)


def _unwrap(hint: Any) -> tuple[Any, list[Any], bool]:
    """Split an annotation into bare type, `Annotated` marks, and whether it is nullable."""
    marks: list[Any] = []
    nullable = False
    while True:
        origin = get_origin(hint)
        if origin is Annotated:
            marks.extend(hint.__metadata__)
            hint = hint.__origin__
        elif origin in (Union, UnionType) and type(None) in get_args(hint):
            nullable = True
            hint = Union[tuple(arm for arm in get_args(hint) if arm is not type(None))]  # noqa: UP007
        else:
            return hint, marks, nullable


def _mark(marks: list[Any], cls: type, attribute: str, default: Any) -> Any:
    return next((getattr(mark, attribute) for mark in marks if isinstance(mark, cls)), default)


def _kind(cls: type, name: str, hint: Any, marks: list[Any]) -> FieldType | type:
    kind = next((mark for mark in marks if isinstance(mark, FieldType)), None)
    if kind is not None:
        return kind
    if isinstance(hint, type) and attrs.has(hint):
        return hint
    where = f"{cls.__name__}.{name}: {hint!r}"
    if isinstance(hint, str):
        raise TypeError(
            f"{where} is the text of a type: remove `from __future__ import annotations`, or the quotes, "
            f"from {cls.__module__}"
        )
    raise TypeError(f"{where} is no type of the wire: take one of pylogbroker.wire.schema, such as Int32 or String")
