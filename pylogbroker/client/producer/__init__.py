"""The producer of the Python client.

producer        the public class
parts           wiring of its parts; flush, error propagation and close
settings        translation of older setting names;  options: the settings as values
model           input and output values;  errors: exceptions of records and transactions
entrance        buffer admission;  topics: waiting for metadata, choosing partitions
pipeline        records as events, for callback and event handlers
many            bulk send
accumulator     groups records into batches, without I/O: batch, lane (a partition's queue), sequences
sender          sends batches;  answers: handles produce responses
identities      producer ids for idempotence;  transactions;  coordinating: requests to coordinators
given           plugins and validation of arguments
"""

from pylogbroker.client.producer.errors import (
    DeliveryTimedOut,
    Fenced,
    NeedsAbort,
    NotAllSent,
    SomeFailed,
    TransactionAborted,
    TransactionError,
)
from pylogbroker.client.producer.model import Counts, GroupMember, OffsetToCommit, ProducerRecord, RecordMetadata
from pylogbroker.client.producer.producer import Producer

__all__ = [
    "Counts",
    "DeliveryTimedOut",
    "Fenced",
    "GroupMember",
    "NeedsAbort",
    "NotAllSent",
    "OffsetToCommit",
    "Producer",
    "ProducerRecord",
    "RecordMetadata",
    "SomeFailed",
    "TransactionAborted",
    "TransactionError",
]
