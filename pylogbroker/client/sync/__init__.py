"""The client without Deferreds, for scripts, notebooks and workers: the same names, and every call returns its result.

    from pylogbroker.client.sync import ConsumerConnector, Producer

    with Producer("localhost:9092") as producer:
        metadata = producer.send("greetings", b"hello")                         # waits for the acknowledgement
        futures = [producer.submit("greetings", value) for value in values]     # does not

    with ConsumerConnector("localhost:9092", group="readers", consumer_timeout_ms=5000) as consumer:
        for message in consumer.stream("greetings"):                            # until nothing has come for 5 seconds
            print(message.offset, message.value)

**Time.** Each call has a timeout in seconds, the object's (`timeout=60`) or its own; `math.inf` is for ever.
`TimedOut`, which is a `TimeoutError`, says what was waited for.

**Ctrl-C** ends the wait alone; the object goes on. Records that were sent stay sent, and messages that were on their
way to a stream come with its next call.

**Threads** may share any of these objects. Two threads that iterate over one stream get different messages.

**Fork.** What was made before a fork is its parent's: in the child every call raises `OtherProcess`. What is made in
the child works.

**Counts** (`producer.counts`, `stream.count`) are plain numbers that may be read at any time, by a progress bar, say.

**Log.** Lines go to Python's `logging`, to the logger of the module they come from; `logging.basicConfig()` shows
warnings, and `logging.getLogger("pylogbroker").setLevel(logging.INFO)` more.

The work is done by the classes of `pylogbroker.client`, on a reactor in a thread of its own (`background`). Plugins run
there: they may not wait, and must not call this module.
"""

from pylogbroker.client.consumer.filters import Blacklist, Whitelist
from pylogbroker.client.simple_consumer import EARLIEST, LATEST
from pylogbroker.client.sync.background import OtherProcess, TimedOut, WrongThread
from pylogbroker.client.sync.connector import ConsumerConnector
from pylogbroker.client.sync.producer import Producer
from pylogbroker.client.sync.simple_consumer import SimpleConsumer
from pylogbroker.client.sync.streams import Stream

__all__ = [
    "EARLIEST",
    "LATEST",
    "Blacklist",
    "ConsumerConnector",
    "OtherProcess",
    "Producer",
    "SimpleConsumer",
    "Stream",
    "TimedOut",
    "Whitelist",
    "WrongThread",
]
