"""Records as conditions see them: texts, numbers and JSON, decoded when they are first needed."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from json import JSONDecoder
from typing import Any, Final

from pylogbroker.json_text import exact_number, reject_constant

JSON_BYTES_MAX: Final = 1024 * 1024
"""Bytes of a key or value that are parsed as JSON: more would take too long at a time."""
MISSING: Final = object()
"""Part of a record that is not there."""
_UNREAD: Final = object()


class Subject:
    """One record; built for each record that a search looks at, so it is no attrs class."""

    __slots__ = ("_key_json", "_value_json", "headers", "key", "offset", "partition", "time", "value")

    def __init__(
        self,
        partition: int,
        offset: int,
        time: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.time = time
        self.key = key
        self.value = value
        self.headers = headers
        self._value_json: Any = _UNREAD
        self._key_json: Any = _UNREAD

    @property
    def size(self) -> int:
        return len(self.key or b"") + len(self.value or b"")

    def value_json(self) -> Any:
        """Return the value as JSON, MISSING if it is none."""
        if self._value_json is _UNREAD:
            self._value_json = json_of(self.value)
        return self._value_json

    def key_json(self) -> Any:
        if self._key_json is _UNREAD:
            self._key_json = json_of(self.key)
        return self._key_json

    def header(self, name: str) -> Any:
        """Return the text of the last header of this name, None for a null one, or MISSING."""
        for own, content in reversed(self.headers):
            if own == name:
                return text_of(content)
        return MISSING


def text_of(content: bytes | None) -> str | None:
    """Return a text; bytes that are no UTF-8 become U+FFFD."""
    return None if content is None else content.decode(errors="replace")


def json_of(content: bytes | None) -> Any:
    """Return JSON, of several members of a name the last one; MISSING for other contents.

    Integers are int, other numbers Decimal, so that nothing is rounded.
    """
    if content is None or len(content) > JSON_BYTES_MAX:
        return MISSING
    try:
        text = content.decode()
        if text[:1] in " \t\r\n":
            text = text.strip(" \t\r\n")
        value, end = _scan(text, 0)
    except StopIteration:
        return MISSING
    except (ValueError, RecursionError, InvalidOperation):
        return _json_of_extreme_numbers(content)
    return value if end == len(text) or text[end:].strip(" \t\r\n") == "" else MISSING


def _json_of_extreme_numbers(content: bytes) -> Any:
    """Parse JSON again whose numbers Python may have rejected: too many digits, or a huge exponent."""
    try:
        return _EXTREME.decode(content.decode())
    except (ValueError, RecursionError):
        return MISSING


_scan: Final = JSONDecoder(parse_float=Decimal, parse_constant=reject_constant).scan_once  # type: ignore[attr-defined]
_EXTREME: Final = JSONDecoder(parse_float=exact_number, parse_int=exact_number, parse_constant=reject_constant)
