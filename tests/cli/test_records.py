"""`pylogbroker consume` and `produce` on a running broker, beside librdkafka."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pylogbroker.cli import consume, main
from pylogbroker.cli.bulk_reader import BulkReader
from pylogbroker.cli.partition_reader import PartitionReader
from pylogbroker.errors import ErrorCode, KafkaError
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
Command = Callable[..., Result]


@pytest.fixture
def run(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("PYLOGBROKER_BOOTSTRAP_SERVER", broker.bootstrap)

    def run(*arguments: object, given: str = "", code: int = 0) -> Result:
        found = CliRunner().invoke(main, [*map(str, arguments)], input=given)
        assert found.exit_code == code, found.output
        return found

    return run


@pytest.fixture
def made(broker: Broker, topic: str) -> str:
    """A topic with two partitions and five records."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "-1"})])[topic].result(60)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for number in range(5):
        headers: Any = [("number", str(number).encode())]
        producer.produce(
            topic,
            b"v%d" % number,
            b"k%d" % number,
            number % 2,
            timestamp=1000 * number or 1,  # 0 means now
            headers=headers,
        )
        assert producer.flush(120) == 0
    return topic


def read(broker: Broker, topic: str, count: int) -> list[tuple[Any, ...]]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
    found = consumer.consume(count, 120)
    consumer.close()
    return [(each.partition(), each.key(), each.value(), each.headers()) for each in found]


