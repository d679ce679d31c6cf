"""Conversion of records that a client cannot read in the log's format.

    Fetch      a log of v0 to v2                     a log of 0.7
    0-1        v0                                    v0
    2-3        v0 or v1                              v1
    4-11       unchanged                             v2
    12-        v2                                    v2

Every client that sends Fetch 12 can read v2; librdkafka 2.5 to 2.15 finds no records in v0 and v1 there.

Worker threads convert. Since Fetch 3 a response has at least one record, however large. Older clients never get more
bytes than they ask for: a cut message makes them ask for more.

Conversion to v2 depends on the log alone, so the pieces are cached for other readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from pylogbroker.broker.fetch.conversion_cache import ConvertedPiece
from pylogbroker.broker.fetch.readahead import magic_if_cached
from pylogbroker.broker.fetch.session import RequestedPartition, TopicKey
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasFetches, HasPartitions
from pylogbroker.errors import CorruptRecords, InvalidRecords, KafkaError
from pylogbroker.records import SizeBudget, down_convert, entry_size, up_convert
from pylogbroker.storage import FileRegion
from pylogbroker.storage.files import read_at
from pylogbroker.storage.log.addressing import byte_addressing

if TYPE_CHECKING:
    from pylogbroker.wire.messages.fetch import FetchPartition, PartitionData

FIRST_WITH_V2 = 4
FIRST_WITH_BYTE_LIMIT = 3
"""First version with a limit for the whole response."""

FIRST_WITH_V2_ALONE = 12
_FIRST_WITH_V1 = 2
_PIECE_BYTES: Final = 64 << 10  # of the log, converted and cached together


_CountTopicConverted = Callable[[TopicKey, int, int, int], None]
"""Counts records of a topic that were converted: their number, the result's size, and nanoseconds. Any thread calls."""


class _Services(HasPartitions, HasFetches, Protocol):
    """Services that this module uses."""


@attrs.define(eq=False, repr=False)
class Conversion:
    """Conversion for one response with at most `limit` bytes; `needs_v2` converts all to v2."""

    services: _Services
    context: RequestContext
    needs_v2: bool
    limit: int
    _on_converted: _CountTopicConverted
    done: int = attrs.field(default=0, init=False)  # bytes
    _without_records: list[tuple[RequestedPartition, PartitionData, int]] = attrs.field(
        factory=list, init=False
    )  # with the next offset
    _converted_records: int = attrs.field(default=0, init=False)  # of the partition under way

    def is_due(self, records: object) -> bool:
        if not isinstance(records, FileRegion):
            return False
        if self.context.api_version < FIRST_WITH_V2 or records.first_position >= 0:
            return True
        return self.needs_v2 and magic_if_cached(records) != 2

    def begin(self, answers: Iterable[PartitionData]) -> None:
        """Count the bytes that the answers have in memory already."""
        done = (answer.records or b"" for answer in answers if not isinstance(answer.records, FileRegion))
        self.done = sum(map(len, done))

    def convert(self, requested: RequestedPartition, answer: PartitionData, region: FileRegion) -> None:
        """Convert records within the limits. Blocks. If the caller has gone, the result is incomplete."""
        fetch, left = requested.partition, self.limit - self.done
        if (self.done and left <= 0) or self._is_stopped():
            answer.records = b""
            return
        limit = min(left, fetch.partition_max_bytes)
        begun_ns, self._converted_records = perf_counter_ns(), 0
        records = self._converted(region, fetch.fetch_offset, limit)
        if self._converted_records:
            self._on_converted(requested.topic, self._converted_records, len(records), perf_counter_ns() - begun_ns)
        if not records:
            self._without_records.append((requested, answer, region.next_offset))
        if self.context.api_version < FIRST_WITH_BYTE_LIMIT:
            records = records[: max(0, limit)]
        answer.records = records
        self.done += len(records)

    def _is_stopped(self) -> bool:
        return self.context.caller.is_gone

    def _converted(self, region: FileRegion, first_offset: int, limit: int) -> bytes:
        version = self.context.api_version
        magic = 2 if version >= FIRST_WITH_V2 else 1 if version >= _FIRST_WITH_V1 else 0
        position = region.first_position
        if magic == 2 and position < 0:
            return self._up(region, limit)
        budget = SizeBudget(limit, self._is_stopped)
        if position >= 0:
            convert = byte_addressing().to_offset_addressed
            records = convert(region.read(), position, magic, budget, first_offset=first_offset)
        else:
            records = down_convert(region.read(), magic, budget, first_offset)
        self._converted_records += budget.converted
        return records

    def _up(self, region: FileRegion, limit: int) -> bytes:
        """Return whole pieces up to the limit, at least one; stop at damage."""
        parts: list[bytes] = []
        position, end, size = region.position, region.position + region.length, 0
        while position < end and not self._is_stopped():
            try:
                piece = self._piece(region, position, end - position)
            except (CorruptRecords, InvalidRecords):
                if not parts:
                    raise
                break
            if parts and size + len(piece.records) > limit:
                break
            parts.append(piece.records)
            size += len(piece.records)
            position += piece.length
        return b"".join(parts)

    def _piece(self, region: FileRegion, position: int, most: int) -> ConvertedPiece:
        place = region.file.number, position
        pieces = self.services.fetches.conversion_cache
        piece = pieces.find(place, most)
        if piece is None:
            fd = region.file.fd
            data = read_at(fd, min(_PIECE_BYTES, most), position)
            first = entry_size(data)
            if len(data) < first <= most:
                data = read_at(fd, first, position)
            records, length, converted = up_convert(data, self._is_stopped)
            self._converted_records += converted
            piece = ConvertedPiece(records, length)
            if not self._is_stopped():
                pieces.keep(place, piece)
        return piece

    def pass_over(self) -> bool:
        """Skip regions without a record for the client; return whether there is more to convert.

        Clients learn the next offset from records alone, and would fetch such a region for ever.
        """
        barren, self._without_records = self._without_records, []
        for requested, answer, offset in barren:
            fetch = requested.partition
            with suppress(KafkaError):  # the partition is gone
                partition = self.services.partitions.find(requested.topic, fetch.partition, True)
                log = partition.log
                if log.byte_addressed:
                    partition.pass_over(fetch.fetch_offset, offset)
                answer.records = log.read(offset, self._bytes_behind(fetch), upto=answer.high_watermark) or b""
        return any(answer.records for _, answer, _ in barren)

    def _bytes_behind(self, fetch: FetchPartition) -> int:
        """Return how much to read behind a region without records; all of a format that has to be converted.

        The conversion keeps the client's limit, and a tiny one would pass over one batch in each round.
        """
        most = fetch.partition_max_bytes
        return max(most, _PIECE_BYTES) if self.context.api_version < FIRST_WITH_V2 else most
