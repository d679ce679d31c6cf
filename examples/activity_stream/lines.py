"""Parser for access log lines, shared by the streams and the loader.

    83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /about.html HTTP/1.1" 200 203 "http://example.org/" "Mozilla/5.0"
    client           time                          method target            status bytes  referrer        agent

The last two may be missing (common format), or more fields may follow.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pylogbroker.spark import LogLine

_TIME: Final = r"\d\d?/\w{3}/(?:19|20)\d\d:\d\d:\d\d:\d\d [+-]\d{4}"
_TEXT: Final = r'[^"\\]*(?:\\[^\n][^"\\]*)*'
_PATTERN: Final = (
    rf"(?P<client>\S+) \S+ \S+ \[(?P<time>{_TIME})\] "
    r'"(?P<method>[A-Z]+) (?P<target>\S+)(?: [^"]*)?" (?P<status>\d{3}) (?P<bytes>\d{1,18}|-)'
    rf'(?: "(?P<referrer>{_TEXT})" "(?P<agent>{_TEXT})"(?: [^\n]*)?)?'
)
LONGEST: Final = 64 << 10
"""Maximum bytes of a line that are used; no server writes longer ones."""

FIELDS: Final = LogLine(
    _PATTERN,
    types={"status": pa.int16(), "bytes": pa.int64()},
    times={"time": "%d/%b/%Y:%H:%M:%S %z"},
    keep=(),
)
"""Mapping of lines to columns; nulls for a line of another format."""


def read(log: Path, at_once: int) -> Iterator[list[bytes]]:
    """Yield the non-empty lines of a log, also a gzip file, in lists of up to `at_once`."""
    with gzip.open(log) if log.suffix == ".gz" else log.open("rb") as file:
        lines = filter(None, (line.rstrip(b"\r\n")[:LONGEST] for line in file))
        while some := list(islice(lines, at_once)):
            yield some


def client_of(line: bytes) -> bytes:
    """Return the client of a line, whatever follows."""
    return line.partition(b" ")[0]


def latest_of(lines: Sequence[bytes]) -> datetime | None:
    """Return the latest time in lines; None if there is none."""
    rows = pa.record_batch({"value": pa.array(lines, pa.binary())})
    latest: datetime | None = pc.max(FIELDS(rows)["time"]).as_py()
    return latest
