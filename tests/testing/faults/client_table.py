"""Behaviour of client libraries under faults, as a table for docs/testing.md.

    .venv/bin/python -m tests.testing.faults.client_table
    .venv/bin/python -m tests.testing.faults.client_table librdkafka aiokafka

Each cell is one run on a broker of its own: three records are written, then read. The clients have their defaults, and
20 s for each step.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import attrs
from confluent_kafka import KafkaError

from pylogbroker.errors import ErrorCode
from pylogbroker.testing import Broker
from tests.clients.adapters.aiokafka import AioKafka
from tests.clients.adapters.base import Client, Rejected
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.java import Java
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.model import Rec
from tests.support.line_process import ProcessFailed

CLIENTS: Final[Mapping[str, Callable[[], Client]]] = {
    "librdkafka": Confluent,
    "Java": partial(Java, "3.9"),
    "aiokafka": AioKafka,
    "kafka-python": KafkaPython,
}
METADATA_BEHIND: Final = 2  # requests
VALUES: Final = (b"0", b"1", b"2")

Prepare = Callable[[Broker], Any]


@attrs.frozen
class Case:
    """A fault; with `reads` it comes after the write."""

    text: str
    prepare: Prepare
    is_idempotent: bool = False
    reads: bool = False


def adding(api: str, error: str | None = None, **fields: Any) -> Prepare:
    """Add a fault."""
    return lambda broker: broker.faults.add(api, error, topic="t", **fields)


def loading_once(broker: Broker) -> None:
    broker.faults.add("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS")


def moving_late(broker: Broker) -> None:
    """Move the leader; the third request for metadata from now on is the first that names it."""
    broker.faults.cluster.lag_metadata()
    broker.faults.cluster.move_leader("t", to=9)
    asked: list[Any] = []

    def count(context: Any, request: Any) -> None:
        asked.append(request)
        if len(asked) == METADATA_BEHIND + 1:
            broker.faults.cluster.update_metadata()

    broker.faults.control("Metadata", count)


CASES: Final = (
    Case("`Produce`: NOT_LEADER_OR_FOLLOWER once", adding("Produce", "NOT_LEADER_OR_FOLLOWER")),
    Case("`Produce`: REQUEST_TIMED_OUT after the append", adding("Produce", "REQUEST_TIMED_OUT", after=True)),
    Case("the same, idempotent", adding("Produce", "REQUEST_TIMED_OUT", after=True), is_idempotent=True),
    Case("`Produce`: connection closed after the append", adding("Produce", close="after")),
    Case("the same, idempotent", adding("Produce", close="after"), is_idempotent=True),
    Case("`Produce`: answer cut in the middle, idempotent", adding("Produce", close="mid-frame"), is_idempotent=True),
    Case("`Produce`: KAFKA_STORAGE_ERROR of a full disk once", lambda broker: broker.faults.logs.fail_appends("t")),
    Case("`Produce`: answer 2 s late", adding("Produce", delay=2, after=True)),
    Case("`Produce`: throttled for 500 ms", adding("Produce", throttle_ms=500)),
    Case("`Produce`: MESSAGE_TOO_LARGE", adding("Produce", "MESSAGE_TOO_LARGE", times=None)),
    Case("`Produce`: TOPIC_AUTHORIZATION_FAILED", adding("Produce", "TOPIC_AUTHORIZATION_FAILED", times=None)),
    Case("`InitProducerId`: COORDINATOR_LOAD_IN_PROGRESS once, idempotent", loading_once, is_idempotent=True),
    Case("`Metadata`: LEADER_NOT_AVAILABLE once", adding("Metadata", "LEADER_NOT_AVAILABLE")),
    Case("the leader has moved", lambda broker: broker.faults.cluster.move_leader("t", to=9)),
    Case("the same, after two old answers to `Metadata`", moving_late),
    Case("`Fetch`: NOT_LEADER_OR_FOLLOWER once", adding("Fetch", "NOT_LEADER_OR_FOLLOWER"), reads=True),
    Case("`Fetch`: connection closed once", adding("Fetch", close="before"), reads=True),
    Case("`Fetch`: UNKNOWN_SERVER_ERROR once", adding("Fetch", "UNKNOWN_SERVER_ERROR"), reads=True),
    Case("`Fetch`: OFFSET_OUT_OF_RANGE once", adding("Fetch", "OFFSET_OUT_OF_RANGE"), reads=True),
    Case("`ListOffsets`: LEADER_NOT_AVAILABLE once", adding("ListOffsets", "LEADER_NOT_AVAILABLE"), reads=True),
    Case("the first two connections closed", lambda broker: broker.faults.add("ApiVersions", close="before", times=2)),
    Case("versions of Kafka 0.11", lambda broker: broker.faults.cap_versions("0.11")),
    Case("bytes in pieces of 100", lambda broker: broker.faults.network.shape(piece_bytes=100)),
    Case("100 ms in each direction", lambda broker: broker.faults.network.shape(latency=0.1)),
)


def outcome(client: Client, case: Case) -> str:
    """Run a client under a fault; return what became of it."""
    with Broker(broker_id=0) as broker:
        broker.create_topic("t")
        records = [Rec(value) for value in VALUES]
        steps: list[Callable[[], Any]] = [
            lambda: client.write(broker.bootstrap, "t", records, idempotent=case.is_idempotent),
            lambda: client.read(broker.bootstrap, "t", [0]),
        ]
        if case.reads:
            steps.pop(0)()
        case.prepare(broker)
        try:
            for step in steps:
                step()
        except Rejected as error:
            return f"error {named(error)}"
        except (TimeoutError, ProcessFailed):
            return "does not end"
        except Exception as error:
            return f"error {error}"
        requests = len(broker.faults.requests.of("Produce"))
        broker.faults.clear()
        return counts(broker) + (", sent again" if requests > 1 else "")


def named(error: Rejected) -> str:
    """Name of an error: Kafka's, librdkafka's own below -1, or aiokafka's without a connection."""
    if "KafkaConnectionError" in str(error):
        return "KafkaConnectionError"
    known = (each.name for each in ErrorCode if each == error.code)
    return next(known, KafkaError(error.code).name() if error.code < -1 else str(error))


def counts(broker: Broker) -> str:
    """Say whether each record is there once."""
    found = Counter(record.value for record in broker.records("t"))
    if found == Counter(VALUES):
        return "each record once"
    return "duplicates" if found.keys() == set(VALUES) else "records are lost"


def table(names: list[str]) -> str:
    """Return the table in Markdown."""
    clients = {name: CLIENTS[name]() for name in names}
    lines = ["| fault | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for case in CASES:
        cells = [outcome(client, case) for client in clients.values()]
        lines.append(f"| {case.text} | " + " | ".join(cells) + " |")
        print(lines[-1], file=sys.stderr)
    for client in clients.values():
        if isinstance(client, Java):
            client.close()
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(sys.argv[1:] or list(CLIENTS)))
