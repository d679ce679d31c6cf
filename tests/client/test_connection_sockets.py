"""Connections over real sockets: to servers that are slow, mute, rude or not there."""

from __future__ import annotations

import hashlib
import random
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred, ensureDeferred, gatherResults
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure

from pylogbroker.client.errors import Closed, ConnectionLost, NotConnected
from pylogbroker.client.settings import CLIENT, read
from pylogbroker.rpc.connection import BrokerConnection, connect
from pylogbroker.rpc.endpoint import endpoint
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.wire.messages.fetch import FetchRequest
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.rpc.test_connection import API_VERSIONS, HEARTBEAT, PRODUCE, frame, heartbeat_answer, versions_answer
from tests.support.reactor_run import wait_for

FETCH = 1
RANGES = {API_VERSIONS: (0, 4), HEARTBEAT: (0, 2), PRODUCE: (3, 8), FETCH: (4, 4)}


class Server(Protocol):
    """Peer on Twisted's own transport: answers ApiVersions, and leaves the rest to the test."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost = False
        self.greeting = versions_answer(0, RANGES)

    def dataReceived(self, data: bytes) -> None:
        if not self.received and self.greeting:
            assert self.transport is not None
            self.transport.write(self.greeting)
        self.received += data

    def connectionLost(self, reason: Any = None) -> None:
        self.lost = True


@asynccontextmanager
async def serving(make: Callable[[], Server] = Server, host: str = "127.0.0.1") -> AsyncIterator[Any]:
    """A server; `.port`, and `.servers` for the connections that it accepted."""
    accepted: list[Server] = []

    def build(_: Any) -> Server:
        accepted.append(make())
        return accepted[-1]

    factory = Factory()
    factory.noisy = False
    factory.buildProtocol = build  # type: ignore[assignment, method-assign]
    listening = reactor.listenTCP(0, factory, interface=host)  # type: ignore[attr-defined]
    listening.servers = accepted
    listening.port = listening.getHost().port
    yield listening
    for server in accepted:
        assert server.transport is not None
        server.transport.abortConnection()  # type: ignore[attr-defined]
    await listening.stopListening()


async def dial(port: int, host: str = "127.0.0.1", **settings: Any) -> BrokerConnection:
    return await connect(reactor, Address(host, port), ConnectionSettings.of(read(CLIENT, settings)))


async def close(connection: BrokerConnection) -> None:
    gone: Deferred[Any] = Deferred()
    connection.when_lost = lambda _: gone.callback(None)
    connection.close()
    await gone


async def test_a_large_answer_is_received_whole() -> None:
    records = random.Random(1).randbytes(5_000_000)
    async with serving() as server:
        connection = await dial(server.port)
        answers = [connection.request(FetchRequest()) for _ in range(2)]
        partition = struct.pack(">ihqqii", 0, 0, 9, 9, -1, len(records)) + records
        body = struct.pack(">ii", 0, 1) + b"\0\1t" + struct.pack(">i", 1) + partition
        for number in (1, 2):
            server.servers[0].transport.write(frame(struct.pack(">i", number) + body))
        for answer in await gatherResults(answers):
            received = answer.responses[0].partitions[0].records
            assert sha(received) == sha(records)
            assert len(memoryview(received.obj)) == 4 + len(body)  # a view of one buffer: the frame's own
        await close(connection)


async def test_a_slow_reader_gets_all_in_order() -> None:
    records = [random.Random(number).randbytes(1_000_000) for number in range(12)]
    async with serving() as server:
        connection = await dial(server.port)
        await wait_for(lambda: server.servers)
        slow = server.servers[0]
        slow.transport.pauseProducing()
        slow.received.clear()
        slow.greeting = b""
        for each in records:  # more than the socket takes
            connection.request(produce(memoryview(each)), expect_answer=False)
        answer = connection.request(HeartbeatRequest())
        slow.transport.resumeProducing()
        await wait_for(lambda: len(slow.received) > 12_000_000 + 12 * 20 and slow.received.endswith(b"\0\0\0\0"))
        position = 0
        for each in records:
            (size,) = struct.unpack_from(">i", slow.received, position)
            sent = slow.received[position + 4 : position + 4 + size]
            position += 4 + size
            assert sha(sent[-len(each) :]) == sha(each)
        assert struct.unpack_from(">ihh", slow.received, position)[1:] == (HEARTBEAT, 2)
        slow.transport.write(heartbeat_answer(13, 27))
        assert (await answer).error_code == 27
        await close(connection)


async def test_a_request_without_answer_is_done_when_it_is_written() -> None:
    records = produce(memoryview(bytes(12_000_000)))  # more than the socket takes
    async with serving() as server:
        connection = await dial(server.port)
        await wait_for(lambda: server.servers)
        slow = server.servers[0]
        slow.transport.pauseProducing()
        slow.greeting = b""
        sent = connection.request(records, expect_answer=False)
        waiting: list[Failure] = []
        connection.request(HeartbeatRequest()).addErrback(waiting.append)
        assert not sent.called
        slow.transport.resumeProducing()
        assert await sent is None
        assert await connection.request(produce(memoryview(b"little")), expect_answer=False) is None
        slow.transport.pauseProducing()
        lost = connection.request(records, expect_answer=False)
        connection.close()
        with pytest.raises(Closed):
            await lost
        assert len(waiting) == 1


async def test_a_protocol_that_knows_nothing_of_buffers() -> None:
    async with serving() as server:
        plain: Any = await endpoint(reactor, "127.0.0.1", server.port, 5).connect(Factory.forProtocol(Server))
        plain.greeting = b""
        plain.transport.writeSequence([b"hel", b"", b"lo"])
        await wait_for(lambda: plain.received == versions_answer(0, RANGES))
        plain.transport.write(bytes(3_000_000))
        plain.transport.loseConnection()  # once all is sent
        await wait_for(lambda: plain.lost and server.servers[0].lost)
        assert server.servers[0].received == b"hello" + bytes(3_000_000)


async def test_nobody_listens() -> None:
    with pytest.raises(NotConnected, match=r"cannot connect to 127\.0\.0\.1:\d+: .*refused"):
        await dial(unused_port())


async def test_a_host_by_name() -> None:
    async with serving() as server:
        await close(await dial(server.port, "localhost"))


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
async def test_ipv6() -> None:
    try:
        socket.socket(socket.AF_INET6).bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6")
    async with serving(host="::1") as server:
        await close(await dial(server.port, "::1"))


async def test_a_broker_that_never_answers() -> None:
    async with serving(mute) as server:
        for limit_ms in (100, 1000, 10_000):  # it may not have connected before the first one
            with pytest.raises(NotConnected) as caught:
                await dial(server.port, **{"socket.connection.setup.timeout.ms": limit_ms})
            if "did not answer in time: ApiVersions" in str(caught.value):
                break
        assert "did not answer in time: ApiVersions" in str(caught.value)
        await wait_for(lambda: all(each.lost for each in server.servers))


async def test_a_broker_that_answers_garbage() -> None:
    async with serving(rude) as server:
        with pytest.raises(NotConnected, match="does not speak Kafka's protocol"):
            await dial(server.port)
        await wait_for(lambda: server.servers[0].lost)


async def test_a_broker_that_closes_at_once() -> None:
    class Closing(Server):
        def connectionMade(self) -> None:
            assert self.transport is not None
            self.transport.loseConnection()

    async with serving(Closing) as server:
        with pytest.raises(NotConnected, match="was lost"):
            await dial(server.port)


async def test_connecting_times_out() -> None:
    async with serving(mute) as server:
        dialling = ensureDeferred(dial(server.port))
        await wait_for(lambda: server.servers and server.servers[0].received)
        dialling.addErrback(lambda _: None)
        dialling.cancel()
        await wait_for(lambda: server.servers[0].lost)


async def test_a_broker_that_goes_while_it_is_sent_to() -> None:
    async with serving() as server:
        connection = await dial(server.port)
        await wait_for(lambda: server.servers)
        server.servers[0].transport.pauseProducing()
        waiting = connection.request(produce(bytes(20_000_000)))
        server.servers[0].transport.abortConnection()
        with pytest.raises(ConnectionLost):
            await waiting
        assert not connection.is_open


def sha(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


def mute() -> Server:
    server = Server()
    server.greeting = b""
    return server


def rude() -> Server:
    server = Server()
    server.greeting = b"SSH-2.0-OpenSSH_9.2\r\n"
    return server


def unused_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


def produce(records: Any) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[partition])])
