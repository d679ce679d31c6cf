"""Records as values of JSON, made in a worker thread.

    {"offset": 3, "timestamp": 1700000000000, "key": CONTENT, "value": CONTENT,
     "headers": [{"name": "trace", "value": CONTENT}]}

    CONTENT = {"format": "null", "json", "text" or "hex", "text": "...", "bytes": 12, "is_cut": false}

Anybody may have written the contents. Nothing here makes them safe for a page: its templates escape them.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs

from pylogbroker.errors import CorruptRecords, InvalidRecords
from pylogbroker.records import Record, entries
from pylogbroker.storage import FileRegion

FORMATS: Final = ("auto", "text", "hex")
SHOWN_BYTES_MAX: Final = 16 * 1024
"""Bytes of one key, value or header that are shown."""
SHOWN_SUM_MAX: Final = 1024 * 1024
"""Bytes of all records of an answer, about, that are shown."""
INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024
HEADERS_MAX: Final = 100
_WHITE = "\t\n\r"


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

    rows: list[dict[str, Any]]
    next_offset: int
    is_full: bool = False
    """The rows are as many as wanted, or as many bytes as an answer may have."""


def decode(region: FileRegion, wanted: Wanted) -> RecordRows:
    """Read a region and decode its records. Blocks. Raise CorruptRecords or InvalidRecords for damage at its begin."""
    found = RecordRows([], wanted.offset)
    shown = 0
    needle = wanted.search.casefold()
    try:
        for record in _records(region.read()):
            if record.offset < wanted.offset:
                continue
            if record.offset >= wanted.upto:
                break
            if not needle or _contains(record, needle):
                row = _row(record, wanted.format)
                size = shown_characters(row)
                if found.rows and shown + size > SHOWN_SUM_MAX:
                    found.is_full = True
                    return found
                found.rows.append(row)
                shown += size
            found.next_offset = record.offset + 1
            if len(found.rows) >= wanted.count:
                found.is_full = True
                return found
    except (CorruptRecords, InvalidRecords):
        if not found.rows:
            raise
        found.is_full = True  # the next answer begins with the damage, and says so
        return found
    found.next_offset = max(found.next_offset, region.next_offset)
    return found


def _records(data: bytes) -> Iterator[Record]:
    for entry in entries(data):
        if not entry.is_control:
            yield from entry.records(INFLATED_BYTES_MAX)


def _contains(record: Record, needle: str) -> bool:
    contents = [record.key, record.value, *(value for _, value in record.headers)]
    return any(content is not None and needle in _lenient(content).casefold() for content in contents) or any(
        needle in name.casefold() for name, _ in record.headers
    )


def _lenient(content: bytes) -> str:
    return bytes(content).decode(errors="replace")


def _row(record: Record, shape: str) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": shown(record.key, shape),
        "value": shown(record.value, shape),
        "headers": [
            {"name": name[:SHOWN_BYTES_MAX], "value": shown(value, shape)}
            for name, value in record.headers[:HEADERS_MAX]
        ],
        "header_count": len(record.headers),
    }


def shown_characters(row: dict[str, Any]) -> int:
    contents: Iterable[dict[str, Any]] = (row["key"], row["value"], *(each["value"] for each in row["headers"]))
    return sum(len(each["text"]) for each in contents)


def shown(content: bytes | None, shape: str) -> dict[str, Any]:
    """Return a content as text if it is readable, else as hexadecimal digits."""
    if content is None:
        return {"format": "null", "text": "", "bytes": 0, "is_cut": False}
    data = bytes(content)
    is_cut = len(data) > SHOWN_BYTES_MAX
    begin = data[:SHOWN_BYTES_MAX]
    kind, text = "hex", begin.hex()
    if shape == "text":
        kind, text = "text", begin.decode(errors="replace")
    elif shape == "auto" and (readable := _readable(begin, is_cut)) is not None:
        kind, text = "text" if is_cut or not _is_json(readable) else "json", readable
    return {"format": kind, "text": text, "bytes": len(data), "is_cut": is_cut}


def _readable(data: bytes, is_cut: bool) -> str | None:
    """Return the text, perhaps cut within its last character; None if it has bytes that are no text."""
    for end in (0, 1, 2, 3) if is_cut else (0,):
        try:
            text = data[: len(data) - end].decode()
        except UnicodeDecodeError:
            continue
        return text if all(each in _WHITE or unicodedata.category(each) != "Cc" for each in text) else None
    return None


def _is_json(text: str) -> bool:
    """Return whether a text is an object or array; numbers and words are texts as well."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
