"""The client without Deferreds, for scripts, notebooks and workers.

    from pylogbroker.client.sync import ConsumerConnector, Producer

    with Producer("localhost:9092") as producer:
        metadata = producer.send("greetings", b"hello")                         # waits for the acknowledgement
        futures = [producer.submit("greetings", value) for value in values]     # does not wait

    with ConsumerConnector("localhost:9092", group="readers", consumer_timeout_ms=5000) as consumer:
        for message in consumer.stream("greetings"):                            # ends after 5 seconds without a message
            print(message.offset, message.value)

**Time.** Each call has a timeout in seconds, the object's (`timeout=60`) or its own; `math.inf` means no limit.
`TimedOut`, a `TimeoutError`, names the call.

**Ctrl-C** ends only the wait: records stay sent, a stream's next call returns messages in transit.

**Threads** may share these objects; those iterating over one stream get different messages.

**Fork.** In a child, objects made before the fork raise `OtherProcess`.

**Counts** (`producer.counts`, `stream.count`) may be read at any time.

**Log.** Lines go to Python's `logging`, to their module's logger.

Classes are imported on first use, so that programs need not wait for those that they do not use.

**Plugins** run on the background reactor's thread; they must not block, nor call this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pylogbroker.lazy_names import lazy_names

if TYPE_CHECKING:
    from pylogbroker.client.consumer.filters import Blacklist, Whitelist
    from pylogbroker.client.share.acknowledgements import AcknowledgeType
    from pylogbroker.client.simple_consumer import EARLIEST, LATEST
    from pylogbroker.client.sync.admin import AdminClient
    from pylogbroker.client.sync.background import OtherProcess, TimedOut, WrongThread
    from pylogbroker.client.sync.connector import ConsumerConnector
    from pylogbroker.client.sync.producer import Producer
    from pylogbroker.client.sync.share_consumer import ShareConsumer
    from pylogbroker.client.sync.simple_consumer import SimpleConsumer
    from pylogbroker.client.sync.streams import Stream

__all__ = [
    "EARLIEST",
    "LATEST",
    "AcknowledgeType",
    "AdminClient",
    "Blacklist",
    "ConsumerConnector",
    "OtherProcess",
    "Producer",
    "ShareConsumer",
    "SimpleConsumer",
    "Stream",
    "TimedOut",
    "Whitelist",
    "WrongThread",
]

_MODULES: Final = {
    "AcknowledgeType": "..share.acknowledgements",
    "AdminClient": ".admin",
    "Blacklist": "..consumer.filters",
    "ConsumerConnector": ".connector",
    "EARLIEST": "..simple_consumer",
    "LATEST": "..simple_consumer",
    "OtherProcess": ".background",
    "Producer": ".producer",
    "ShareConsumer": ".share_consumer",
    "SimpleConsumer": ".simple_consumer",
    "Stream": ".streams",
    "TimedOut": ".background",
    "Whitelist": "..consumer.filters",
    "WrongThread": ".background",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
