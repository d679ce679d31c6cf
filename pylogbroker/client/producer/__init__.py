"""The producer of the Python client.

producer        what programs use
parts           its parts, and what concerns them all: to flush, to refuse, to end
settings        what older names of settings mean;  options: the settings as values
model           what goes in, and what comes out;  errors: what it may fail with
entrance        waiting for room;  topics: waiting for a topic, and which partition
pipeline        records as events, where there are callback or event handlers
many            many records at once
accumulator     records become batches, without I/O: batch, lane (one partition's), sequences
sender          batches leave;  answers: what leaders say to them
identities      idempotence;  transactions: that, and more;  coordinating: what coordinators are asked
given           what a producer is made of
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
