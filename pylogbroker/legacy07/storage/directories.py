"""Log directories of Kafka 0.7: names, and recognition.

```
<topic>-<partition>/                  in the chapters on Kafka's design: <topic>_<partition>
    <position>.kafka                  11 or 20 digits: the position of the file's first byte in the partition's stream
```

The broker's own segments share the suffix: names alone do not distinguish them.
"""

from __future__ import annotations

import os
import re
from typing import Final

from pylogbroker.errors import CorruptRecords
from pylogbroker.legacy07.records.messages import messages
from pylogbroker.storage import names
from pylogbroker.storage.files import opened, read_at

_DIRECTORY: Final = re.compile(r"(?P<topic>.+)[-_](?P<partition>\d{1,9})", re.ASCII)
_SEGMENT: Final = re.compile(r"(\d{1,20})\.kafka", re.ASCII)
_OWN_DIGITS: Final = 20
_PROBED_BYTES: Final = 1 << 20


def parse_directory(name: str) -> tuple[str, int] | None:
    """Return topic and partition, or None."""
    match = _DIRECTORY.fullmatch(name)
    return (match["topic"], int(match["partition"])) if match else None


def segments_in(path: str) -> list[tuple[int, str]]:
    """Return positions and names in order; two names may share a position."""
    matches = ((_SEGMENT.fullmatch(name), name) for name in os.listdir(path))
    return sorted((int(match[1]), name) for match, name in matches if match)


def holds_kafka07(path: str) -> bool:
    """Return whether a directory without the broker's marks holds segments of Kafka 0.7.

    Proof is a name that the broker does not use, or a segment that begins with a valid message.
    """
    segments = segments_in(path)
    if any(len(name) != _OWN_DIGITS + len(names.RECORDS) for _, name in segments):
        return True
    return any(_begins_with_message(f"{path}/{name}", position) for position, name in segments)


def _begins_with_message(path: str, position: int) -> bool:
    with opened(path) as fd:
        start = read_at(fd, min(_PROBED_BYTES, os.fstat(fd).st_size), 0)
    try:
        first = next(messages(start, position, partial=True), None)
        if first is not None:
            first.check()
    except CorruptRecords:
        return False
    return first is not None
