"""Message format versions: from a Kafka release to the magic of its batches.

    releases              magic    entries
    0.8, 0.9              0        messages
    0.10                  1        messages with timestamps
    0.11 and all later    2        record batches

Format 0.7 is byte-addressed: messages have no offsets. A topic has it from creation on, or never. Versions may be short
(`3.0`) and may name an inter-broker step (`3.0-IV1`).
"""

from __future__ import annotations

import re

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*(?:-IV\d+)?", re.ASCII)
NEWEST = "3.0-IV1"
_OLDEST, _TIMESTAMPS, _BATCHES, _BEYOND = (0, 8), (0, 10), (0, 11), (5, 0)
_BY_POSITION = (0, 7)


def is_by_position(version: str) -> bool:
    match = _VERSION.fullmatch(version)
    return match is not None and (int(match[1]), int(match[2])) == _BY_POSITION


def check_topic_format(version: str) -> None:
    """Raise ValueError for a version that no topic can have."""
    if not is_by_position(version):
        magic_of(version)


def magic_of(version: str) -> int:
    """Return a version's magic; raise ValueError if it has none."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError("not a release")
    release = int(match[1]), int(match[2])
    if not _OLDEST <= release < _BEYOND:
        raise ValueError("not a release whose format is supported")
    return (release >= _TIMESTAMPS) + (release >= _BATCHES)
