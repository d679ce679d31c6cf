"""Log of the registry: the topic `_schemas`, however its records are read and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from pylogbroker.registry.records import SchemaRecord


@attrs.frozen
class StoredRecords:
    """Records that were read, each with its offset, and the offset to read from next."""

    records: Sequence[tuple[int, SchemaRecord]]
    next_offset: int
    is_end: bool
    """Whether there were no more records."""


class LogReplaced(Exception):
    """The log is another one than before: it is read from its beginning again."""


class SchemaLog(Protocol):
    """Methods raise RegistryError."""

    async def read(self, offset: int) -> StoredRecords:
        """Return committed records from an offset on; raise LogReplaced.

        At the end, everything is returned that was appended before, also if it was not yet committed at first: its
        ids must not be given again.
        """

    async def append(self, records: Sequence[SchemaRecord]) -> None:
        """Append records, all or none, and return once they are committed.

        After an error they may be there all the same.
        """