@pytest.fixture(params=["each", "many"])
def _both_readers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read records one by one, and many at once."""
    if request.param == "many":
        monkeypatch.setattr(consume, "_MANY_RECORDS", 1)
        monkeypatch.setattr(PartitionReader, "messages", lambda _: iter(()))


@pytest.mark.usefixtures("_both_readers")
def test_consume_options_choose_start_end_and_records(run: Command, made: str) -> None:
    def values(*arguments: object, topic: str = made) -> list[str]:
        return sorted(run("consume", topic, "-f", r"%s\n", *arguments).stdout.split())

    assert values("-e") == ["v0", "v1", "v2", "v3", "v4"]
    assert values("-e", topic=f"{made}:1") == ["v1", "v3"]
    assert values("-e", "-o", "1") == ["v2", "v3", "v4"]
    assert values("-e", "-o", "-1") == ["v3", "v4"]
    assert values("-e", "-o", "end") == []
    assert values("-e", "--since", "1500") == ["v2", "v3", "v4"]
    assert values("--since", "1000", "--until", "1970-01-01T00:00:03Z") == ["v1", "v2"]
    assert len(values("-n", 3)) == 3
    assert values("-e", "--key", "[12]$") == ["v1", "v2"]
    assert values("-e", "--grep", "v4") == ["v4"]
    assert values("-e", "--header", "number=3") == ["v3"]
    assert values("-e", "--header", "other") == []
    assert len(values("-e", "--header", "number")) == 5


def test_consume_says_that_there_are_no_records(run: Command, made: str) -> None:
    assert run("consume", made, "-e", "--key", "x").stderr == "No records that match.\n"
    assert run("consume", made, "-e").stderr == ""
    run("topic", "trim", made, "--all", "--yes")
    assert run("consume", made, "-e").stderr == "No records.\n"


def test_a_topic_may_be_created_after_consume(run: Command, made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not know a topic yet is asked again."""
    waits = []

    def appear(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            run("topic", "create", f"{made}-new")

    monkeypatch.setattr("pylogbroker.cli.topic.time", SimpleNamespace(sleep=appear, monotonic=monotonic))
    assert run("consume", f"{made}-new", "-e").stderr == "No records.\n"
    assert len(waits) == 2


def test_consume_without_standard_output_is_an_error_in_one_line(broker: Broker, made: str) -> None:
    command = [sys.executable, "-m", "pylogbroker.cli", "consume", made, "-e", "-b", broker.bootstrap]
    done = subprocess.run(
        command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False, preexec_fn=lambda: os.close(1)
    )
    assert (done.returncode, done.stderr) == (
        1,
        "Error: the standard output is closed: records have nowhere to go\n",
    )


def test_a_reader_of_a_pipe_that_has_enough_ends_consume_in_silence(broker: Broker, made: str) -> None:
    command = [sys.executable, "-m", "pylogbroker.cli", "consume", made, "-b", broker.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for _ in range(2):
            producer.produce(made, b"later", partition=0)
            assert producer.flush(120) == 0
        assert process.wait(120) == 1
        assert process.stderr.read() == b""


@pytest.mark.usefixtures("_both_readers")
def test_transactions_hide_records(run: Command, made: str, broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": made})
    producer.init_transactions(120)
    for value, end in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(made, value, partition=0)
        assert producer.flush(120) == 0
        end(120)
    read = run("consume", f"{made}:0", "-e", "-o", "3").stdout.split()
    assert read == ["committed"]
    uncommitted = ("-X", "isolation.level=read_uncommitted")
    assert run("consume", f"{made}:0", "-e", "-o", "3", *uncommitted).stdout.split() == ["aborted", "committed"]


def test_a_reader_that_fails_is_followed_by_the_other(run: Command, made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No record is missing or comes twice."""
    monkeypatch.setattr(consume, "_MANY_RECORDS", 1)
    decoded = BulkReader._decoded

    def fail(self: BulkReader, key: Any, fetched: Any) -> Any:
        if key[1] == 1:
            raise KafkaError("enough", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return decoded(self, key, fetched)

    monkeypatch.setattr(BulkReader, "_decoded", fail)
    assert sorted(run("consume", made, "-e").stdout.split()) == ["v0", "v1", "v2", "v3", "v4"]


def test_records_as_json(run: Command, made: str) -> None:
    lines = run("consume", made, "-e", "-f", "json").stdout.splitlines()
    found = sorted(map(json.loads, lines), key=lambda it: it["value"])
    assert found[3] == {
        **{"topic": made, "partition": 1, "offset": 1, "timestamp": 3000, "key": "k3", "value": "v3"},
        "headers": [["number", "3"]],
    }


def test_wrong_arguments(run: Command, made: str) -> None:
    for arguments, reported in (
        (("-g", "x", "--since", "1"), "a group starts at its committed offsets"),
        (("-g", "x", "-o", "4"), "a group starts at its committed offsets"),
        (("-o", "4", "--since", "1"), "give --offset or --since"),
        (("--key", "("), "is not a regular expression"),
    ):
        assert reported in run("consume", made, *arguments, code=2).stderr
    assert "expected beginning, end, an offset, or -N" in run("consume", made, "-o", "x", code=1).stderr
    for group in ((), ("-g", "x")):
        assert "there is no topic no-such-topic" in run("consume", "no-such-topic", *group, code=1).stderr
    assert "name topics alone" in run("consume", f"{made}:0", "-g", "x", code=2).stderr
    assert "--key-delimiter is empty" in run("produce", made, "-K", "", code=2).stderr


def test_records_that_are_missing_are_reported(run: Command, made: str) -> None:
    """`made` has three records in partition 0, and two in partition 1."""
    beyond = run("consume", made, "-e", "-o", 4, code=1).stderr
    assert beyond == f"Error: --offset: there is no offset 4 yet: {made}/0 ends at 3, {made}/1 ends at 2\n"
    partly = run("consume", made, "-e", "-o", 3)
    assert partly.stderr.splitlines() == [f"Not all partitions have offset 3: {made}/1 ends at 2.", "No records."]
    run("topic", "trim", f"{made}:0", "--before-offset", 2, "--yes")
    late = run("consume", made, "-e", "-o", 1, "-f", "%p%o ")
    assert (sorted(late.stdout.split()), late.stderr) == (
        ["02", "11"],
        f"Not all partitions have offset 1: {made}/0 begins at 2.\n",
    )
    assert run("consume", made, "-e", "--since", "2100-01-01").stderr == "No records since 2100-01-01.\n"
    wrong = run("consume", made, "--since", "12h", "--until", "13h", code=2).stderr
    assert "--until 13h is not after --since 12h" in wrong


def test_base64_is_of_json_alone(run: Command, made: str) -> None:
    assert "--base64 needs --format json" in run("consume", made, "-e", "--base64", code=2).stderr
    assert "--base64 needs --json" in run("produce", made, "--base64", given="eA==", code=2).stderr


def test_a_group(run: Command, made: str, group: str, broker: Broker) -> None:
    found = run("consume", made, "-g", group, "-n", 5, "-f", r"%s\n").stdout.split()
    assert sorted(found) == ["v0", "v1", "v2", "v3", "v4"]
    assert committed_by(broker, group) == {0: 3, 1: 2}


def test_a_group_reads_many_records_with_conditions(run: Command, made: str, group: str, broker: Broker) -> None:
    produce_numbers(broker, made, 1000)
    found = run("consume", made, "-g", group, "-n", 3, "--grep", "^n.*7$", "-f", r"%s\n").stdout.split()
    assert found == ["n7", "n17", "n27"]
    assert committed_by(broker, group)[0] == 3 + 28  # not a record more than what was looked at
    found = run("consume", made, "-g", group, "-n", 2, "--grep", "^n", "-f", r"%o %s\n").stdout.split()
    assert found == ["31", "n28", "32", "n29"]


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGKILL])
def test_a_group_that_is_interrupted_while_it_writes_loses_no_record(
    made: str, group: str, broker: Broker, way: signal.Signals
) -> None:
    produce_numbers(broker, made, 30_000)
    words = ["consume", made, "-g", group, "-f", r"%p %o\n", "-b", broker.bootstrap]
    command = [sys.executable, "-m", "pylogbroker.cli", *words, "-X", "auto.commit.interval.ms=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        sizes = [bytes(4)]
        wait_until(lambda: is_full(process, sizes))  # or slow: what must hold does not depend on it
        process.send_signal(way)
        *lines, _ = process.stdout.read().split(b"\n")  # the last one may be incomplete
        assert process.wait(120) == (130 if way is signal.SIGINT else -way)
    printed = [int(line[2:]) for line in lines if line.startswith(b"0 ")]
    assert printed == [*range(len(printed))]
    assert committed_by(broker, group).get(0, 0) <= len(printed)


def is_full(process: subprocess.Popen[bytes], sizes: list[bytes]) -> bool:
    """Return whether the pipe has as many bytes as it had at the last looks."""
    assert process.stdout is not None
    sizes.append(fcntl.ioctl(process.stdout, termios.FIONREAD, bytes(4)))
    return sizes[-1] != bytes(4) and sizes[-10:] == sizes[-1:] * 10


def committed_by(broker: Broker, group: str) -> dict[int, int]:
    """Return the offset that a group has committed, by partition."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    [offsets] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {committed.partition: committed.offset for committed in offsets.result(60).topic_partitions}


def produce_numbers(broker: Broker, topic: str, count: int) -> None:
    """Produce n0, n1, n2 ... to partition 0."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(count):
        producer.produce(topic, b"n%d" % number, partition=0)
    assert producer.flush(120) == 0


def test_lines(run: Command, made: str, broker: Broker) -> None:
    run("topic", "trim", made, "--all", "--yes")
    produced = run("produce", made, "-p", 1, "-K", ":", "-H", "a=b", "-Z", given="x:1\ny:\nz\n")
    assert produced.stderr == f"Wrote 3 records to {made}.\n"
    headers = [("a", b"b")]
    assert read(broker, made, 3) == [(1, b"x", b"1", headers), (1, b"y", None, headers), (1, None, b"z", headers)]


def test_json_that_was_consumed(run: Command, made: str, broker: Broker, fresh_name: Callable[[], str]) -> None:
    copy = fresh_name()
    run("topic", "create", copy, "-p", 1, "-c", "retention.ms=-1")
    lines = run("consume", f"{made}:0", "-e", "-f", "json", "--base64").stdout
    run("produce", copy, "--json", "--base64", given=lines)
    copied = run("consume", copy, "-e", "-f", r"%T %k %s %h\n").stdout
    assert copied == run("consume", f"{made}:0", "-e", "-f", r"%T %k %s %h\n").stdout
    assert "is no record" in run("produce", copy, "--json", given="x\n", code=1).stderr


def test_a_file_as_one_value(run: Command, made: str, broker: Broker, tmp_path: Path) -> None:
    run("topic", "trim", made, "--all", "--yes")
    (tmp_path / "file").write_bytes(b"a\nb\n\xff")
    run("produce", made, tmp_path / "file", "--file-as-value", "-k", "key")
    [(_, key, value, _)] = read(broker, made, 1)
    assert (key, value) == (b"key", b"a\nb\n\xff")


def test_consume_follows_the_log_until_interrupted(broker: Broker, made: str) -> None:
    command = [
        sys.executable,
        "-m",
        "pylogbroker.cli",
        "consume",
        made,
        "-o",
        "-1",
        "-f",
        r"%s\n",
        "-b",
        broker.bootstrap,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert {process.stdout.readline() for _ in range(2)} == {b"v3\n", b"v4\n"}
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce(made, b"later", partition=0)
        assert producer.flush(120) == 0
        assert process.stdout.readline() == b"later\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.stderr.read() == b""
        assert process.wait(120) == 130
