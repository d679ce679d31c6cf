"""The Python client: Kafka's protocol on Twisted, against any broker that speaks it.

==============  ============================================================================================
`producer`      `Producer`: sends records
`consumer`      `ConsumerConnector`: a member of a group, and the streams that it reads
`simple_...`    `SimpleConsumer`: one connection to one broker, no state
`messages`      what consumers get
`sync`          the same names without Deferreds
`cluster`       brokers, topics, leaders and coordinators; requests to any of them
`pool`          connections, one for each broker that is used
`connection`    one connection: requests and their answers
`transport`     its bytes
`memory`        keeping the memory of answers
`metadata`      what is known of brokers and topics, as values
`refreshing`    when they are asked for anew
`sources`       where brokers are found to begin with
`retrying`      pauses and deadlines
`settings`      every setting of clients
`errors`        what can go wrong
==============  ============================================================================================
"""

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
