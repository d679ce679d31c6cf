"""Transactions: what was committed is seen whole by every client, and what was not is seen by none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import cast

import pytest
from confluent_kafka import OFFSET_BEGINNING, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.clients.adapters.base import TIMEOUT, Client, Committer, Rejected
from tests.clients.adapters.confluent import Confluent, consumer, messages
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.adapters.transactions import FENCED, Transactor, begun_in_time, committed, transactor
from tests.clients.admin import create_topic, eventually
from tests.clients.model import Rec

CLIENTS = ("confluent", "kafka-python", "aiokafka", "java-3.9", "java-4")
Begin = Callable[..., Transactor]


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, client_named: Callable[[str], Client]) -> Client:
    return client_named(request.param)


@pytest.fixture
def begin(bootstrap: str) -> Iterator[Begin]:
    """Makes transactional producers that are closed at the end."""
    with ExitStack() as stack:
        yield lambda client, name, *timeout: stack.enter_context(transactor(client, bootstrap, name, *timeout))


def test_committed_records_are_seen_and_aborted_ones_are_not(
    bootstrap: str, topic: str, client: Client, client_named: Callable[[str], Client], begin: Begin
) -> None:
    create_topic(bootstrap, topic, 2)
    producer = begin(client, topic)
    for value, finish in (("a", producer.commit), ("b", producer.abort), ("c", producer.commit), ("d", producer.abort)):
        producer.begin()
        for partition in (0, 1):
            producer.send(topic, f"{value}1".encode(), partition)
            producer.send(topic, f"{value}2".encode(), partition)
        finish()
    producer.begin()
    producer.send(topic, b"last")
    producer.commit()
    for name in CLIENTS:
        assert committed(client_named(name), bootstrap, topic, 0) == [b"a1", b"a2", b"c1", b"c2", b"last"], name
        assert committed(client_named(name), bootstrap, topic, 1) == [b"a1", b"a2", b"c1", b"c2"], name
    assert _everything(bootstrap, topic) == [b"a1", b"a2", b"b1", b"b2", b"c1", b"c2", b"d1", b"d2", b"last"]


def _everything(bootstrap: str, topic: str) -> list[bytes | None]:
    """The values that a reader of uncommitted records sees."""
    return [record.value for record in KafkaPython().read(bootstrap, topic, [0])]


def test_an_open_transaction_keeps_readers_of_committed_records_back(
    bootstrap: str, topic: str, client: Client, begin: Begin
) -> None:
    create_topic(bootstrap, topic)
    write = Confluent().write
    write(bootstrap, topic, [Rec(b"before")])
    producer = begin(client, topic)
    producer.begin()
    producer.send(topic, b"inside")
    write(bootstrap, topic, [Rec(b"after")])
    assert committed(client, bootstrap, topic) == [b"before"]
    assert _everything(bootstrap, topic) == [b"before", b"inside", b"after"]
    assert (_end(bootstrap, topic, True), _end(bootstrap, topic, False)) == (1, 3)
    producer.commit()
    eventually(lambda: committed(client, bootstrap, topic), [b"before", b"inside", b"after"])
    assert (_end(bootstrap, topic, True), _end(bootstrap, topic, False)) == (4, 4)


def _end(bootstrap: str, topic: str, is_committed: bool) -> int:
    level = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
    partition = TopicPartition(topic, 0)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level=level, request_timeout=TIMEOUT)
    return int(asked[partition].result(TIMEOUT).offset)


def test_a_commit_wakes_a_waiting_read_committed_consumer(
    bootstrap: str, topic: str, client: Client, begin: Begin
) -> None:
    """A reader with a long poll sees the records when the transaction is committed, not when its poll ends."""
    create_topic(bootstrap, topic)
    producer = begin(client, topic)
    level = {"isolation.level": "read_committed", "fetch.wait.max.ms": 120_000, "socket.timeout.ms": 240_000}
    with consumer(bootstrap, **level) as reader:
        reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        producer.begin()
        producer.send(topic, b"one")
        assert reader.poll(1) is None
        producer.commit()
        begun = time.monotonic()
        found = next(messages(reader))
        assert found.error() is None
        assert found.value() == b"one"
        assert time.monotonic() - begun < 60


def test_offsets_are_committed_with_the_transaction(
    bootstrap: str, topic: str, group: str, client: Client, begin: Begin
) -> None:
    create_topic(bootstrap, topic)
    look_up = cast(Committer, client).committed
    producer = begin(client, topic)
    offset = 3
    for finish, wanted in ((producer.commit, 3), (producer.abort, 3), (producer.commit, 5)):
        producer.begin()
        producer.send(topic, b"x")
        producer.send_offset(group, topic, 0, offset)
        finish()
        eventually(lambda: (look_up(bootstrap, group, topic, 0) or (None,))[0], wanted)
        offset += 1


def test_offsets_alone_are_a_transaction(bootstrap: str, topic: str, group: str, client: Client, begin: Begin) -> None:
    create_topic(bootstrap, topic)
    producer = begin(client, topic)
    producer.begin()
    producer.send_offset(group, topic, 0, 7)
    producer.commit()
    eventually(lambda: (cast(Committer, client).committed(bootstrap, group, topic, 0) or (None,))[0], 7)


def test_a_second_producer_of_the_same_name_fences_the_first(
    bootstrap: str, topic: str, client: Client, client_named: Callable[[str], Client], begin: Begin
) -> None:
    create_topic(bootstrap, topic)
    zombie = begin(client, topic)
    zombie.begin()
    zombie.send(topic, b"of the zombie")
    heir = begin(client_named("confluent"), topic)
    with pytest.raises(Rejected) as rejected:
        _send_and_commit(zombie, topic)
    assert rejected.value.code in FENCED
    heir.begin()
    heir.send(topic, b"of the heir")
    heir.commit()
    eventually(lambda: committed(client, bootstrap, topic), [b"of the heir"])


def _send_and_commit(producer: Transactor, topic: str) -> None:
    producer.send(topic, b"too late")
    producer.commit()


def test_a_zombie_that_only_commits_is_fenced(
    bootstrap: str, topic: str, client: Client, client_named: Callable[[str], Client], begin: Begin
) -> None:
    create_topic(bootstrap, topic)
    zombie = begin(client, topic)
    zombie.begin()
    zombie.send(topic, b"of the zombie")
    begin(client_named("confluent"), topic)
    with pytest.raises(Rejected) as rejected:
        zombie.commit()
    assert rejected.value.code in FENCED
    assert committed(client, bootstrap, topic) == []


def test_a_transaction_that_takes_too_long_is_aborted(bootstrap: str, topic: str, client: Client, begin: Begin) -> None:
    create_topic(bootstrap, topic)
    Confluent().write(bootstrap, topic, [Rec(b"before")])
    producer = begun_in_time(lambda timeout_ms: begin(client, topic, timeout_ms), topic, b"inside")
    Confluent().write(bootstrap, topic, [Rec(b"after")])
    eventually(lambda: committed(client, bootstrap, topic), [b"before", b"after"])
    with pytest.raises(Rejected):
        _send_and_commit(producer, topic)
    assert committed(client, bootstrap, topic) == [b"before", b"after"]


def test_producers_alternate_in_one_partition(
    bootstrap: str, topic: str, client_named: Callable[[str], Client], begin: Begin
) -> None:
    """Transactions of several clients overlap; each is decided by itself."""
    create_topic(bootstrap, topic)
    producers = {name: begin(client_named(name), f"{topic}-{name}") for name in CLIENTS}
    for step in range(3):
        for producer in producers.values():
            producer.begin()
        for part in range(2):
            for name, producer in producers.items():
                producer.send(topic, f"{name} {step} {part}".encode())
        for number, producer in enumerate(producers.values()):
            (producer.commit if (number + step) % 2 else producer.abort)()
    wanted = [
        f"{name} {step} {part}".encode()
        for step in range(3)
        for part in range(2)
        for number, name in enumerate(CLIENTS)
        if (number + step) % 2
    ]
    for client in map(client_named, CLIENTS):
        eventually(partial(committed, client, bootstrap, topic), wanted)
