"""A line of an access log in the combined format, and in the topic.

    83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /about.html HTTP/1.1" 200 203 "http://example.org/" "Mozilla/5.0"
    client           time                          method target            status bytes  referrer        agent

The last two may be missing.  A record's key is the client, its value the line.  After the last line comes a mark, which
has no key, and a time alone:

    # [18/May/2015:11:36:03 +0000]

It says that the log's time has come so far: whatever waits for that time need not wait any more.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

_TEXT: Final = r'(?:[^"\\]|\\.)*'

PATTERN: Final = (
    r"(?P<client>\S+) \S+ \S+ \[(?P<time>[^\]]+)\] "
    r'"(?P<method>[A-Z]+) (?P<target>\S+)(?: [^"]*)?" (?P<status>\d{3}) (?P<bytes>\d+|-)'
    rf'(?: "(?P<referrer>{_TEXT})" "(?P<agent>{_TEXT})")?'
)
"""As Python and RE2 spell it; has to match all of a line."""
FIELDS: Final = tuple(re.compile(PATTERN).groupindex)
MARK: Final = r"# \[(?P<time>[^\]]+)\]"

TIME_FORMAT: Final = "%d/%b/%Y:%H:%M:%S %z"

_match = re.compile(PATTERN.encode()).fullmatch


def client_of(line: bytes) -> bytes:
    """Whose line it is, be the rest of it as it may."""
    return line.partition(b" ")[0]


def time_of(line: bytes) -> datetime | None:
    """When it was; None if it is no line of this format."""
    found = _match(line)
    try:
        return datetime.strptime(found["time"].decode(), TIME_FORMAT) if found else None
    except ValueError:
        return None


def mark_at(time: datetime) -> bytes:
    """A mark."""
    return f"# [{time.strftime(TIME_FORMAT)}]".encode()
