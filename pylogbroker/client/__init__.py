"""The Python client: Kafka's protocol on Twisted, against any broker that speaks it.

    `producer`          `Producer`: sends records
    `consumer`          `ConsumerConnector`: a group member and its streams
    `share`             `ShareConsumer`: a member of a share group
    `admin`             `AdminClient`: topics, groups, settings, users, everything else
    `simple_consumer`   `SimpleConsumer`: one connection to one broker; `adapters`: its protocols
    `messages`          messages and message sets
    `sync`              the same classes without Deferreds
    `cluster`           leaders, coordinators, requests; `first_contact`: how long the first broker may take
    `pool`              connections
    `metadata`          brokers and topics as values; `metadata_updater`: when to request them
    `thread_decoding`   responses with thousands of rows
    `sources`           bootstrap addresses; `zookeeper`: the coordination tree that a setting names
    `retries`           backoff and deadlines
    `settings`          all settings; `arguments`: validation
    `partition_queue`   a producer's batches; used by Spark too, like `transaction_requests`, `offset_requests`
                        and `coordinator_requests`
    `plugin_lookup`     plugins by name; `plugin_guards`, `callbacks`: safe calls
    `single_flight`     work done once for several waiters
    `errors`            client errors

Classes are imported on first use: code without Twisted can import this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pylogbroker.lazy_names import lazy_names

if TYPE_CHECKING:
    from pylogbroker.client.admin.client import AdminClient
    from pylogbroker.client.consumer.connector import ConsumerConnector
    from pylogbroker.client.consumer.filters import Blacklist, Whitelist
    from pylogbroker.client.consumer.streams import Stream
    from pylogbroker.client.errors import OutOfRange
    from pylogbroker.client.messages import Message, Messages, MessageSet
    from pylogbroker.client.producer import Producer, ProducerRecord, RecordMetadata
    from pylogbroker.client.share.acknowledgements import AcknowledgeType
    from pylogbroker.client.share.consumer import ShareConsumer
    from pylogbroker.client.simple_consumer import EARLIEST, LATEST, SimpleConsumer

__all__ = [
    "EARLIEST",
    "LATEST",
    "AcknowledgeType",
    "AdminClient",
    "Blacklist",
    "ConsumerConnector",
    "Message",
    "MessageSet",
    "Messages",
    "OutOfRange",
    "Producer",
    "ProducerRecord",
    "RecordMetadata",
    "ShareConsumer",
    "SimpleConsumer",
    "Stream",
    "Whitelist",
]

_MODULES: Final = {
    "AcknowledgeType": ".share.acknowledgements",
    "AdminClient": ".admin.client",
    "Blacklist": ".consumer.filters",
    "ConsumerConnector": ".consumer.connector",
    "EARLIEST": ".simple_consumer",
    "LATEST": ".simple_consumer",
    "Message": ".messages",
    "MessageSet": ".messages",
    "Messages": ".messages",
    "OutOfRange": ".errors",
    "Producer": ".producer",
    "ProducerRecord": ".producer",
    "RecordMetadata": ".producer",
    "ShareConsumer": ".share.consumer",
    "SimpleConsumer": ".simple_consumer",
    "Stream": ".consumer.streams",
    "Whitelist": ".consumer.filters",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
