"""Names of objects in a remote storage.

```
<topic id>/<partition>/<base offset>-<end offset>-<leader epoch>-<segment id>.log        record batches
                                                                             .index      indexes, see `segment_indexes`
                                                                             .manifest   commit, see `manifest`
                                                                             .deleted    tombstone, see `deletion`
                                                                             .manifests  of several, see `summaries`
```

Offsets have 20 digits, so that names sort by them. The end offset is that of the next segment. A segment id is random:
two brokers never write the same objects, even if both take themselves for the leader.

A store may list what it has of an object that is not complete with `.tmp` behind the name. It goes with the object.
"""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

import attrs

LOG: Final = ".log"
INDEX: Final = ".index"
MANIFEST: Final = ".manifest"
TOMBSTONE: Final = ".deleted"
SUMMARY: Final = ".manifests"
TEMPORARY: Final = ".tmp"
_NAME: Final = re.compile(
    r"([0-9]{20})-([0-9]{20})-([0-9]{1,10})-([0-9a-f]{32})((?:\.log|\.index|\.manifests?|\.deleted)(?:\.tmp)?)"
)
_LONG_MAX: Final = 2**63 - 1
_EPOCH_MAX: Final = 2**31 - 1


@attrs.frozen(order=True)
class SegmentName:
    """Segment, as the names of its objects have it; or several that follow each other, of a summary."""

    base_offset: int
    end_offset: int
    leader_epoch: int  # of the leader that copied it
    id: str

    def __str__(self) -> str:
        return f"{self.base_offset:020}-{self.end_offset:020}-{self.leader_epoch}-{self.id}"

    @property
    def key(self) -> tuple[int, int, int, str]:
        """Key with the names' order, which compares faster."""
        return self.base_offset, self.end_offset, self.leader_epoch, self.id


def topic_prefix(topic_id: UUID) -> str:
    return f"{topic_id}/"


def partition_prefix(topic_id: UUID, partition: int) -> str:
    return f"{topic_id}/{partition}/"


def parse(file_name: str) -> tuple[SegmentName, str] | None:
    """Return the segment and the suffix that a name without its prefix has; None for a foreign name."""
    match = _NAME.fullmatch(file_name)
    if match is None:
        return None
    base, end, epoch, segment_id, suffix = match.groups()
    if not int(base) < int(end) <= _LONG_MAX or int(epoch) > _EPOCH_MAX:
        return None
    return SegmentName(int(base), int(end), int(epoch), segment_id), suffix
