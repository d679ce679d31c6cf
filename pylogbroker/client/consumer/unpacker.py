"""Fetch responses to chunks of messages, decoded when read."""

from __future__ import annotations

import attrs

from pylogbroker.client.consumer.fetch_buffer import Chunk, FetchBuffer
from pylogbroker.client.errors import RecordTooLarge
from pylogbroker.client.messages import Decode, MessageSet
from pylogbroker.records import Buffer
from pylogbroker.wire.messages.fetch import PartitionData


@attrs.frozen
class Unpacker:
    """Without a decoder (None), bytes stay as they are."""

    _decode_key: Decode | None
    _decode_value: Decode | None
    _read_committed: bool
    _check_crcs: bool

    def __call__(self, buffer: FetchBuffer, data: PartitionData) -> Chunk | None:
        if not data.records:
            return None
        message_set = MessageSet(
            buffer.topic,
            buffer.partition,
            _detached(data.records),  # type: ignore[arg-type]
            buffer.position,
            aborted=self._aborted(data),
            decode_key=self._decode_key,
            decode_value=self._decode_value,
            check_crcs=self._check_crcs,
        )
        if message_set.next_offset == buffer.position and not message_set.valid_bytes:
            return self._nothing_whole(buffer, message_set)
        return Chunk(
            message_set.pieces(), len(message_set.data), message_set.next_offset, epoch=message_set.leader_epoch
        )

    def _aborted(self, data: PartitionData) -> list[tuple[int, int]]:
        if not self._read_committed:
            return []
        return [(transaction.producer_id, transaction.first_offset) for transaction in data.aborted_transactions or ()]

    @staticmethod
    def _nothing_whole(buffer: FetchBuffer, message_set: MessageSet) -> None:
        """Raise: bytes are damaged, or an old broker cut off a message above the limit."""
        for _ in message_set:
            pass
        raise RecordTooLarge(
            f"{buffer.topic}/{buffer.partition} has a message at offset {buffer.position} that is larger than the"
            f" {buffer.limit} bytes that are fetched: set max.partition.fetch.bytes higher"
        )


def _detached(records: Buffer) -> Buffer:
    """Copy a small part of a large response, which it would keep in memory."""
    if isinstance(records, memoryview) and len(records) * 2 < memoryview(records.obj).nbytes:
        return bytes(records)
    return records
