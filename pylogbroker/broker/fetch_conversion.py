"""What a client cannot read as the log has it: batches that it is too old for, and all that is of format 0.7.

    Fetch      a log of v0 to v2                    a log of 0.7
    0-1        v0                                   v0
    2-3        v0 or v1                             v1
    4-         as it lies there: not looked at      v2

It is converted in a worker thread, within the bounds of the request, which the records may outgrow on the way.  Since
Fetch 3 one record is there, however large.  Clients before it are not sent more bytes than they ask for: a message that
is cut off tells them to ask for more.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from pylogbroker.broker.fetch_sessions import Asked
from pylogbroker.errors import KafkaError
from pylogbroker.records import down_convert, from_simple
from pylogbroker.storage import FileRegion
from pylogbroker.wire.messages.fetch import PartitionData

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker

FIRST_WITH_V2 = 4
FIRST_WITH_BYTE_LIMIT = 3
"""The first version with a limit for the whole answer."""

_FIRST_WITH_V1 = 2


@attrs.define(eq=False)
class Conversion:
    """That of one answer to a client of some version, whose records together are to take at most `limit` bytes."""

    broker: Broker
    version: int
    limit: int
    _done: int = attrs.field(default=0, init=False)  # bytes for the client so far
    _barren: list[tuple[Asked, PartitionData, int]] = attrs.field(factory=list, init=False)  # and what lies behind

    def is_due(self, records: object) -> bool:
        """Whether the client cannot be sent what the log has."""
        if not isinstance(records, FileRegion):
            return False
        return self.version < FIRST_WITH_V2 or records.first_position >= 0

    def begin(self, answers: Iterable[PartitionData]) -> None:
        """A round begins, with what is in the answers already."""
        done = (each.records or b"" for each in answers if not isinstance(each.records, FileRegion))
        self._done = sum(map(len, done))

    def convert(self, asked: Asked, answer: PartitionData, region: FileRegion) -> None:
        """Convert what an answer has, as far as there is room beside what has been converted.  Blocks; for workers."""
        if not self.is_due(region):
            return
        wanted, room = asked.partition, self.limit - self._done
        if self._done and room <= 0:
            answer.records = b""
            return
        limit = min(room, wanted.partition_max_bytes)
        records = self._converted(region, wanted.fetch_offset, limit)
        if not records:
            self._barren.append((asked, answer, region.next_offset))
        if self.version < FIRST_WITH_BYTE_LIMIT:
            records = records[: max(0, limit)]
        answer.records = records
        self._done += len(records)

    def _converted(self, region: FileRegion, first_offset: int, limit: int) -> bytes:
        magic = 2 if self.version >= FIRST_WITH_V2 else 1 if self.version >= _FIRST_WITH_V1 else 0
        if region.first_position >= 0:
            return from_simple(region.read(), region.first_position, magic, first_offset=first_offset, limit=limit)
        return down_convert(region.read(), magic, first_offset=first_offset, limit=limit)

    def pass_over(self) -> bool:
        """Read on behind what holds nothing that the client may be told; says whether there is more.

        It learns from records alone where to go on: it would ask for the same again and again.
        """
        barren, self._barren = self._barren, []
        for asked, answer, offset in barren:
            wanted = asked.partition
            with suppress(KafkaError):  # it is gone meanwhile
                partition = self.broker.find(asked.topic, wanted.partition)
                log = partition.log
                if log.by_position:
                    partition.pass_over(wanted.fetch_offset, offset)
                answer.records = log.read(offset, wanted.partition_max_bytes, upto=answer.high_watermark) or b""
        return any(answer.records for _, answer, _ in barren)
