"""The Python client: Kafka's protocol on Twisted, against any broker that speaks it.

==============  ============================================================================================
`producer`      `Producer`: sends records
`consumer`      `ConsumerConnector`: a member of a group, and the streams that it reads
`simple_...`    `SimpleConsumer`: one connection to one broker, no state
`messages`      what consumers get
`sync`          the same names without Deferreds
`cluster`       brokers, topics, leaders and coordinators; requests to any of them
`pool`          connections, one for each broker that is used
`conversation`  one connection: requests and their answers; `connection`: in Kafka's protocol
`speaking`      versions, requests to bytes and back
`transport`     its bytes
`memory`        keeping the memory of answers
`metadata`      what is known of brokers and topics, as values
`refreshing`    when they are asked for anew
`sources`       where brokers are found to begin with
`retrying`      pauses and deadlines
`settings`      every setting of clients
`arguments`     what calls are given, checked where it comes in
`joint`         work that is done once, for all who wait for it
`arguments`     what is given to their methods, checked
`address`       where brokers listen
`errors`        what can go wrong
==============  ============================================================================================

The classes are imported when they are first asked for: what has no use for Twisted can do without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pylogbroker.client.consumer.connector import ConsumerConnector
    from pylogbroker.client.consumer.filters import Blacklist, Whitelist
    from pylogbroker.client.consumer.streams import Stream
    from pylogbroker.client.errors import OutOfRange
    from pylogbroker.client.messages import Message, MessageSet
    from pylogbroker.client.producer import Producer, ProducerRecord, RecordMetadata
    from pylogbroker.client.simple_consumer import EARLIEST, LATEST, SimpleConsumer

__all__ = [
    "EARLIEST",
    "LATEST",
    "Blacklist",
    "ConsumerConnector",
    "Message",
    "MessageSet",
    "OutOfRange",
    "Producer",
    "ProducerRecord",
    "RecordMetadata",
    "SimpleConsumer",
    "Stream",
    "Whitelist",
]

_ROOMS: Final = {
    "Blacklist": "consumer.filters",
    "ConsumerConnector": "consumer.connector",
    "EARLIEST": "simple_consumer",
    "LATEST": "simple_consumer",
    "Message": "messages",
    "MessageSet": "messages",
    "OutOfRange": "errors",
    "Producer": "producer",
    "ProducerRecord": "producer",
    "RecordMetadata": "producer",
    "SimpleConsumer": "simple_consumer",
    "Stream": "consumer.streams",
    "Whitelist": "consumer.filters",
}


def __getattr__(name: str) -> Any:
    room = _ROOMS.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{room}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
