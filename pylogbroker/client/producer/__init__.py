"""Producer of the client.

producer          the public class;  wiring: its parts, flush and close
settings          older setting names;  options: settings as values;  validation: of arguments
model             input and output values;  errors: of records and transactions
buffer_admission  waiting for space;  topics: waiting for metadata, choosing partitions
pipeline          records as events, for handlers;  bulk_send: many records at once
accumulator       groups records into batches;  batch: their columns
sender            sends batches;  response_handler: produce responses
identities        producer ids;  transactions;  coordinator_client: requests to coordinators
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
