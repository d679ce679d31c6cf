"""A snapshot of any size that is made as it is read: only the chunk that is asked for is in memory.

    header, brokers | topic 0 | topic 1 | ... | footer

All topics have the same number of bytes: one batch with the topic, a setting, and its partitions. Batches are copies of
some templates with other offsets, ids and names, so that a gigabyte is made in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.records import crc32c
from pylogbroker.wire.metadata_records import ConfigRecord, MetadataRecord, TopicRecord
from tests.kraft.logs import batch, control_batch
from tests.kraft.model_state import TOPIC, Replicated, partition_record

PARTITIONS_PER_TOPIC: Final = 100
_REPLICAS: Final = 3
_ID_MARK: Final = UUID(int=0xFEDCBA98_76543210_FEDCBA98_76543210)
_NAME_MARK: Final = "topic-@@@@@@@@"
_CRC_AT, _CRC_START = 17, 21


def topic_name(number: int) -> str:
    return f"topic-{number:08}"


def topic_id(number: int) -> UUID:
    return UUID(int=1_000_000 + number)


@attrs.define(eq=False)
class LargeSnapshot:
    """Bytes of a snapshot with `topics` topics, like a sequence that is read by slices."""

    head_records: Sequence[MetadataRecord]
    brokers: Sequence[int]
    topics: int
    _head: bytes = attrs.field(init=False)
    _templates: list[bytes] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._head = control_batch(0, 0, 3) + batch(1, 0, self.head_records)
        self._templates = [_template(self.brokers, first) for first in range(len(self.brokers))]

    @classmethod
    def of_bytes(cls, size: int, head_records: Sequence[MetadataRecord], brokers: Sequence[int]) -> LargeSnapshot:
        """Return one of about this size."""
        return cls(head_records, brokers, max(1, size // len(_template(brokers, 0))))

    @property
    def partitions(self) -> int:
        return self.topics * PARTITIONS_PER_TOPIC

    @property
    def _offset(self) -> int:
        """Offset of the first topic's record."""
        return 1 + len(self.head_records)

    def __len__(self) -> int:
        return len(self._head) + self.topics * len(self._templates[0]) + len(self._footer)

    def __getitem__(self, place: slice) -> bytes:
        start, stop, _ = place.indices(len(self))
        size = len(self._templates[0])
        first = max(0, (start - len(self._head)) // size)
        last = min(self.topics, max(0, -(-(stop - len(self._head)) // size)))
        parts = list(self._batches(range(first, last)))
        begin = len(self._head) + first * size
        if start < len(self._head):
            parts.insert(0, self._head)
            begin = 0
        if stop > len(self) - len(self._footer):
            parts.append(self._footer)
            if last <= first:
                begin = len(self) - len(self._footer)
        return b"".join(parts)[start - begin : stop - begin]

    @property
    def _footer(self) -> bytes:
        return control_batch(self._offset + self.topics * (PARTITIONS_PER_TOPIC + 2), 0, 4)

    def _batches(self, numbers: Iterable[int]) -> Iterator[bytes]:
        for number in numbers:
            template = self._templates[number % len(self._templates)]
            data = bytearray(
                template.replace(_ID_MARK.bytes, topic_id(number).bytes).replace(
                    _NAME_MARK.encode(), topic_name(number).encode()
                )
            )
            data[:8] = (self._offset + number * (PARTITIONS_PER_TOPIC + 2)).to_bytes(8, "big")
            data[_CRC_AT:_CRC_START] = crc32c(memoryview(data)[_CRC_START:]).to_bytes(4, "big")
            yield bytes(data)


def _template(brokers: Sequence[int], first: int) -> bytes:
    records: list[MetadataRecord] = [
        TopicRecord(_NAME_MARK, _ID_MARK),
        ConfigRecord(TOPIC, _NAME_MARK, "min.insync.replicas", "2"),
    ]
    for number in range(PARTITIONS_PER_TOPIC):
        at, step = first + number, 1 + (first + number) // len(brokers) % 7
        replicas = [brokers[(at + place * step) % len(brokers)] for place in range(_REPLICAS)]
        records.append(partition_record(_ID_MARK, number, Replicated(replicas, list(replicas), replicas[0])))
    return batch(0, 0, records)
