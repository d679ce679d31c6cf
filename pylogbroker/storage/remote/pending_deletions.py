"""File of partitions whose logs were deleted, and whose objects may have to be: a restart must not forget them.

Each line has a topic id and a partition:

```
0f9a6f8e-3b1c-4d2a-8c55-2f1a7b0c9d3e 0
```

The file is in one log directory that works. All are read, in case another one worked at the time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.storage.files import read_file, remove, replace_file

FILE: Final = "archive-deletions"
PartitionId = tuple[UUID, int]
_LINE: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) ([0-9]{1,10})")


@attrs.define(eq=False, repr=False)
class PendingDeletions:
    """Blocks; one call at a time."""

    _directories: Callable[[], Iterable[str]]
    """Log directories that work."""

    def read(self) -> Iterator[PartitionId]:
        """Yield the partitions; lines that cannot be read are left out."""
        for path in self._directories():
            with suppress(OSError):
                for line in (read_file(f"{path}/{FILE}") or b"").decode("ascii", "replace").splitlines():
                    match = _LINE.fullmatch(line)
                    if match is not None:
                        yield UUID(match[1]), int(match[2])

    def write(self, partitions: Collection[PartitionId]) -> None:
        """Replace the partitions. If no disk takes them, objects may be left in the remote storage after a crash."""
        text = "".join(f"{topic_id} {partition}\n" for topic_id, partition in partitions)
        is_written = not text
        for path in self._directories():
            with suppress(OSError):
                if is_written:
                    remove(f"{path}/{FILE}")
                else:
                    replace_file(f"{path}/{FILE}", text.encode())
                    is_written = True
