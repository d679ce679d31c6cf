"""Transactions v2 (KIP-890) of Java's clients of 4.4, and Kafka's tools about them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.clients import stored_batches
from tests.clients.adapters.base import Client, Rejected
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.adapters.transactions import Transactor, begun_in_time, committed, transactor
from tests.clients.admin import create_topic, eventually
from tests.clients.model import Rec
from tests.clients.test_features import features
from tests.peers import available
from tests.peers.tools import tool
from tests.support.brokers import Broker

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
Begin = Callable[..., Transactor]


@pytest.fixture
def java(client_named: Callable[[str], Client]) -> Client:
    return client_named("java-4")


@pytest.fixture
def begin(java: Client) -> Iterator[Begin]:
    """Makes transactional producers that are closed at the end."""
    with ExitStack() as stack:
        yield lambda bootstrap, name, *timeout: stack.enter_context(transactor(java, bootstrap, name, *timeout))


@pytest.fixture(autouse=True)
def _needs_transactions_v2(against: str) -> None:
    if against == "kafka":
        pytest.skip("Kafka 3.9 has no transactions v2")


def run(producer: Transactor, topic: str, *values: bytes, is_committed: bool = True) -> None:
    producer.begin()
    for value in values:
        producer.send(topic, value)
    (producer.commit if is_committed else producer.abort)()


def epochs(bootstrap: str, topic: str) -> list[int]:
    """Return the producer epochs of records and markers."""
    return [batch.producer_epoch for batch in stored_batches.batches(bootstrap, topic)]


def test_each_transaction_has_an_epoch_of_its_own(bootstrap: str, topic: str, group: str, begin: Begin) -> None:
    create_topic(bootstrap, topic)
    producer = begin(bootstrap, topic)
    run(producer, topic, b"1", b"2")
    run(producer, topic, b"3", is_committed=False)
    producer.begin()
    producer.send_offset(group, topic, 0, 5)
    producer.commit()
    run(producer, topic, b"4")
    eventually(lambda: epochs(bootstrap, topic), [0, 0, 1, 1, 2, 3, 4])
    assert KafkaPython().committed(bootstrap, group, topic, 0) == (5, "")


def test_a_producer_goes_on_after_an_abort_by_timeout(
    bootstrap: str, topic: str, java: Client, begin: Begin, against: str
) -> None:
    if against:
        pytest.skip("the commit is the end of the producer (KAFKA-20785)")
    create_topic(bootstrap, topic)
    Confluent().write(bootstrap, topic, [Rec(b"before")])
    producer = begun_in_time(lambda timeout_ms: begin(bootstrap, topic, timeout_ms), topic, b"lost")
    Confluent().write(bootstrap, topic, [Rec(b"after")])
    eventually(lambda: committed(java, bootstrap, topic), [b"before", b"after"])
    with pytest.raises(Rejected) as rejected:
        producer.commit()
    assert rejected.value.code == 120  # TRANSACTION_ABORTABLE
    producer.abort()
    producer.begin()
    producer.send(topic, b"again")
    producer.commit()
    assert committed(java, bootstrap, topic) == [b"before", b"after", b"again"]


def test_levels_change_while_transactions_are_open(
    new_broker: Callable[..., Broker], java: Client, begin: Begin
) -> None:
    """A producer goes on by the level that it heard of; one that starts later takes the new level."""
    broker = new_broker()
    broker.start()
    bootstrap = broker.bootstrap
    create_topic(bootstrap, "t")
    wanted: list[bytes] = []
    for number, (change, level) in enumerate((("downgrade", 1), ("downgrade", 0), ("upgrade", 2))):
        producer = begin(bootstrap, f"p{number}")
        producer.begin()
        producer.send("t", b"%d begun" % number)
        features(bootstrap, change, "--feature", f"transaction.version={level}")
        producer.send("t", b"%d ended" % number)
        producer.commit()
        run(producer, "t", b"%d next" % number)
        run(begin(bootstrap, f"new-{number}"), "t", b"%d new" % number)
        wanted += [b"%d %s" % (number, word) for word in (b"begun", b"ended", b"next", b"new")]
        eventually(lambda: committed(java, bootstrap, "t"), wanted)
    described = features(bootstrap, "describe").splitlines()
    [levels] = [line for line in described if line.startswith("Feature: transaction.version")]
    assert "FinalizedVersionLevel: 2" in levels


def test_kafkas_tools_read_the_states(new_broker: Callable[..., Broker], begin: Begin) -> None:
    broker = new_broker({"transaction.state.log.num.partitions": "1"})
    broker.start()
    create_topic(broker.bootstrap, "t")
    producer = begin(broker.bootstrap, "id")
    run(producer, "t", b"1")
    run(producer, "t", b"2", is_committed=False)
    server = ("--bootstrap-server", broker.bootstrap)

    def described() -> list[str]:
        text = tool("kafka-transactions", *server, "describe", "--transactional-id", "id", release="kafka-4.4").stdout
        return text.splitlines()[1].split()

    eventually(lambda: described()[4], "CompleteAbort")
    assert described()[3] == "2"
    producer.begin()
    producer.send("t", b"3")
    formatter = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
    options = ("--topic", "__transaction_state", "--formatter", formatter, "--from-beginning", "--max-messages", "8")
    text = tool("kafka-console-consumer", *server, *options, release="kafka-4.4").stdout
    records = json.loads(f"[{text.replace('}{', '},{')}]")  # nothing is between them
    fields = ("transactionStatus", "producerEpoch", "clientTransactionVersion")
    states = [tuple(record["value"]["data"].get(field, 0) for field in fields) for record in records]
    assert {record["value"]["version"] for record in records} == {1}
    first = [("Ongoing", 0, 2), ("PrepareCommit", 1, 2), ("CompleteCommit", 1, 2)]
    second = [("Ongoing", 1, 2), ("PrepareAbort", 2, 2), ("CompleteAbort", 2, 2)]
    assert states == [("Empty", 0, 0), *first, *second, ("Ongoing", 2, 2)]
