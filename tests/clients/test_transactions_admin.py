"""Transactions as an operator sees them: listed, described, and ended by hand where nobody else would."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

import kafka
import pytest
from kafka.admin import AbortTransactionSpec
from kafka.errors import KafkaError

from tests.clients.adapters.base import Client, Rejected
from tests.clients.adapters.java import Java
from tests.clients.adapters.transactions import FENCED, committed, transactor
from tests.clients.admin import admin_client, create_topic, eventually
from tests.clients.test_console_tools import Run
from tests.peers import available, tools

needs_java = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
TIMEOUT = 600_000
TRANSACTIONAL_ID_NOT_FOUND = 105


@pytest.fixture
def client(client_named: Callable[[str], Client]) -> Client:
    return client_named("confluent")


@pytest.fixture(params=["java-3.9", "java-4"])
def java(request: pytest.FixtureRequest, client_named: Callable[[str], Client]) -> Java:
    return cast(Java, client_named(request.param))


@pytest.fixture
def run(bootstrap: str) -> Run:
    return lambda name, *arguments: tools.tool(name, "--bootstrap-server", bootstrap, *arguments).stdout


def test_kafka_python_describes_and_lists(bootstrap: str, topic: str, client: Client) -> None:
    create_topic(bootstrap, topic, 2)
    partitions = {kafka.TopicPartition(topic, index) for index in (0, 1)}
    with admin_client(bootstrap) as admin, transactor(client, bootstrap, topic, TIMEOUT) as producer:

        def state() -> str:
            listed = [each for all in admin.list_transactions().values() for each in all]
            (one,) = (each for each in listed if each.transactional_id == topic)
            assert one.producer_id == admin.describe_transactions([topic])[topic].producer_id
            assert one.state is admin.describe_transactions([topic])[topic].state
            return str(one.state.value)

        assert state() == "Empty"
        producer.begin()
        producer.send(topic, b"x", 0)
        producer.send(topic, b"x", 1)
        found = admin.describe_transactions([topic])[topic]
        assert (state(), found.topic_partitions) == ("Ongoing", partitions)
        assert (found.transaction_timeout_ms, found.transaction_start_time_ms > 0) == (TIMEOUT, True)
        (active,) = admin.describe_producers(list(partitions))[kafka.TopicPartition(topic, 0)].active_producers
        assert (active.producer_id, active.producer_epoch) == (found.producer_id, found.producer_epoch)
        assert (active.last_sequence, active.current_transaction_start_offset) == (0, 0)
        assert admin.find_hanging_transactions() == []
        producer.commit()
        eventually(state, "CompleteCommit")
        assert admin.describe_transactions([topic])[topic].topic_partitions == set()
        (active,) = admin.describe_producers(list(partitions))[kafka.TopicPartition(topic, 0)].active_producers
        assert active.current_transaction_start_offset == -1
        with pytest.raises(KafkaError) as rejected:
            admin.describe_transactions([f"no {topic}"])
        assert getattr(rejected.value, "errno", None) == TRANSACTIONAL_ID_NOT_FOUND


def test_kafka_python_aborts(bootstrap: str, topic: str, client: Client) -> None:
    create_topic(bootstrap, topic)
    partition = kafka.TopicPartition(topic, 0)
    with admin_client(bootstrap) as admin, transactor(client, bootstrap, topic) as producer:
        producer.begin()
        producer.send(topic, b"x")
        (active,) = admin.describe_producers([partition])[partition].active_producers
        admin.abort_transaction(AbortTransactionSpec(partition, active.producer_id, active.producer_epoch))
        (active,) = admin.describe_producers([partition])[partition].active_producers
        assert active.current_transaction_start_offset == -1
        assert committed(client, bootstrap, topic) == []


def test_java_describes_and_lists(bootstrap: str, topic: str, java: Java) -> None:
    create_topic(bootstrap, topic, 2)
    with transactor(java, bootstrap, topic, TIMEOUT) as producer:
        producer.begin()
        producer.send(topic, b"x", 0)
        producer.send(topic, b"x", 1)
        ((state, producer_id, epoch, *rest),) = java.call("transaction", bootstrap, topic)
        assert (state, rest) == ("Ongoing", [str(TIMEOUT), "true", f"{topic}-0,{topic}-1"])
        assert [topic, producer_id, "Ongoing"] in java.call("transactions", bootstrap)
        assert java.call("producers", bootstrap, topic, 0) == [[producer_id, epoch, "0", "-1", "0"]]
        producer.abort()
        eventually(lambda: java.call("transaction", bootstrap, topic)[0][0], "CompleteAbort")
        eventually(lambda: java.call("producers", bootstrap, topic, 0)[0][4], "-1")
        with pytest.raises(Rejected) as rejected:
            java.call("transaction", bootstrap, f"no {topic}")
        assert rejected.value.code == TRANSACTIONAL_ID_NOT_FOUND


def test_java_aborts_and_fences(bootstrap: str, topic: str, java: Java) -> None:
    create_topic(bootstrap, topic)
    with transactor(java, bootstrap, topic) as producer:
        producer.begin()
        producer.send(topic, b"x")
        ((producer_id, epoch, *_),) = java.call("producers", bootstrap, topic, 0)
        java.call("abort-hanging", bootstrap, topic, 0, producer_id, epoch, 0)
        assert java.call("producers", bootstrap, topic, 0)[0][4] == "-1"
        java.call("fence", bootstrap, topic)
        with pytest.raises(Rejected) as rejected:
            producer.commit()
        assert rejected.value.code in FENCED
        assert committed(java, bootstrap, topic) == []


@needs_java
def test_kafka_transactions(run: Run, bootstrap: str, topic: str, client: Client) -> None:
    create_topic(bootstrap, topic)
    with transactor(client, bootstrap, topic, TIMEOUT) as producer:
        producer.begin()
        producer.send(topic, b"x")
        listed = _rows(run("kafka-transactions", "list"))
        (coordinator, producer_id, state) = next(row[1:] for row in listed if row[0] == topic)
        assert state == "Ongoing"
        (described,) = _rows(run("kafka-transactions", "describe", "--transactional-id", topic))
        assert described[:5] == [coordinator, topic, producer_id, "0", "Ongoing"]
        assert f"{topic}-0" in described
        where = ("--topic", topic, "--partition", "0")
        (active,) = _rows(run("kafka-transactions", "describe-producers", *where))
        assert (active[0], active[1], active[5]) == (producer_id, "0", "0")
        assert _rows(run("kafka-transactions", "find-hanging", "--topic", topic)) == []
        run("kafka-transactions", "abort", *where, "--start-offset", "0")
        (active,) = _rows(run("kafka-transactions", "describe-producers", *where))
        assert active[5] == "None"
        assert committed(client, bootstrap, topic) == []


def _rows(output: str) -> list[list[str]]:
    """The rows of a table below its header."""
    return [re.split(r"\s+", line.strip()) for line in output.splitlines()[1:] if line.strip()]


@needs_java
def test_console_consumer_and_offsets_by_isolation(run: Run, bootstrap: str, topic: str, client: Client) -> None:
    create_topic(bootstrap, topic)
    with transactor(client, bootstrap, topic) as producer:
        for value, finish in ((b"yes", producer.commit), (b"no", producer.abort), (b"again", producer.commit)):
            producer.begin()
            producer.send(topic, value)
            finish()
    whole = ("--topic", topic, "--from-beginning")
    seen = {
        level: run("kafka-console-consumer", *whole, "--isolation-level", level, "--max-messages", count).split()
        for level, count in (("read_committed", "2"), ("read_uncommitted", "3"))
    }
    assert seen == {"read_committed": ["yes", "again"], "read_uncommitted": ["yes", "no", "again"]}


@needs_java
def test_producer_perf_test_in_transactions(run: Run, bootstrap: str, topic: str, client: Client) -> None:
    create_topic(bootstrap, topic)
    done = tools.tool(
        "kafka-producer-perf-test", "--topic", topic, "--num-records", "2000", "--record-size", "10",
        "--throughput", "-1", "--transactional-id", topic, "--transaction-duration-ms", "50",
        "--producer-props", f"bootstrap.servers={bootstrap}",
    )  # fmt: skip
    assert "2000 records sent" in done.stdout
    assert len(committed(client, bootstrap, topic)) == 2000
