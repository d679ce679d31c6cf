"""0.7's bytes over sockets to a running broker, and the same topics read and written by clients of Kafka's protocol."""

from __future__ import annotations

import os
import random
import socket
import struct
from itertools import pairwise
from threading import Thread

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as Partition
from kafka.errors import UnsupportedForMessageFormatError

from pylogbroker.wire import request_codec
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest
from tests.legacy07 import message_sets
from tests.legacy07.conftest import SimpleBroker
from tests.peers import available
from tests.peers.tools import tool

PipelinedConnection = list[tuple[bytes, bytes]]

RECORDED: PipelinedConnection = [
    (message_sets.PRODUCE_ONE, b""),
    (message_sets.MULTIPRODUCE_TWO, b""),
    (message_sets.FETCH, message_sets.FETCHED),
    (message_sets.LATEST, message_sets.LATEST_ANSWER),
    (message_sets.EARLIEST, message_sets.EARLIEST_ANSWER),
]


def pipelined(topic: bytes) -> PipelinedConnection:
    """The recorded one about another topic."""
    multiproduce = message_sets.request(3, b"\0\1" + message_sets.produce(topic, 0, message_sets.TWO)[6:])
    requests = [
        message_sets.produce(topic, 0, message_sets.ONE),
        multiproduce,
        message_sets.fetch(topic, 0, 0, 100_000),
        message_sets.offsets(topic, 0, -1, 10),
        message_sets.offsets(topic, 0, -2, 10),
    ]
    return [(request, answer) for request, (_, answer) in zip(requests, RECORDED, strict=True)]


def receive(connection: socket.socket) -> bytes:
    """One answer, with its length."""
    head = _exactly(connection, 4)
    return head + _exactly(connection, struct.unpack(">i", head)[0])


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        assert part, "the broker closed the connection"
        data += part
    return data


def test_the_recorded_exchanges_byte_by_byte(running: SimpleBroker) -> None:
    assert pipelined(b"t") == RECORDED
    with running.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for request, answer in RECORDED:
            for place in range(len(request)):
                connection.sendall(request[place : place + 1])
            if answer:
                assert receive(connection) == answer


def test_split_at_every_byte(running: SimpleBroker) -> None:
    """Each recorded session uses a topic of its own and is sent in two parts; all answers are checked at the end."""
    expected = b"".join(answer for _, answer in RECORDED)
    for cut in range(1, sum(len(request) for request, _ in pipelined(b"split-000"))):
        data = b"".join(request for request, _ in pipelined(b"split-%03d" % cut))
        with running.connect() as connection, running.connect() as other:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(data[:cut])
            for _ in range(2):  # with the second answer, the reactor's round with the first part is over
                other.sendall(message_sets.offsets(b"other", 0, -1, 10))
                receive(other)
            connection.sendall(data[cut:])
            assert _exactly(connection, len(expected)) == expected


def test_large_fetches_come_from_the_file(running: SimpleBroker) -> None:
    chance = random.Random(1)
    data = b"".join(message_sets.message(chance.randbytes(chance.randrange(100_000))) for _ in range(60))
    starts = [at for at, _ in message_sets.read_set(data)] + [len(data)]
    with running.connect() as connection:
        for begin, end in pairwise(starts):
            connection.sendall(message_sets.produce(b"large", 0, data[begin:end]))
        position, found = 0, b""
        while position < len(data):
            connection.sendall(message_sets.fetch(b"large", 0, position, 700_000))
            answer = receive(connection)
            assert answer[4:6] == b"\0\0"
            found += answer[6:]
            position += len(answer) - 6
        assert found == data


def test_many_requests_at_once_are_answered_in_order(running: SimpleBroker) -> None:
    """Produces to a new topic, which have no answer, and fetches from it, in one stream that is not waited for."""
    data, expected, position = b"", b"", 0
    for number in range(3000):
        message = message_sets.message(b"number %d" % number)
        data += message_sets.produce(b"pipelined", 0, message) + message_sets.fetch(b"pipelined", 0, position)
        data += message_sets.multifetch((b"pipelined", 0, position, 9), (b"pipelined", 8, 0, 9))
        expected += message_sets.answer(0, message) + message_sets.answer(
            0, message_sets.answer(0, message[:9]) + message_sets.answer(3)
        )
        position += len(message)
    with running.connect() as connection:
        sending = Thread(target=connection.sendall, args=(data,))
        sending.start()
        assert _exactly(connection, len(expected)) == expected
        sending.join()


def test_a_client_that_does_not_read_delays_only_itself(running: SimpleBroker) -> None:
    data = message_sets.message(b"slow" * 20_000)
    with running.connect() as connection, running.connect() as other:
        connection.sendall(message_sets.produce(b"slow", 0, data) + message_sets.fetch(b"slow", 0, 0))
        assert receive(connection) == message_sets.answer(0, data)
        before = resident(running)
        count, small = 400, 60_000  # what is as small is read into memory
        sending = Thread(target=connection.sendall, args=(message_sets.fetch(b"slow", 0, 0, small) * count,))
        sending.start()
        for _ in range(20):
            other.sendall(message_sets.fetch(b"slow", 0, 0, 10))
            assert receive(other) == message_sets.answer(0, data[:10])
        assert resident(running) - before < 12 << 20
        assert _exactly(connection, (small + 6) * count) == message_sets.answer(0, data[:small]) * count
        sending.join()


