"""Messages of v0 and v1 that lose records, record by record.

An empty message does not exist in these formats.  Where one must stay that is not the last of its key any more, because
the segment ends with it, its value goes: a tombstone says nothing that the later record, or its absence, doesn't.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from pylogbroker.records import LogEntry, Record, build


def shortened(entry: LogEntry, records: Sequence[Record], keep: Sequence[bool], must_stay: bool) -> bytes | None:
    """The entry with the kept ones of its records; None if nothing is left.

    With `must_stay` it still ends with the offset it ends with now.
    """
    kept = [record for record, stays in zip(records, keep, strict=True) if stays]
    if must_stay and not keep[-1]:
        kept.append(attrs.evolve(records[-1], value=None))
    if not kept:
        return None
    return build(
        kept,
        magic=entry.magic,
        codec=entry.codec,
        base_offset=None,
        timestamp_type=entry.timestamp_type,
        append_time=entry.max_timestamp,
    )
