"""Records as values of JSON, made in a worker thread.

    {"offset": 3, "timestamp": 1700000000000, "key": CONTENT, "value": CONTENT,
     "headers": [{"name": "trace", "value": CONTENT}]}

    CONTENT = {"format": "text", "text": "...", "bytes": 12, "is_cut": false}

The format of a content is null, json, text, integer, float or hex.

Anybody may have written the contents. Nothing here makes them safe for a page: its templates escape them.
"""

from __future__ import annotations

import struct
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final, Literal, Protocol, TypedDict, get_args

import attrs

from pylogbroker.errors import CorruptRecords, InvalidRecords
from pylogbroker.json_text import indented, is_json
from pylogbroker.records import Buffer, Record, entries

Format = Literal["auto", "text", "json", "integer", "float", "hex"]
FORMATS: Final[tuple[str, ...]] = get_args(Format)
SHOWN_BYTES_MAX: Final = 16 * 1024
"""Bytes of one key, value or header that are shown."""
SHOWN_SUM_MAX: Final = 1024 * 1024
"""Bytes of all records of an answer, about, that are shown."""
_INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024
_HEADERS_MAX: Final = 100
_WHITE = "\t\n\r"
_FLOATS: Final = {4: ">f", 8: ">d"}
_INDENTED_CHARACTERS_MAX: Final = 4 * SHOWN_BYTES_MAX
_INTEGER_SIZES: Final = (1, 2, 4, 8)


_ContentFormat = Literal["null", "json", "text", "integer", "float", "hex"]


class Content(TypedDict):
    """Key, value or value of a header."""

    format: _ContentFormat
    text: str
    bytes: int
    is_cut: bool


class HeaderRow(TypedDict):
    name: str
    value: Content


class RecordRow(TypedDict):
    offset: int
    timestamp: int
    key: Content
    value: Content
    headers: list[HeaderRow]
    header_count: int


@attrs.frozen
class Wanted:
    """Records to show: `count` from `offset` on, of those that contain `search`."""

    offset: int
    count: int
    upto: int
    search: str = ""
    format: str = "auto"


@attrs.define
class RecordRows:
    """Rows of records, and the offset to go on from."""

    rows: list[RecordRow]
    next_offset: int
    first_offset: int | None = None
    """Offset of the first record that was looked at."""
    is_full: bool = False
    """The rows are as many as wanted, or as many bytes as an answer may have."""


class RecordRegion(Protocol):
    """Records as their log has them; `next_offset` is above the offsets of all of them."""

    @property
    def next_offset(self) -> int: ...
    def read(self) -> Buffer: ...


def decode(region: RecordRegion, selection: Wanted) -> RecordRows:
    """Read a region and decode its records. Blocks. Raise CorruptRecords or InvalidRecords for damage at its begin."""
    decoded = RecordRows([], selection.offset)
    shown = 0
    needle = selection.search.casefold()
    try:
        for record in _records(region.read()):
            if record.offset < selection.offset:
                continue
            if record.offset >= selection.upto:
                break
            if decoded.first_offset is None:
                decoded.first_offset = record.offset
            if not needle or _contains(record, needle):
                row = _row(record, selection.format)
                size = shown_characters(row)
                if decoded.rows and shown + size > SHOWN_SUM_MAX:
                    decoded.is_full = True
                    return decoded
                decoded.rows.append(row)
                shown += size
            decoded.next_offset = record.offset + 1
            if len(decoded.rows) >= selection.count:
                decoded.is_full = True
                return decoded
    except (CorruptRecords, InvalidRecords):
        if not decoded.rows:
            raise
        decoded.is_full = True  # the next answer begins with the damage, and says so
        return decoded
    decoded.next_offset = max(decoded.next_offset, region.next_offset)
    return decoded


def _records(data: Buffer) -> Iterator[Record]:
    for entry in entries(data):
        if not entry.is_control:
            yield from entry.records(_INFLATED_BYTES_MAX)


def _contains(record: Record, needle: str) -> bool:
    contents = [record.key, record.value, *(value for _, value in record.headers)]
    return any(content is not None and needle in _lenient(content).casefold() for content in contents) or any(
        needle in name.casefold() for name, _ in record.headers
    )


def _lenient(content: bytes) -> str:
    return bytes(content).decode(errors="replace")


def _row(record: Record, shape: str) -> RecordRow:
    """Return a row; its key, its value and its first headers use up the characters of an answer, not more."""
    left = SHOWN_SUM_MAX

    def content(data: bytes | None) -> Content:
        nonlocal left
        preview = shown(data, shape, min(SHOWN_BYTES_MAX, left))
        left = max(0, left - len(preview["text"]))
        return preview

    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": content(record.key),
        "value": content(record.value),
        "headers": [
            {"name": name[:SHOWN_BYTES_MAX], "value": content(value)} for name, value in record.headers[:_HEADERS_MAX]
        ],
        "header_count": len(record.headers),
    }


def shown_characters(row: RecordRow) -> int:
    contents: Iterable[Content] = (row["key"], row["value"], *(header["value"] for header in row["headers"]))
    return sum(len(content["text"]) for content in contents)


def shown(content: bytes | None, shape: str, bytes_max: int) -> Content:
    """Return a content in a format, or as hexadecimal digits if it has another one.

    `auto` is text if it is readable. `json` is indented, with its tokens as they were sent. `integer` and `float` are
    those of Kafka's serializers.
    """
    if content is None:
        return {"format": "null", "text": "", "bytes": 0, "is_cut": False}
    data = bytes(content)
    begin = data[:bytes_max]
    is_cut = len(begin) < len(data)
    kind, text = _formatted(begin, shape, is_cut) or ("hex", begin.hex())
    return {"format": kind, "text": text, "bytes": len(data), "is_cut": is_cut}


def _formatted(data: bytes, shape: str, is_cut: bool) -> tuple[_ContentFormat, str] | None:
    """Return the format and the text, None if the content has another format."""
    if shape == "text":
        return "text", data.decode(errors="replace")
    if shape == "integer" and len(data) in _INTEGER_SIZES:
        return "integer", str(int.from_bytes(data, "big", signed=True))
    if shape == "float" and len(data) in _FLOATS:
        return "float", repr(struct.unpack(_FLOATS[len(data)], data)[0])
    readable = _readable(data, is_cut) if shape in ("auto", "json") else None
    if readable is None:
        return None
    if is_cut or not is_json(readable):
        return "text", readable
    return "json", (indented(readable, _INDENTED_CHARACTERS_MAX) or readable) if shape == "json" else readable


def _readable(data: bytes, is_cut: bool) -> str | None:
    """Return the text, perhaps cut within its last character; None if it has bytes that are no text."""
    for end in (0, 1, 2, 3) if is_cut else (0,):
        try:
            text = data[: len(data) - end].decode()
        except UnicodeDecodeError:
            continue
        if text.isprintable() or all(
            character in _WHITE or unicodedata.category(character) != "Cc" for character in text
        ):
            return text
        break
    return None
