"""Checks of produced records that depend on the version of Produce."""

from __future__ import annotations

from typing import Final

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords, KafkaError, RejectionReason
from pylogbroker.records import Buffer, Codec, entries
from pylogbroker.wire.messages.produce import PartitionProduceData

ATTRIBUTES_AT: Final = 22
FIRST_WITH_V2: Final = 3
FIRST_WITH_ZSTD: Final = 7
FIRST_BY_ID: Final = 13
_MAGIC_AT: Final = 16
_ACKS: Final = (-1, 0, 1)


def checked_records(partition: Partition, data: PartitionProduceData, acks: int, version: int) -> Buffer:
    """Return the records of a partition; raise KafkaError if they may not be appended."""
    if acks not in _ACKS:
        raise KafkaError(f"acks={acks} is neither 0, 1 nor -1", ErrorCode.INVALID_REQUIRED_ACKS)
    if acks == -1 and (partition.replication is not None or partition.min_insync_replicas > 1):
        partition.check_enough_replicas()
    if partition.is_internal:
        raise KafkaError(f"{partition.topic} is written by the broker alone", ErrorCode.INVALID_TOPIC_EXCEPTION)
    records = data.records
    if records is None or (version >= FIRST_WITH_V2 and len(records) <= ATTRIBUTES_AT):
        raise InvalidRecords("a produce request needs at least one record for each partition")
    if version < FIRST_WITH_ZSTD:
        return _checked_of_old(records, version)
    if records[_MAGIC_AT] != 2:
        raise _wrong_magic(records, version)
    return records


def _wrong_magic(records: Buffer, version: int) -> KafkaError:
    if records[_MAGIC_AT] > 2:
        return CorruptRecords(f"magic {records[_MAGIC_AT]} is not known")
    return InvalidRecords(
        f"Produce {version} takes record batches (magic 2), not magic {records[_MAGIC_AT]}",
        reason=RejectionReason.MAGIC,
    )


def _checked_of_old(records: Buffer, version: int) -> Buffer:
    """Return the records of a client older than zstd; empty if they are no whole message, which it may send."""
    if version >= FIRST_WITH_V2 and records[_MAGIC_AT] != 2:
        raise _wrong_magic(records, version)
    log_entries = list(entries(records, partial=True))
    if any(entry.codec is Codec.ZSTD for entry in log_entries):
        raise KafkaError(f"Produce {version} does not know zstd", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if version < FIRST_WITH_V2 and any(entry.is_transactional for entry in log_entries):
        raise missing_transactional_id()
    return records if log_entries or version >= FIRST_WITH_V2 else b""


def missing_transactional_id() -> KafkaError:
    return KafkaError("a transaction without a transactional id", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
