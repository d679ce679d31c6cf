"""Other implementations of the message formats: those of kafka-python and of aiokafka, its C and its Python one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import aiokafka.record.default_records as aio_default
import aiokafka.record.legacy_records as aio_legacy
import aiokafka.record.memory_records as aio_memory
import attrs
import kafka.record.default_records as kp_default
import kafka.record.legacy_records as kp_legacy
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from pylogbroker.records import Codec, Record, TimestampType

CAPACITY_BYTES = 1 << 24


@attrs.frozen
class Peer:
    """One implementation: how it names its builders and readers."""

    name: str
    batch_builder: Callable[..., Any]
    legacy_builder: Callable[..., Any]
    batches: Callable[[bytes], Iterator[Any]]

    def write(self, records: list[Record], magic: int, codec: Codec) -> bytes:
        """The records as this peer's producer would send them."""
        if magic == 2:
            builder = self.batch_builder(
                magic=2,
                compression_type=int(codec),
                is_transactional=0,
                producer_id=-1,
                producer_epoch=-1,
                base_sequence=-1,
                batch_size=CAPACITY_BYTES,
            )
        else:
            builder = self.legacy_builder(magic=magic, compression_type=int(codec), batch_size=CAPACITY_BYTES)
        for each in records:
            timestamp = each.timestamp if magic else 0
            if builder.append(each.offset, timestamp, each.key, each.value, headers=list(each.headers)) is None:
                raise AssertionError("the peer has no room left")
        return bytes(builder.build())

    def read(self, data: bytes) -> list[Record]:
        """The records as this peer's consumer would see them, CRCs checked."""
        found = []
        for batch in self.batches(data):
            if not batch.validate_crc():
                raise AssertionError(f"{self.name} finds a wrong CRC")
            found += [_record(each) for each in batch]
        return found


def _record(each: Any) -> Record:
    return Record(
        each.offset,
        -1 if each.timestamp is None else each.timestamp,
        each.key,
        each.value,
        tuple((key, value) for key, value in each.headers),
        TimestampType(each.timestamp_type or 0),
    )


def _batches_of(factory: Callable[[Any], Any]) -> Callable[[bytes], Iterator[Any]]:
    def batches(data: bytes) -> Iterator[Any]:
        found = factory(data)
        while found.has_next():
            yield found.next_batch()

    return batches


def _pure_batches(data: bytes) -> Iterator[Any]:
    """Iterate over batches like aiokafka's own reader, but always with the classes written in Python."""
    view = memoryview(data)
    while view:
        end = 12 + int.from_bytes(view[8:12], "big")
        if view[16] == 2:
            yield aio_default._DefaultRecordBatchPy(view[:end])
        else:
            yield aio_legacy._LegacyRecordBatchPy(view[:end], view[16])
        view = view[end:]


PEERS = (
    Peer(
        "kafka-python",
        kp_default.DefaultRecordBatchBuilder,
        kp_legacy.LegacyRecordBatchBuilder,
        _batches_of(KafkaPythonRecords),
    ),
    Peer(
        "aiokafka-c",
        aio_default.DefaultRecordBatchBuilder,
        aio_legacy.LegacyRecordBatchBuilder,
        _batches_of(aio_memory.MemoryRecords),
    ),
    Peer(
        "aiokafka-python",
        aio_default._DefaultRecordBatchBuilderPy,
        aio_legacy._LegacyRecordBatchBuilderPy,
        _pure_batches,
    ),
)

FORMATS = [
    (magic, codec)
    for magic in (0, 1, 2)
    for codec in Codec
    if not (codec is Codec.ZSTD and magic < 2)
]  # fmt: skip
PEER_FORMATS = [each for each in FORMATS if each != (0, Codec.LZ4)]
"""The peers cannot do v0 with lz4, whose checksum needs a package of its own."""
