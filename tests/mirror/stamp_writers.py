"""Producers in threads that write stamps to the source of a mirror, while its broker is killed and started again.

Each producer numbers its stamps, and writes them in order. A kill may leave open whether the last ones are stored: the
source's log says it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from pylogbroker.client.sync import Producer
from pylogbroker.errors import PylogbrokerError
from tests.legacy07 import message_sets
from tests.legacy07.conftest import SimpleBroker
from tests.support.brokers import Broker

TOPIC: Final = "stamps"
PARTITIONS: Final = 3
_PATIENT: Final = {"delivery_timeout_ms": "600000", "max_block_ms": "600000"}
_CONNECT_SECONDS_MAX: Final = 1.0


@attrs.define
class StampWriters:
    """Threads of one source; `stop` raises what went wrong in any of them."""

    _works: Sequence[Callable[[threading.Event], None]]
    _is_over: threading.Event = attrs.field(factory=threading.Event)
    _errors: list[BaseException] = attrs.field(factory=list)
    _threads: list[threading.Thread] = attrs.field(factory=list)

    def start(self) -> None:
        for work in self._works:
            thread = threading.Thread(target=self._guarded, args=(work,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        for error in self._errors:
            raise error

    def _guarded(self, work: Callable[[threading.Event], None]) -> None:
        try:
            work(self._is_over)
        except BaseException as error:
            self._errors.append(error)


def stamp_writers(source: Broker) -> StampWriters:
    """Return writers of plain and compressed records and of transactions; of single messages for Kafka 0.7."""
    if isinstance(source, SimpleBroker):
        return StampWriters([lambda is_over: _write_simple(source, is_over)])
    bootstrap = source.bootstrap
    return StampWriters(
        [
            lambda is_over: _write(bootstrap, "plain", "none", is_over),
            lambda is_over: _write(bootstrap, "lz4", "lz4", is_over),
            lambda is_over: _write_transactions(bootstrap, is_over),
        ]
    )


def _write(bootstrap: str, name: str, codec: str, is_over: threading.Event) -> None:
    with Producer(bootstrap, compression_type=codec, **_PATIENT) as producer:
        number = 0
        while not is_over.wait(0.01):
            for _ in range(20):
                value = b"%s %d" % (name.encode(), number) + b"." * 50
                producer.submit(TOPIC, value, partition=number % PARTITIONS)
                number += 1
            producer.flush()


def _write_transactions(bootstrap: str, is_over: threading.Event) -> None:
    number = 0
    while not is_over.is_set():
        try:
            with Producer(bootstrap, transactional_id="stamps", **_PATIENT) as producer:
                while not is_over.wait(0.02):
                    producer.begin()
                    for _ in range(5):
                        producer.submit(TOPIC, b"transaction %d" % number, partition=number % PARTITIONS)
                        number += 1
                    producer.flush()
                    if number % 3:
                        producer.commit()
                    else:
                        producer.abort()
        except PylogbrokerError:
            continue


def _write_simple(source: SimpleBroker, is_over: threading.Event) -> None:
    """Write by the protocol of Kafka 0.7, which acknowledges nothing: the answer to another request does."""
    number = 0
    while not is_over.is_set():
        try:
            with socket.create_connection(source.address, timeout=_CONNECT_SECONDS_MAX) as connection:
                while not is_over.wait(0.01):
                    for _ in range(20):
                        stamp = message_sets.message(b"simple %d" % number + b"." * 50)
                        connection.sendall(message_sets.produce(TOPIC.encode(), number % PARTITIONS, stamp))
                        number += 1
                    connection.sendall(message_sets.offsets(TOPIC.encode(), 0, -1, 1))
                    if not connection.recv(100):
                        raise ConnectionError("the broker has closed the connection")
        except OSError:
            is_over.wait(0.1)
