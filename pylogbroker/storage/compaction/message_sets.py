"""Shortens messages of v0 and v1, record by record.

These formats have no empty message. If the last message of a segment must stay, but is not the last of its key, it
stays without its value: the later record, or its absence, says the same as the tombstone.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from pylogbroker.records import LogEntry, Record, build


def shortened(entry: LogEntry, records: Sequence[Record], keep: Sequence[bool], must_stay: bool) -> bytes | None:
    """Return the message with the kept ones of its records, or None if nothing is left.

    With `must_stay` its last offset does not change.
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