def resident(broker: SimpleBroker) -> int:
    """Bytes of memory that the broker's process has."""
    with open(f"/proc/{broker.process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


BAD = [
    (
        b"".join(map(bytes, request_codec(18, 3).frame(1, "a-client", ApiVersionsRequest("x", "1")))),
        "this looks like ApiVersions 3 of Kafka's protocol, from the client 'a-client'",
    ),
    (b"GET / HTTP/1.1\r\n\r\n", "this looks like HTTP"),
    (message_sets.request(9, b""), "request type 9"),
    (message_sets.request(1, b"\0\1t"), "where 0 are left"),
    (message_sets.FETCH[:3] + b"\x16" + message_sets.FETCH[4:] + b"\0", "left behind"),
    (struct.pack(">i", -5), "length is -5"),
    (struct.pack(">i", 0x7FFFFFFF), "larger than socket.request.max.bytes"),
    (
        message_sets.produce(b"bad", 0, message_sets.ONE[:-1] + b"f"),
        "a produce to 'bad', partition 0, failed: the message at position 0",
    ),
    (
        message_sets.produce(b"bad", 9, message_sets.ONE),
        "a produce to 'bad', partition 9, failed: there is no partition bad-9",
    ),
    (message_sets.produce(b"b/d", 0, message_sets.ONE), "a produce to 'b/d', partition 0, failed"),
]


@pytest.mark.parametrize(("request_", "why"), BAD, ids=range(len(BAD)))
def test_a_bad_request_closes_the_connection_and_one_line_says_why(
    running: SimpleBroker, request_: bytes, why: str
) -> None:
    with running.connect() as connection:
        connection.sendall(request_)
        with pytest.raises((ConnectionResetError, AssertionError)):
            receive(connection)
    running.process.expect(r"closing the connection from 127\.0\.0\.1:\d+ on SIMPLE: .*" + why.replace("(", r"\("))


def test_kafka_clients_read_messages_of_0_7_clients(running: SimpleBroker) -> None:
    parts = [
        message_sets.ONE,
        message_sets.ZIPPED,
        message_sets.wrapped([b"s1", b"s2", b"s3"], message_sets.SNAPPY),
        message_sets.message(b"old", 0),
        message_sets.TWO,
    ]
    with running.connect() as connection:
        for part in parts:
            connection.sendall(message_sets.produce(b"read", 0, part))
        connection.sendall(message_sets.fetch(b"read", 0, 0))
        assert receive(connection) == message_sets.answer(0, b"".join(parts))
    snappy = 13 + len(parts[1])
    old = snappy + len(parts[2])
    expected = [(0, b"one"), (13, b"g1"), (14, b"g2")]
    expected += [(snappy + n, b"s%d" % (n + 1)) for n in range(3)]
    expected += [(old, b"old"), (old + len(parts[3]), b"two")]
    size = sum(map(len, parts))
    assert read_by_kafka_python(running, "read", len(expected)) == expected
    assert read_by_confluent(running, "read", size) == expected


def read_by_kafka_python(broker: SimpleBroker, topic: str, count: int) -> list[tuple[int, bytes]]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=120_000)
    consumer.assign([Partition(topic, 0)])
    consumer.seek(Partition(topic, 0), 0)
    found = [(message.offset, message.value) for _, message in zip(range(count), consumer, strict=False)]
    consumer.close()
    return found


def read_by_confluent(broker: SimpleBroker, topic: str, end: int) -> list[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "any", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(120)) is not None and message.error() is None:
        assert message.key() is None
        found.append((message.offset(), message.value()))
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0)) == (0, end)
    consumer.close()
    return found


@pytest.mark.parametrize("kind", ["confluent", "kafka-python"])
def test_a_group_goes_on_where_it_was(running: SimpleBroker, kind: str) -> None:
    """Continue even behind a record within a compressed message, where no message begins."""
    topic = f"group-{kind}"
    parts = [
        message_sets.ONE,
        message_sets.wrapped([b"a", b"b", b"c"]),
        message_sets.TWO,
        message_sets.wrapped([b"d", b"e"], message_sets.SNAPPY),
        message_sets.THREE,
    ]
    with running.connect() as connection:
        connection.sendall(
            message_sets.produce(topic.encode(), 0, b"".join(parts)) + message_sets.offsets(topic.encode(), 0, -1, 1)
        )
        receive(connection)
    read = some_by_confluent if kind == "confluent" else some_by_kafka_python
    found = [each for count in (1, 2, 2, 1, 2) for each in read(running, topic, count)]
    begin = [0, 13, 13 + len(parts[1]), 26 + len(parts[1]), sum(map(len, parts[:4]))]
    expected = [(0, b"one"), *((begin[1] + n, b"abc"[n : n + 1]) for n in range(3)), (begin[2], b"two")]
    expected += [(begin[3], b"d"), (begin[3] + 1, b"e"), (begin[4], b"three")]
    assert found == expected


