"""Transactions over a stop and over a crash of the broker."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.clients.adapters.base import Client, Rejected
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.adapters.transactions import Transactor, begun_in_time, committed, transactor
from tests.clients.admin import create_topic, eventually
from tests.clients.model import Rec
from tests.support.brokers import Broker

CLIENTS = ("confluent", "kafka-python", "aiokafka", "java-3.9", "java-4")
End = Callable[[Broker], None]


@pytest.fixture
def own_broker(new_broker: Callable[..., Broker]) -> Broker:
    """A broker of the test's own, started."""
    one = new_broker()
    one.start()
    return one


def stop(broker: Broker) -> None:
    assert broker.stop() == 0


def kill(broker: Broker) -> None:
    broker.kill()


@pytest.mark.parametrize(("name", "end"), [("confluent", stop), *((name, kill) for name in CLIENTS)])
def test_an_open_transaction_goes_on(
    own_broker: Broker, end: End, name: str, client_named: Callable[[str], Client]
) -> None:
    """Two transactions of each kind of end: one begun before the restart and committed after it, and one aborted."""
    bootstrap, client = own_broker.bootstrap, client_named(name)
    create_topic(bootstrap, "t")
    with ExitStack() as stack:
        keeps, drops = (stack.enter_context(transactor(client, bootstrap, each)) for each in ("keeps", "drops"))
        for producer, value in ((keeps, b"kept 1"), (drops, b"dropped 1")):
            producer.begin()
            producer.send("t", value)
        keeps.send_offset("g", "t", 0, 5)
        drops.send_offset("h", "t", 0, 5)
        end(own_broker)
        own_broker.start()
        assert committed(client, bootstrap, "t") == []
        keeps.send("t", b"kept 2")
        keeps.commit()
        drops.abort()
        eventually(lambda: committed(client, bootstrap, "t"), [b"kept 1", b"kept 2"])
        look_up = KafkaPython().committed
        eventually(lambda: look_up(bootstrap, "g", "t", 0), (5, ""))
        assert look_up(bootstrap, "h", "t", 0) is None


def test_an_open_transaction_of_nobody_is_aborted(own_broker: Broker, client_named: Callable[[str], Client]) -> None:
    """Its time counts over the restart."""
    bootstrap, client = own_broker.bootstrap, client_named("confluent")
    create_topic(bootstrap, "t")
    writer = client_named("aiokafka")
    with ExitStack() as stack:
        begun_in_time(lambda timeout_ms: stack.enter_context(transactor(writer, bootstrap, "p", timeout_ms)), "t", b"x")
        own_broker.kill()
        own_broker.start()
        Confluent().write(bootstrap, "t", [Rec(b"after")])
        eventually(lambda: committed(client, bootstrap, "t"), [b"after"])


@pytest.mark.parametrize("name", ["confluent", "java-4"])
def test_records_are_copied_exactly_once_while_the_broker_is_killed(
    own_broker: Broker, name: str, client_named: Callable[[str], Client]
) -> None:
    """A copier takes from one topic and writes to another, offsets and records in one transaction.

    The broker is killed again and again, and the copier restarts from the group's offset after each error.
    """
    bootstrap, client = own_broker.bootstrap, client_named(name)
    create_topic(bootstrap, "from")
    create_topic(bootstrap, "to", 2)
    values = [str(number).encode() for number in range(120)]
    Confluent().write(bootstrap, "from", [Rec(value) for value in values])
    copier = _Copier(client, bootstrap, values)
    thread = threading.Thread(target=copier.run, daemon=True)
    thread.start()
    for share in (0.2, 0.5, 0.8):
        assert copier.has_done(int(share * len(values)))
        own_broker.kill()
        own_broker.start()
    thread.join(300)
    assert not thread.is_alive()
    assert copier.error is None
    found = [value for partition in (0, 1) for value in committed(client, bootstrap, "to", partition)]
    assert Counter(found) == Counter(values)
    assert KafkaPython().committed(bootstrap, "copiers", "from", 0) == (len(values), "")


class _Copier:
    def __init__(self, client: Client, bootstrap: str, values: list[bytes]) -> None:
        self._client, self._bootstrap, self._values = client, bootstrap, values
        self._done = 0
        self._progress = threading.Condition()
        self.error: BaseException | None = None

    def has_done(self, count: int) -> bool:
        """Wait until so many records are copied, as the copier believes."""
        with self._progress:
            return self._progress.wait_for(lambda: self._done >= count or self.error is not None, 300)

    def run(self) -> None:
        try:
            while self._done < len(self._values):
                try:
                    self._copy_until_rejected()
                except Rejected:
                    continue
        except BaseException as error:
            self.error = error

    def _copy_until_rejected(self) -> None:
        with transactor(self._client, self._bootstrap, "copier") as producer:
            offset = self._offset()
            while offset < len(self._values):
                offset = self._copy_some(producer, offset)
                with self._progress:
                    self._done = offset
                    self._progress.notify_all()

    def _offset(self) -> int:
        found = KafkaPython().committed(self._bootstrap, "copiers", "from", 0)
        return found[0] if found is not None else 0

    def _copy_some(self, producer: Transactor, offset: int) -> int:
        some = self._values[offset : offset + 5]
        producer.begin()
        for number, value in enumerate(some):
            producer.send("to", value, number % 2)
        producer.send_offset("copiers", "from", 0, offset + len(some))
        producer.commit()
        return offset + len(some)
