"""Forms of keys and values: how their bytes become a column.

| form                         | column                                                                      |
|------------------------------|-----------------------------------------------------------------------------|
| binary                       | the bytes                                                                   |
| text                         | UTF-8                                                                       |
| json                         | members of JSON, with a given type, or one that is inferred from the values |
| avro, protobuf, json-schema  | members by the schemas of a registry                                        |
| auto                         | by a registry's schemas where a value names one; else text, else bytes      |

A form that infers its type sees a sample of contents before the first is decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, Protocol

import attrs
import pyarrow as pa

from pylogbroker.table.errors import UndecodableRecord

OnError = Literal["raise", "null"]
ON_ERROR: Final = ("raise", "null")
_REASON_MAX: Final = 500


@attrs.frozen(eq=False, repr=False)
class Failures:
    """Handling of contents that cannot be decoded: an error that names the record, or null."""

    on_error: OnError
    field: str
    topic: str
    partition: int
    offsets: pa.Array

    def note(self, index: int, reason: object, cause: BaseException | None = None) -> None:
        """Raise UndecodableRecord, unless such contents become null."""
        if self.on_error == "raise":
            where = f"{self.topic}/{self.partition}, offset {self.offsets[index]}"
            what = f"{where}: the {self.field} cannot be decoded: {reason_text(reason)}"
            raise UndecodableRecord(what, self.field) from cause


def reason_text(reason: object) -> str:
    """Return a reason on one line."""
    return " ".join(str(reason).split())[:_REASON_MAX]


class ContentForm(Protocol):
    """Form of the keys or values of one read."""

    @property
    def is_sampled(self) -> bool:
        """Return whether the type depends on a sample."""

    @property
    def needs_headers(self) -> bool: ...

    @property
    def type(self) -> pa.DataType: ...

    def learn(self, contents: pa.Array, headers: pa.Array | None) -> None:
        """Take a part of the sample into account."""

    def decoded(self, contents: pa.Array, headers: pa.Array | None, failures: Failures) -> pa.Array: ...


class SampledForm(ContentForm, Protocol):
    """Form whose type contents show, and that can decode them as another type."""

    @property
    def learned(self) -> pa.DataType:
        """Return the type of the contents that were seen; null without any."""

    def decoded_as(
        self, kind: pa.DataType, contents: pa.Array, headers: pa.Array | None, failures: Failures
    ) -> pa.Array:
        """Return contents as values of a type; times lose digits that it does not have."""


@attrs.frozen
class BinaryForm:
    is_sampled = False
    needs_headers = False
    type = pa.binary()

    def learn(self, contents: pa.Array, headers: pa.Array | None) -> None:
        """Do nothing."""

    def decoded(self, contents: pa.Array, headers: pa.Array | None, failures: Failures) -> pa.Array:
        return contents


@attrs.frozen
class TextForm:
    is_sampled = False
    needs_headers = False
    type = pa.string()

    def learn(self, contents: pa.Array, headers: pa.Array | None) -> None:
        """Do nothing."""

    def decoded(self, contents: pa.Array, headers: pa.Array | None, failures: Failures) -> pa.Array:
        try:
            return contents.cast(pa.string())
        except pa.ArrowInvalid:
            return one_by_one(contents, lambda _, content: text_of(content), self.type, failures)


def text_of(content: bytes) -> str:
    """Return a text in UTF-8; raise ValueError."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(not_utf_8(error)) from None


def not_utf_8(error: UnicodeDecodeError) -> str:
    return f"it is not UTF-8: byte 0x{error.object[error.start]:02x} at position {error.start}"


def one_by_one(
    contents: pa.Array, convert: Callable[[int, bytes], Any], kind: pa.DataType, failures: Failures
) -> pa.Array:
    """Return the array of converted contents; nulls stay."""
    values: list[Any] = []
    for index, content in enumerate(contents.to_pylist()):
        value = None
        if content is not None:
            try:
                value = convert(index, content)
            except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
                failures.note(index, _reason(error), error)
        values.append(value)
    return checked_array(values, kind, failures)


def checked_array(values: list[Any], kind: pa.DataType, failures: Failures) -> pa.Array:
    """Return values as an array; those that its type cannot have are failures."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return pa.array([_fitting(index, value, kind, failures) for index, value in enumerate(values)], kind)


def _fitting(index: int, value: Any, kind: pa.DataType, failures: Failures) -> Any:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        failures.note(index, error, error)
        return None
    return value


def _reason(error: BaseException) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error) or type(error).__name__
