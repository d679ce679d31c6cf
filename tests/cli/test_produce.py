"""`pylogbroker produce` from pipes: what goes out when, and what becomes of it at the end."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pylogbroker.cli import batch_producer, main
from pylogbroker.cli.cluster_options import Connection
from pylogbroker.cli.line_records import LineRecords, Target, columns_of_lines
from pylogbroker.cli.line_sender import LineSender, LineSplitter, WaitEnder
from pylogbroker.client.producer import RecordMetadata, SomeFailed
from pylogbroker.errors import ConfigError, PylogbrokerError
from pylogbroker.partition_hash import partition_of_key
from tests.support.brokers import Broker
from tests.support.examples import examples

ROOT = Path(__file__).resolve().parents[2]
CONNECTION = Connection({"bootstrap.servers": "127.0.0.1:1"}, 30)
#: The limit, and a chunk of short lines on top of it.
UNACKNOWLEDGED_BYTES = (4 << 20) + (1 << 18) * 257


@pytest.fixture
def made(broker: Broker, topic: str) -> str:
    """A topic with one partition."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    return topic


@pytest.fixture
def consumer(broker: Broker, made: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x"})
    consumer.assign([TopicPartition(made, 0, 0)])
    yield consumer
    consumer.close()


def values(consumer: Consumer, count: int) -> list[bytes | None]:
    return [each.value() for each in consumer.consume(count, 120)]


@contextmanager
def producing(broker: Broker, *arguments: object, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "pylogbroker.cli", "produce", *map(str, arguments), "-b", broker.bootstrap]
    options = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with subprocess.Popen(command, cwd=ROOT, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def write(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()


def test_lines_leave_while_the_pipe_is_open(broker: Broker, made: str, consumer: Consumer) -> None:
    with producing(broker, made) as process:
        for lines in ([b"a", b"", b"b\r"], [b"\xff\0c"]):
            write(process, b"".join(line + b"\n" for line in lines))
            assert values(consumer, len(lines)) == lines
        _, errors = process.communicate(b"at the end\r", timeout=120)
        assert (process.returncode, errors) == (0, f"Wrote 5 records to {made}.\n".encode())
    assert values(consumer, 1) == [b"at the end\r"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_reading_and_report_the_records(
    broker: Broker, made: str, consumer: Consumer, number: signal.Signals
) -> None:
    with producing(broker, made) as process:
        write(process, b"a\nb\nhalf")
        assert values(consumer, 2) == [b"a", b"b"]
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    reported = f"Wrote 2 records to {made}.\nThe last line was incomplete and not sent: 4 bytes.\n"
    assert errors.decode() == reported


def test_a_closed_standard_input_is_an_error_in_one_line(broker: Broker, made: str) -> None:
    with producing(broker, made, stdin=None, preexec_fn=lambda: os.close(0)) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert b"the standard input is closed: give a file" in errors
    assert b"Traceback" not in errors


def test_lines_before_a_wrong_one_are_sent(broker: Broker, made: str, consumer: Consumer) -> None:
    lines = b'{"value": "a"}\n{"value": "b"}\n{"value": "\xff"}\n{"value": "c"}\n'
    found = CliRunner().invoke(main, ["produce", made, "--json", "-b", broker.bootstrap], input=lines)
    assert found.exit_code == 1
    written, error = found.stderr.splitlines()
    assert written == f"Wrote 2 records to {made}."
    assert error.startswith("Error: line 3: ")
    assert "UTF-8" in error
    assert values(consumer, 2) == [b"a", b"b"]


def test_keys_and_headers_keep_their_bytes(broker: Broker, made: str, consumer: Consumer) -> None:
    headers = ("-H", "a= b ", "-H", "a=c=d", "-H", "a=")
    odd = os.fsdecode(b"k\xff ")
    with producing(broker, made, "-k", odd, *headers, "-H", os.fsdecode(b"x=\xfe")) as process:
        _, errors = process.communicate(b"v", timeout=120)
        assert process.returncode == 0, errors
    [record] = consumer.consume(1, 120)
    assert record.key() == b"k\xff "
    assert record.headers() == [("a", b" b "), ("a", b"c=d"), ("a", b""), ("x", b"\xfe")]


def test_a_topic_is_created_on_request(broker: Broker, topic: str) -> None:
    for _ in range(2):
        arguments = ["produce", topic, "--create", "-b", broker.bootstrap]
        assert CliRunner().invoke(main, arguments, input="a\n").stderr == f"Wrote 1 record to {topic}.\n"


def test_lines_go_to_the_partitions_of_their_keys(broker: Broker, topic: str) -> None:
    """Compressed, and more than a batch has."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(60)
    lines = [f"k{number % 100}:{number}" for number in range(20_000)] + ["no key"]
    arguments = ["produce", topic, "-K", ":", "-b", broker.bootstrap, "-X", "compression.type=gzip"]
    done = CliRunner().invoke(main, [*arguments, "-X", "max.request.size=50000"], input="\n".join(lines))
    assert (done.exit_code, done.stderr) == (0, f"Wrote 20001 records to {topic}.\n")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
    records = consumer.consume(len(lines), 120)
    consumer.close()
    by_key: dict[bytes | None, list[bytes | None]] = {}
    for record in records:
        by_key.setdefault(record.key(), []).append(record.value())
        key = record.key()
        assert key is None or record.partition() == partition_of_key(key, 3)
    assert by_key.pop(None) == [b"no key"]
    expected = {b"k%d" % key: [b"%d" % number for number in range(key, 20_000, 100)] for key in range(100)}
    assert by_key == expected


OPTIONS = (
    ("-K", ":", "-Z", "-H", "a=b", "-H", "a=", "-p", 2),
    ("-K", ":", "-Z", "-z", "gzip"),
    ("--json", "-H", "a=b"),
    ("-k", "key", "-H", "name=value"),
)


@pytest.mark.parametrize("options", OPTIONS)
def test_both_producers_write_the_same_records(
    broker: Broker, fresh_name: Callable[[], str], options: Sequence[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare the producer for plugins, which takes single records, with the usual one, which takes many."""
    chance = random.Random(str(options))
    keys = [*(f"k{number % 9}:" for number in range(12)), "", ":"]
    lines = [f"{chance.choice(keys)}{chance.choice(['', 'v', number])}" for number in range(300)]
    if "--json" in options:
        headers = [[], [], [["x", None], ["x", "y"]]]
        lines = [
            json.dumps({"key": line[:2], "value": line or None, "headers": chance.choice(headers), "timestamp": number})
            for number, line in enumerate(lines, 1000)
        ]
    written = []
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for unsupported in (frozenset[str](), frozenset({"linger.ms"})):
        monkeypatch.setattr(batch_producer, "UNSUPPORTED", unsupported)
        name = fresh_name()
        new = NewTopic(name, 3, 1, config={"retention.ms": "-1"})
        admin.create_topics([new])[name].result(60)
        arguments = ["produce", name, *map(str, options), "-b", broker.bootstrap]
        done = CliRunner().invoke(main, arguments, input="\n".join([*lines, ""]))
        assert (done.exit_code, done.stderr) == (0, f"Wrote 300 records to {name}.\n")
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x"})
        consumer.assign([TopicPartition(name, partition, 0) for partition in range(3)])
        records = consumer.consume(len(lines), 120)
        consumer.close()
        by_key: dict[Any, list[Any]] = {}
        for record in records:
            place = None if record.key() is None and 2 not in options else record.partition()
            time = record.timestamp()[1] if "--json" in options else None
            by_key.setdefault(record.key(), []).append((place, record.value(), record.headers(), time))
        written.append({key: sorted(rows, key=str) if key is None else rows for key, rows in by_key.items()})
    assert written[0] == written[1]


def test_options_name_what_kcat_names(broker: Broker, made: str, consumer: Consumer, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"a\r\nb\n")
    arguments = ["produce", made, "-b", broker.bootstrap, "-z", "zstd", "-a", "1"]
    assert CliRunner().invoke(main, [*arguments, "-l", str(file)]).exit_code == 0
    done = CliRunner().invoke(main, [*arguments, "-f", "json", "--base64"], input='{"value": "/w==", "key": null}\n')
    assert done.exit_code == 0
    assert values(consumer, 3) == [b"a\r", b"b", b"\xff"]
    assert CliRunner().invoke(main, [*arguments, str(file), "-l", str(file)]).exit_code == 2


def test_a_line_that_is_too_long_is_named(broker: Broker, made: str, consumer: Consumer) -> None:
    arguments = ["produce", made, "-b", broker.bootstrap, "-X", "max.request.size=1000"]
    done = CliRunner().invoke(main, arguments, input=f"a\nb\n{'x' * 1000}\nc\n")
    assert done.exit_code == 1
    wrote, error = done.stderr.splitlines()
    assert wrote == f"Wrote 2 records to {made}."
    assert error.startswith("Error: line 3: a record of 1032 bytes is larger than max.request.size, 1000: raise it")
    assert values(consumer, 2) == [b"a", b"b"]


def test_lines_that_the_broker_rejects_are_named(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    new = NewTopic(topic, 1, 1, config={"max.message.bytes": "500"})
    admin.create_topics([new])[topic].result(60)
    done = CliRunner().invoke(main, ["produce", topic, "-b", broker.bootstrap], input=f"{'x' * 600}\nb\n")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith(f"Error: lines 1 to 2: {topic}/0: ")


def test_lines_do_not_depend_on_how_they_are_read() -> None:
    chance = random.Random(3)
    for _ in range(examples(200)):
        data = bytes(chance.choices(b"a\r\n\0", k=chance.randrange(40)))
        splitter, found, rest = LineSplitter(b"\n", 100), [], data
        while rest:
            size = chance.randint(1, 7)
            found += splitter.lines(rest[:size])
            rest = rest[size:]
        found += splitter.last()
        assert b"".join(line + b"\n" for line in found) == (data if data.endswith(b"\n") or not data else data + b"\n")


def test_a_line_without_end_is_not_kept_in_memory() -> None:
    splitter = LineSplitter(b"\n", 10)
    splitter.lines(b"x" * 10)
    splitter.check()
    splitter.lines(b"x")
    with pytest.raises(ConfigError, match=r"11 bytes without an end of line .* max\.request\.size"):
        splitter.check()


class Producer:
    """Keeps what is submitted; the test acknowledges it."""

    def __init__(self, trouble: str = "") -> None:
        self.trouble = trouble
        self.waiting: list[tuple[list[bytes | None], Future[list[RecordMetadata]]]] = []
        self.values: list[bytes | None] = []
        self.most = self.largest = 0

    def submit(self, columns: LineRecords) -> Future[list[RecordMetadata]]:
        future: Future[list[RecordMetadata]] = Future()
        self.waiting.append(([*columns.values], future))
        self.values += columns.values
        self.largest = max(self.largest, len(columns))
        self.most = max(self.most, sum(256 + len(value or b"") for lot, _ in self.waiting for value in lot))
        return future

    def acknowledge(self, error: BaseException | None = None) -> None:
        values, future = self.waiting.pop(0)
        results = [RecordMetadata("t", 0, 0, 0)] * len(values)
        if error is None:
            future.set_result(results)
        else:
            future.set_exception(SomeFailed([*results[1:], error]))


class Waits(WaitEnder):
    """Waits that `acknowledge` ends."""

    def __init__(self, acknowledge: Callable[[], object]) -> None:
        super().__init__()
        self.acknowledge = acknowledge

    def wait(self, files: list[int], seconds: float | None) -> bool:
        assert not files
        if seconds != 0:
            self.acknowledge()
        return False


def sender(data: bytes, producer: Producer, acknowledge: Callable[[], object], **options: Any) -> LineSender:
    file = cast(BinaryIO, io.BytesIO(data))
    return LineSender(
        Target("t"), file, columns_of_lines, CONNECTION, make_wait_ender=lambda: Waits(acknowledge), **options
    )


def test_reading_pauses_while_much_is_unacknowledged(capsys: pytest.CaptureFixture[str]) -> None:
    producer = Producer()
    data = b"".join(b"%d\n" % number for number in range(1_000_000))
    sender(data, producer, producer.acknowledge).send(cast(Any, producer))
    assert b"\n".join([*producer.values, b""]) == data  # type: ignore[list-item]
    assert producer.most <= UNACKNOWLEDGED_BYTES
    assert producer.largest == 5000
    assert capsys.readouterr().err == "Wrote 1000000 records to t.\n"


def test_an_error_ends_the_reading_and_names_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    producer = Producer()
    failing = sender(b"x\n" * 12_000, producer, lambda: producer.acknowledge(PylogbrokerError("too large")))
    with pytest.raises(PylogbrokerError, match=r"^line 5000: too large$"):
        failing.send(cast(Any, producer))
    assert not producer.waiting
    assert capsys.readouterr().err == "Wrote 11997 records to t.\n"


def test_reason_is_reported_at_once_and_with_the_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    producer, now = Producer("/full: no space"), [0.0]

    def wait() -> None:
        now[0] += 0.25

    stuck = sender(b"a\nb\n", producer, wait, clock=lambda: now[0])
    with pytest.raises(PylogbrokerError, match=r"for 30 s \(--timeout\): /full: no space$"):
        stuck.send(cast(Any, producer))
    assert capsys.readouterr().err.splitlines() == [
        "/full: no space: trying again",
        "Wrote 0 records to t.",
        "Records of lines from 1 to 2 were not acknowledged: they may or may not be written.",
    ]
