"""A line of an access log, and how it is taken apart: the same for whoever needs its fields.

    83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /about.html HTTP/1.1" 200 203 "http://example.org/" "Mozilla/5.0"
    client           time                          method target            status bytes  referrer        agent

The last two may be missing (the common format), or more may come behind them.
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
"""How many bytes of a line are looked at; no server writes more in one."""

FIELDS: Final = LogLine(
    _PATTERN,
    types={"status": pa.int16(), "bytes": pa.int64()},
    times={"time": "%d/%b/%Y:%H:%M:%S %z"},
    keep=(),
)
"""Makes columns of lines; of a line that is of another format, nulls."""


def read(log: Path, at_once: int) -> Iterator[list[bytes]]:
    """The lines of a log that are not empty, some at a time; of a log in gzip's format, too."""
    with gzip.open(log) if log.suffix == ".gz" else log.open("rb") as file:
        lines = filter(None, (line.rstrip(b"\r\n")[:LONGEST] for line in file))
        while some := list(islice(lines, at_once)):
            yield some


def client_of(line: bytes) -> bytes:
    """Whose line it is, be the rest of it as it may."""
    return line.partition(b" ")[0]


def latest_of(lines: Sequence[bytes]) -> datetime | None:
    """The latest time in lines; None if there is none."""
    rows = pa.record_batch({"value": pa.array(lines, pa.binary())})
    latest: datetime | None = pc.max(FIELDS(rows)["time"]).as_py()
    return latest
