"""The clients that `benchmarks.client` compares: each does the same two pieces of work, in a process of its own.

`produce` sends a first record and waits for it, then as many as it shall, as fast as it can, until the last one is
acknowledged. `consume` is a group of one, and reads a topic of so many records from its start; the time to join does
not count. Both return records per second, and fail if they are short of a record.

All are set alike: acks=all, no compression, five requests in flight, the same size of batches, linger, and bytes
fetched at a time. Producers are idempotent, or plain, as the task says.
Each uses its own way to get many messages at once.
"""

from collections.abc import Mapping
from typing import Protocol

import attrs

BATCH_BYTES = 128 << 10
LINGER_MS = 5
IN_FLIGHT_MAX = 5
PARTITION_FETCH_BYTES = 1 << 20
AT_ONCE = 1000
#: Seconds until a client without progress is stopped.
WAIT_SECONDS_MAX = 60.0


@attrs.frozen
class Work:
    """One task: the broker, the number of records, and the size of their values."""

    bootstrap: str
    topic: str
    count: int
    value_bytes: int
    idempotent: bool = True


class Client(Protocol):
    """One client; a module of this package."""

    def produce(self, work: Work) -> float:
        """Send the records; return how many in a second."""

    def consume(self, work: Work) -> float:
        """Read the records; return how many in a second."""


#: The modules, and what they are called in the table.
NAMES: Mapping[str, str] = {
    "own": "pylogbroker",
    "aio": "aiokafka",
    "plain": "kafka-python",
    "confluent": "confluent-kafka",
}