def some_by_confluent(broker: SimpleBroker, topic: str, count: int) -> list[tuple[int, bytes]]:
    """So many records, the last of which is committed, by a new member of the topic's group."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    consumer.subscribe([topic])
    found = []
    while len(found) < count:
        message = consumer.poll(120)
        assert message is not None
        assert message.error() is None
        found.append((message.offset(), message.value()))
    consumer.commit(message, asynchronous=False)
    consumer.close()
    return found


def some_by_kafka_python(broker: SimpleBroker, topic: str, count: int) -> list[tuple[int, bytes]]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=120_000,
    )
    found = [(message.offset, message.value) for _, message in zip(range(count), consumer, strict=False)]
    consumer.commit()
    consumer.close()
    return found


def test_clients_of_0_7_read_messages_of_kafka_clients(running: SimpleBroker) -> None:
    with running.connect() as connection:
        connection.sendall(message_sets.produce(b"written", 0, message_sets.ONE))
        connection.sendall(message_sets.fetch(b"written", 0, 0))
        assert receive(connection) == message_sets.answer(0, message_sets.ONE)
        producer = KafkaProducer(bootstrap_servers=running.bootstrap, enable_idempotence=False, acks="all")
        assert producer.send("written", b"hello").get(120).offset == 13
        with pytest.raises(UnsupportedForMessageFormatError):
            producer.send("written", b"value", key=b"key").get(120)
        producer.close()
        connection.sendall(message_sets.fetch(b"written", 0, 13))
        assert receive(connection) == message_sets.answer(0, message_sets.HELLO)


def test_killed_and_started_again(running: SimpleBroker) -> None:
    """All messages survive a crash of the process, and a torn message after them is cut off."""
    with running.connect() as connection:
        for _ in range(200):
            connection.sendall(message_sets.produce(b"killed", 0, message_sets.ONE + message_sets.ZIPPED))
        connection.sendall(message_sets.offsets(b"killed", 0, -1, 1))
        assert receive(connection) == message_sets.offsets_answer(0, 200 * 64)
    running.kill()
    with open(running.partition_dir("killed", 0) / f"{0:020}.kafka", "ab") as file:
        file.write(message_sets.HELLO[:-2])
    running.start()
    with running.connect() as connection:
        connection.sendall(message_sets.produce(b"killed", 0, message_sets.TWO))
        connection.sendall(message_sets.fetch(b"killed", 0, 0))
        assert receive(connection) == message_sets.answer(
            0, (message_sets.ONE + message_sets.ZIPPED) * 200 + message_sets.TWO
        )


def test_stopped_cleanly(running: SimpleBroker) -> None:
    with running.connect() as connection:
        connection.sendall(message_sets.produce(b"stopped", 0, message_sets.ONE))
        connection.sendall(message_sets.fetch(b"stopped", 0, 0))
        assert receive(connection) == message_sets.answer(0, message_sets.ONE)
    assert running.stop() == 0
    running.start()
    with running.connect() as connection:
        connection.sendall(message_sets.fetch(b"stopped", 0, 0))
        assert receive(connection) == message_sets.answer(0, message_sets.ONE)


@pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
def test_kafkas_own_tools(running: SimpleBroker) -> None:
    """Kafka's consumer reads all, its producer writes, and there are no times to look for."""
    topic, server = "tools", ("--bootstrap-server", running.bootstrap)
    with running.connect() as connection:
        for number in range(30):
            one = message_sets.message(b"plain %d" % number)
            connection.sendall(
                message_sets.produce(b"tools", 0, one + message_sets.wrapped([b"zipped %d" % number, b"twice"]))
            )
        connection.sendall(message_sets.offsets(b"tools", 0, -1, 1))
        (end,) = struct.unpack(">q", receive(connection)[-8:])
    plain = ("--producer-property", "enable.idempotence=false", "--topic", topic)
    tool("kafka-console-producer", *server, *plain, input="written\n")
    group = ("--group", "tools-group", "--topic", topic)
    bounds = ("--from-beginning", "--timeout-ms", "5000", "--max-messages", "91")
    read = tool("kafka-console-consumer", *server, *group, *bounds)
    expected = [line for number in range(30) for line in (f"plain {number}", f"zipped {number}", "twice")]
    assert read.stdout.splitlines() == [*expected, "written"]
    after = end + len(message_sets.message(b"written"))
    found = tool("kafka-get-offsets", *server, "--topic", topic).stdout
    assert found.strip() == f"tools:0:{after}"
    no_time = tool("kafka-get-offsets", *server, "--topic", topic, "--time", "1").stdout
    assert no_time == ""
