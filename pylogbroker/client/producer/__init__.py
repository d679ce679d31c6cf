"""The producer of the Python client.

producer          the public class;  wiring: its parts; flush, error propagation and close
settings          translation of older setting names;  options: the settings as values;  validation: of arguments
model             input and output values;  errors: exceptions of records and transactions
buffer_admission  waiting for space in the buffer;  topics: waiting for metadata, choosing partitions
pipeline          records as events, for callback and event handlers;  bulk_send: many records at once
accumulator       groups records into batches, without I/O;  batch: their columns
sender            sends batches;  response_handler: handles produce responses
identities        producer ids for idempotence;  transactions;  coordinator_client: requests to coordinators

`pylogbroker.client.partition_queue` keeps the batches of a partition in order.
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
