"""Records as the tests of clients see them, and the one list of records that every client writes and reads.

On the pipe to a client that runs in a process of its own (`tests.support.rpc_process`) and in files given to it, a
record is a row of six fields; byte strings are in base64, null is `-`:

    partition  offset  timestamp  key  value  headers: name:value,name:value...
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

NO_OFFSET = -1
Header = tuple[str, bytes | None]


@attrs.frozen
class Rec:
    """One record; `timestamp` None lets the writer's clock decide, `offset` is known once it is in the log."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None
    partition: int = 0
    offset: int = NO_OFFSET


#: The first record's timestamp where the writer may choose it: an hour ago, too young for any broker's retention.
START = (int(time.time()) - 3600) * 1000

_UNICODE = "grüße, 世界, 🦉"
_BIG = bytes(range(256)) * 390 + b"ende"  # about 100 KB, of every byte

CANONICAL: tuple[Rec, ...] = (
    Rec(b"plain"),
    Rec(b"with a key", key=b"key"),
    Rec(_UNICODE.encode(), key="schlüssel".encode()),
    Rec(b"", key=b"empty value"),
    Rec(b"empty key", key=b""),
    Rec(b"", key=b""),
    Rec(None, key=b"tombstone"),
    Rec(None),
    Rec(bytes(range(256)), key=bytes(range(255, -1, -1))),
    Rec(b"one header", headers=(("trace", b"abc"),)),
    Rec(b"headers", key=b"h", headers=(("a", b"1"), ("b", b""), ("a", b"2"), ("ünï", "wërt".encode()))),
    Rec(b"a null header", headers=(("null", None),)),
    Rec(b"same " * 2000, key=b"compresses well"),
    Rec(_BIG, key=b"big"),
)


def in_log_order(records: Iterable[Rec]) -> list[Rec]:
    return sorted(records, key=lambda record: (record.partition, record.offset))


def placed(records: Iterable[Rec]) -> list[Rec]:
    """The records with the offsets that they get when they are the first of their partitions."""
    ends: dict[int, int] = {}
    result = []
    for record in records:
        offset = ends.get(record.partition, 0)
        ends[record.partition] = offset + 1
        result.append(attrs.evolve(record, offset=offset))
    return in_log_order(result)


def to_row(record: Rec) -> str:
    timestamp = "-" if record.timestamp is None else str(record.timestamp)
    headers = ",".join(f"{_text(name.encode())}:{_text(value)}" for name, value in record.headers)
    fields = (str(record.partition), str(record.offset), timestamp, _text(record.key), _text(record.value), headers)
    return "\t".join(fields)


def from_row(fields: Sequence[str]) -> Rec:
    partition, offset, timestamp, key, value, headers = fields
    return Rec(
        value=_bytes(value),
        key=_bytes(key),
        headers=tuple(_header(each) for each in headers.split(",") if each),
        timestamp=None if timestamp == "-" else int(timestamp),
        partition=int(partition),
        offset=int(offset),
    )


def write_rows(path: Path, records: Iterable[Rec]) -> Path:
    path.write_text("".join(to_row(record) + "\n" for record in records))
    return path


def read_rows(path: Path) -> list[Rec]:
    return [from_row(line.split("\t")) for line in path.read_text().splitlines()]


def _header(text: str) -> Header:
    name, _, value = text.partition(":")
    return base64.b64decode(name).decode(), _bytes(value)


def _text(value: bytes | None) -> str:
    return "-" if value is None else base64.b64encode(value).decode()


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text)
