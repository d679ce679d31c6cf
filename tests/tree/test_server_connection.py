"""Frames of clients, byte by byte as ZooKeeper's protocol has them, and the server's answers."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.abstract import FileDescriptor
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.main import CONNECTION_DONE
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock, StringTransport

from pylogbroker.peer_log_limit import LINES_PER_MINUTE_MAX
from pylogbroker.tree import acls
from pylogbroker.tree.database import TreeDatabase
from pylogbroker.tree.server import connection, sessions
from pylogbroker.tree.server.connection import IDENTITIES_MAX, WAITING_MAX
from pylogbroker.tree.server.factory import CONNECTIONS_MAX, ServerSettings, ZooKeeperFactory
from pylogbroker.tree.server.login_limit import LOGIN_SECONDS, LOGINS_MAX
from pylogbroker.tree.transactions import Session
from pylogbroker.tree.tree_file import TreeFile
from tests.broker.log_lines import logged_lines
from tests.tree.conftest import now

CREATE, EXISTS, GET_DATA, SET_DATA, GET_CHILDREN, PING, MULTI, SET_WATCHES = 1, 3, 4, 5, 8, 11, 14, 101
CLOSE = -11
OPEN = struct.pack(">iii5si6s", 1, 31, 5, b"world", 6, b"anyone")
NO_NODE, BAD_VERSION, INCONSISTENT, UNIMPLEMENTED, BAD_ARGUMENTS, NO_AUTH = -101, -103, -2, -6, -8, -102
CREATED, DELETED, CHANGED, CHILDREN = 1, 2, 3, 4
EPHEMERAL = 1


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def connect_frame(timeout_ms: int = 6000, session: int = 0, password: bytes = bytes(16), seen: int = 0) -> bytes:
    return struct.pack(">iqiqi16s?", 0, seen, timeout_ms, session, 16, password, False)


def request(op: int, body: bytes = b"", xid: int = 7) -> bytes:
    return struct.pack(">ii", xid, op) + body


def creation(path: str, flags: int = 0) -> bytes:
    return text(path) + text("x") + OPEN + struct.pack(">i", flags)


@attrs.define(eq=False)
class Client:
    """A client's side of a connection; answers are (xid, error, body)."""

    protocol: Any
    transport: StringTransport = attrs.field(factory=StringTransport)

    def __attrs_post_init__(self) -> None:
        self.protocol.makeConnection(self.transport)

    def send(self, frame: bytes) -> None:
        self.protocol.dataReceived(struct.pack(">i", len(frame)) + frame)

    def frames(self) -> list[bytes]:
        data, found = self.transport.value(), []
        self.transport.clear()
        while data:
            [size] = struct.unpack_from(">i", data)
            found.append(data[4 : 4 + size])
            data = data[4 + size :]
        return found

    def connect(self, timeout_ms: int = 6000, session: int = 0, password: bytes = bytes(16)) -> tuple[int, int, bytes]:
        """Return the granted time limit, session id and password."""
        self.send(connect_frame(timeout_ms, session, password))
        [answer] = self.frames()
        _, granted, session_id, _, given = struct.unpack_from(">iiqi16s", answer)
        return granted, session_id, given

    def ask(self, op: int, body: bytes = b"", xid: int = 7) -> list[tuple[int, int, bytes]]:
        self.send(request(op, body, xid))
        return self.answers()

    def answers(self) -> list[tuple[int, int, bytes]]:
        found = []
        for frame in self.frames():
            xid, _, error = struct.unpack_from(">iqi", frame)
            found.append((xid, error, frame[16:]))
        return found

    def create(self, path: str, flags: int = 0) -> None:
        assert self.ask(CREATE, creation(path, flags)) == [(7, 0, text(path))]

    def read(self, op: int, path: str, watch: bool = False) -> int:
        """Return the error."""
        [(_, error, _)] = self.ask(op, text(path) + struct.pack(">?", watch))
        return error

    def set(self, path: str, version: int = -1) -> list[tuple[int, int, bytes]]:
        return self.ask(SET_DATA, text(path) + text("new") + struct.pack(">i", version))


def event(kind: int, path: str) -> tuple[int, int, bytes]:
    return -1, 0, struct.pack(">ii", kind, 3) + text(path)


class FullBuffer(FileDescriptor):
    """A transport without a buffer: each byte that waits pauses the producer, until `doWrite` sends all."""

    bufferSize = 0
    connected = 1

    def getPeer(self) -> IPv4Address:
        return IPv4Address("TCP", "127.0.0.1", 1)

    def writeSomeData(self, data: bytes) -> int:
        return len(data)


@attrs.define
class SlowDisk:
    """A worker thread that works when the test says so; `Offload` of a database."""

    waiting: list[tuple[Callable[[], Any], Deferred[Any]]] = attrs.field(factory=list)

    def __call__(self, work: Callable[[], Any]) -> Awaitable[Any]:
        self.waiting.append((work, Deferred()))
        return self.waiting[-1][1]

    def work(self) -> None:
        """Do all work, and what follows from it."""
        while self.waiting:
            work, done = self.waiting.pop(0)
            done.callback(work())


@attrs.define
class Server:
    clock: Clock
    factory: ZooKeeperFactory

    @property
    def database(self) -> TreeDatabase:
        return self.factory._context.database

    @property
    def sessions(self) -> list[Session]:
        return [live.session for live in self.factory._sessions._live.values()]

    def accept(self) -> Client:
        return Client(self.factory.buildProtocol(None))

    def client(self) -> Client:
        client = self.accept()
        client.connect()
        return client


def open_file(directory: Path) -> TreeFile:
    return TreeFile.open(str(directory), 0, keeps_sessions=True)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    clock = Clock()
    database = TreeDatabase(open_file(tmp_path))
    yield Server(clock, ZooKeeperFactory(database, clock, ServerSettings(2000, 10_000)))
    now(database.close())


def test_time_limits_are_kept_within_bounds(server: Server) -> None:
    granted = [server.accept().connect(wanted)[0] for wanted in (1, 5000, 99_999)]
    assert granted == [2000, 5000, 10_000]


def test_a_session_goes_on_with_its_password_alone(server: Server) -> None:
    first = server.accept()
    _, session, password = first.connect()
    assert server.accept().connect(session=session, password=b"0" * 16)[:2] == (0, 0)
    assert not first.transport.disconnecting
    assert server.accept().connect(session=session, password=password)[1] == session
    assert first.transport.disconnecting


def test_a_silent_session_ends_with_its_ephemeral_nodes(server: Server) -> None:
    silent, other = server.client(), server.client()
    silent.create("/e", EPHEMERAL)
    assert other.read(EXISTS, "/e", watch=True) == 0
    server.clock.advance(4)
    other.ask(PING, xid=-2)
    server.clock.advance(4)
    assert silent.transport.disconnecting
    assert other.answers() == [event(DELETED, "/e")]
    assert other.read(EXISTS, "/e") == NO_NODE


def test_a_ping_that_waits_to_be_read_after_a_pause_keeps_the_session(server: Server) -> None:
    client = server.client()
    server.clock.callLater(6, client.send, request(PING, xid=-2))  # after the timer, as the reactor reads then
    server.clock.advance(30)
    assert not client.transport.disconnecting
    server.clock.advance(6)
    assert client.transport.disconnecting


def test_a_client_that_connects_again_after_a_pause_keeps_its_session(server: Server) -> None:
    first, again = server.accept(), server.accept()
    _, session, password = first.connect()
    first.protocol.connectionLost()
    connect = connect_frame(session=session, password=password)
    server.clock.callLater(6, server.clock.callLater, 0, again.send, connect)  # one iteration accepts, the next reads
    server.clock.advance(30)
    assert again.frames()
    assert not again.transport.disconnecting


def test_a_session_lives_on_after_its_connection(server: Server) -> None:
    client = server.accept()
    _, session, password = client.connect()
    client.create("/e", EPHEMERAL)
    client.protocol.connectionLost()
    server.clock.advance(5)
    again = server.accept()
    assert again.connect(session=session, password=password)[1] == session
    server.clock.advance(5)
    assert again.read(EXISTS, "/e") == 0


def test_close_deletes_ephemeral_nodes_at_once(server: Server) -> None:
    client, other = server.client(), server.client()
    client.create("/e", EPHEMERAL)
    assert client.ask(CLOSE) == [(7, 0, b"")]
    assert client.transport.disconnecting
    assert other.read(EXISTS, "/e") == NO_NODE


def connected_to_slow_disk(directory: Path) -> tuple[Client, TreeDatabase, SlowDisk]:
    """Return a client with a session, and the database whose changes wait for the disk."""
    clock, disk = Clock(), SlowDisk()
    database = TreeDatabase(open_file(directory), disk)
    client = Server(clock, ZooKeeperFactory(database, clock)).accept()
    client.send(connect_frame())
    disk.work()
    client.frames()
    return client, database, disk


@pytest.mark.parametrize("op", [CREATE, GET_DATA])
def test_a_client_that_does_not_wait_for_answers_is_not_read_further(tmp_path: Path, op: int) -> None:
    """Changes wait for the disk, and reads for the changes before them."""
    client, database, disk = connected_to_slow_disk(tmp_path)
    client.send(request(CREATE, creation("/first")))
    for number in range(WAITING_MAX):
        assert client.transport.producerState == "producing", number
        client.send(request(op, creation("/n") if op == CREATE else text("/first") + b"\0"))
    assert client.transport.producerState == "paused"
    disk.work()
    assert client.transport.producerState == "producing"
    assert len(client.answers()) == 1 + WAITING_MAX
    closing = Deferred.fromCoroutine(database.close())
    disk.work()
    assert closing.called


def test_requests_behind_a_close_are_ignored(tmp_path: Path) -> None:
    client, database, disk = connected_to_slow_disk(tmp_path)
    client.send(request(CREATE, creation("/before", EPHEMERAL), xid=1))
    client.send(request(CLOSE, xid=2))
    client.send(request(CREATE, creation("/behind", EPHEMERAL), xid=3))
    client.send(request(PING, xid=-2))
    disk.work()
    assert client.answers() == [(1, 0, text("/before")), (2, 0, b"")]
    assert client.transport.disconnecting
    assert list(database.nodes) == ["/"]
    closing = Deferred.fromCoroutine(database.close())
    disk.work()
    assert closing.called


def test_sessions_outlive_the_server(tmp_path: Path) -> None:
    clock, database = Clock(), TreeDatabase(open_file(tmp_path))
    client = Server(clock, ZooKeeperFactory(database, clock)).accept()
    _, session, password = client.connect()
    client.create("/e", EPHEMERAL)
    now(database.close())
    database = TreeDatabase(open_file(tmp_path))
    server = Server(clock, ZooKeeperFactory(database, clock))
    again = server.accept()
    assert again.connect(session=session, password=password)[1] == session
    assert again.read(EXISTS, "/e") == 0
    clock.advance(7)
    assert server.client().read(EXISTS, "/e") == NO_NODE
    now(database.close())


def test_a_stop_closes_connections_before_the_database(server: Server) -> None:
    new, known = server.accept(), server.client()
    server.factory.stop()
    assert new.transport.disconnecting
    assert known.transport.disconnecting
    for client in (new, known):
        client.send(connect_frame())
        client.send(request(CREATE, creation("/late")))
        assert client.frames() == []
        client.protocol.connectionLost()
    assert server.clock.getDelayedCalls() == []


def test_a_client_that_takes_no_answers_is_sent_away_too(server: Server) -> None:
    wire = FullBuffer(MemoryReactorClock())
    protocol = server.factory.buildProtocol(None)
    assert protocol is not None
    protocol.makeConnection(wire)
    frame = connect_frame()
    protocol.dataReceived(struct.pack(">i", len(frame)) + frame)
    assert wire.producerPaused
    server.factory.stop()
    assert wire.doWrite() is CONNECTION_DONE


def test_events_come_before_the_answer_that_shows_the_change(server: Server) -> None:
    client = server.client()
    client.create("/a")
    client.read(GET_DATA, "/a", watch=True)
    client.read(GET_CHILDREN, "/", watch=True)
    changed, (xid, error, _) = client.set("/a")
    assert (changed, xid, error) == (event(CHANGED, "/a"), 7, 0)
    client.send(request(CREATE, creation("/b")))
    assert [answer[0] for answer in client.answers()] == [-1, 7]
    assert [answer[0] for answer in client.set("/a")] == [7]  # a watch is called once


def test_missed_changes_are_events_after_a_reconnection(server: Server) -> None:
    client = server.client()
    for path in ("/same", "/set", "/parent"):
        client.create(path)
    [(_, _, _)] = client.ask(EXISTS, text("/same") + b"\0")
    since = 4  # the session, and three nodes
    client.set("/set")
    client.create("/parent/child")
    lists = (["/same", "/set", "/gone"], ["/same", "/none"], ["/parent", "/same"])
    body = struct.pack(">q", since)
    for paths in lists:
        body += struct.pack(">i", len(paths)) + b"".join(map(text, paths))
    missed = [(CHANGED, "/set"), (DELETED, "/gone"), (CREATED, "/same"), (CHILDREN, "/parent")]
    assert client.ask(SET_WATCHES, body, xid=-8) == [*(event(*each) for each in missed), (-8, 0, b"")]
    assert [answer[:2] for answer in client.set("/same")] == [(-1, 0), (7, 0)]


def test_a_failed_multi_names_the_failed_operation(server: Server) -> None:
    client = server.client()
    client.create("/a")

    def operation(op: int, body: bytes) -> bytes:
        return struct.pack(">i?i", op, False, -1) + body

    operations = operation(CREATE, creation("/b"))
    operations += operation(SET_DATA, text("/a") + text("y") + struct.pack(">i", 5))
    operations += operation(SET_DATA, text("/a") + text("z") + struct.pack(">i", -1))
    [(_, error, body)] = client.ask(MULTI, operations + struct.pack(">i?i", -1, True, -1))
    errors = [struct.unpack_from(">i?ii", body, 13 * number) for number in range(3)]
    assert error == 0
    assert errors == [(-1, False, code, code) for code in (0, BAD_VERSION, INCONSISTENT)]
    assert client.read(EXISTS, "/b") == NO_NODE


def test_requests_that_are_not_served_and_bad_paths(server: Server) -> None:
    client = server.client()
    assert client.ask(999) == [(7, UNIMPLEMENTED, b"")]
    for path in ("a", "/a/", "//", "/a/../b", "/\0"):
        assert client.read(EXISTS, path) == BAD_ARGUMENTS


@pytest.mark.parametrize("frame", [b"", b"\0\0\0\1", struct.pack(">iii", 1, GET_DATA, 1000)])
def test_a_malformed_frame_closes_the_connection(server: Server, frame: bytes) -> None:
    for client in (server.client(), server.accept()):
        client.send(frame)
        assert client.transport.disconnecting


def test_frames_that_are_too_long_and_words(server: Server) -> None:
    client = server.accept()
    client.protocol.dataReceived(b"\x7f\xff\xff\xff")
    assert client.transport.disconnecting
    asked = server.accept()
    asked.protocol.dataReceived(b"ruok")
    assert (asked.transport.value(), asked.transport.disconnecting) == (b"imok", True)


def test_a_client_that_has_seen_more_is_sent_away(server: Server) -> None:
    client = server.accept()
    client.send(connect_frame(seen=1 << 40))
    assert (client.frames(), client.transport.disconnecting) == ([], True)


AUTH, AUTH_XID, AUTH_FAILED = 100, -4, -115


def credentials(name: str, scheme: str = "digest") -> bytes:
    return struct.pack(">i", 0) + text(scheme) + text(name)


@pytest.mark.parametrize(
    ("op", "body"),
    [
        (CREATE, creation("/a")),
        (GET_DATA, text("/") + b"\0"),
        (MULTI, struct.pack(">i?i", -1, True, -1)),
        (SET_WATCHES, struct.pack(">qiii", 0, 0, 0, 0)),
        (PING, b""),
        (CLOSE, b""),
        (999, b""),
    ],
)
def test_a_restricted_server_serves_nobody_without_its_login(server: Server, op: int, body: bytes) -> None:
    """The session ends, too; the other address of the same tree serves everybody."""
    outsider = Client(server.factory.restricted(acls.digest("broker:secret")).buildProtocol(None))
    _, session, password = outsider.connect()
    assert outsider.ask(op, body) == [(7, AUTH_FAILED, b"")]
    assert outsider.transport.disconnecting
    assert server.accept().connect(session=session, password=password)[1] == 0
    client = server.accept()
    client.connect()
    client.create("/a")


@pytest.mark.parametrize("login", [credentials("broker:guess"), credentials("other:secret"), credentials("", "ip")])
def test_a_restricted_server_takes_no_other_login(server: Server, login: bytes) -> None:
    outsider = Client(server.factory.restricted(acls.digest("broker:secret")).buildProtocol(None))
    outsider.connect()
    assert outsider.ask(AUTH, login, AUTH_XID) == [(AUTH_XID, AUTH_FAILED, b"")]
    assert outsider.transport.disconnecting


def test_a_restricted_server_says_nothing_about_itself(server: Server) -> None:
    outsider = Client(server.factory.restricted(acls.digest("broker:secret")).buildProtocol(None))
    outsider.protocol.dataReceived(b"stat")
    assert (outsider.transport.value(), outsider.transport.disconnecting) == (b"", True)


def test_a_restricted_server_lets_its_login_do_everything(server: Server) -> None:
    """Both addresses have the same tree, sessions and watches."""
    broker = Client(server.factory.restricted(acls.digest("broker:secret")).buildProtocol(None))
    broker.connect()
    assert broker.ask(AUTH, credentials("broker:secret"), AUTH_XID) == [(AUTH_XID, 0, b"")]
    broker.create("/a")
    client = server.accept()
    client.connect()
    assert client.read(GET_DATA, "/a", watch=True) == 0
    closed = text("/b") + text("x") + struct.pack(">iii", 1, 31, 6) + text("digest")[4:] + text("x:y") + bytes(4)
    assert client.ask(CREATE, closed) == [(7, 0, text("/b"))]
    assert (client.read(GET_DATA, "/b"), broker.read(GET_DATA, "/b")) == (NO_AUTH, 0)
    assert broker.set("/a")[0][1] == 0
    assert client.answers() == [event(CHANGED, "/a")]


@attrs.define
class RestrictedServer:
    """A server whose clients must log in; connections that it closes at once are lost at once."""

    server: Server
    factory: ZooKeeperFactory
    clients: list[Client] = attrs.field(factory=list)

    @classmethod
    def of(cls, server: Server) -> RestrictedServer:
        return cls(server, server.factory.restricted(acls.digest("broker:secret")))

    def accept(self) -> Client | None:
        protocol = self.factory.buildProtocol(None)
        if protocol is None:
            return None
        self.clients.append(Client(protocol))
        self.lose_closed()
        return self.clients[-1]

    def log_in(self, client: Client) -> None:
        assert client.ask(AUTH, credentials("broker:secret"), AUTH_XID) == [(AUTH_XID, 0, b"")]

    def lose_closed(self) -> None:
        for client in [each for each in self.clients if each.transport.disconnected]:
            self.clients.remove(client)
            client.protocol.connectionLost()


def test_many_who_do_not_log_in_keep_no_broker_out(server: Server) -> None:
    restricted = RestrictedServer.of(server)
    first = restricted.accept()
    assert first is not None
    first.connect()
    restricted.log_in(first)
    with logged_lines() as lines:
        assert None not in [restricted.accept() for _ in range(2 * CONNECTIONS_MAX)]
    assert len(lines) == 1
    assert len(restricted.clients) == 1 + LOGINS_MAX
    broker = restricted.accept()
    assert broker is not None
    broker.connect()
    for _ in range(LOGINS_MAX - 1):
        restricted.accept()
    restricted.log_in(broker)
    restricted.accept()
    assert {first, broker} <= set(restricted.clients)


def test_connections_without_login_end_soon(server: Server) -> None:
    restricted = RestrictedServer.of(server)
    broker, early = restricted.accept(), restricted.accept()
    assert broker is not None
    broker.connect(10_000)
    restricted.log_in(broker)
    server.clock.advance(LOGIN_SECONDS - 3)
    late = restricted.accept()
    server.clock.advance(2.9)
    broker.ask(PING)
    assert early in restricted.clients
    server.clock.advance(0.2)
    restricted.lose_closed()
    assert restricted.clients == [broker, late]
    server.clock.advance(LOGIN_SECONDS - 3)
    restricted.lose_closed()
    assert restricted.clients == [broker]


def test_a_session_that_begins_without_a_login_ends_with_its_connection(server: Server) -> None:
    restricted = RestrictedServer.of(server)
    outsider, broker, again = restricted.accept(), restricted.accept(), restricted.accept()
    assert outsider is not None
    assert broker is not None
    assert again is not None
    _, gone, gone_password = outsider.connect()
    outsider.protocol.connectionLost()
    _, session, password = broker.connect()
    restricted.log_in(broker)
    broker.protocol.connectionLost()
    assert again.connect(session=session, password=password)[1] == session
    again.protocol.connectionLost()
    assert server.accept().connect(session=gone, password=gone_password)[1] == 0
    assert server.accept().connect(session=session, password=password)[1] == session, "a broker goes on with its own"


def client_from(factory: ZooKeeperFactory, host: str) -> Client:
    return Client(factory.buildProtocol(None), StringTransport(peerAddress=IPv4Address("TCP", host, 1)))


def test_no_session_begins_without_the_login(server: Server) -> None:
    """Nothing is written for those who only connect."""
    restricted = RestrictedServer.of(server)
    database, before = server.database, server.database.last
    for _ in range(2 * LOGINS_MAX):
        outsider = restricted.accept()
        assert outsider is not None
        assert outsider.connect()[1]
    assert (database.last, server.sessions) == (before, [])
    broker = restricted.accept()
    assert broker is not None
    granted, session, password = broker.connect(3000)
    restricted.log_in(broker)
    assert [(each.id, each.password, each.timeout_ms) for each in server.sessions] == [(session, password, granted)]
    broker.create("/e", EPHEMERAL)
    assert broker.ask(CLOSE) == [(7, 0, b"")]


def test_requests_behind_a_login_wait_for_its_session(tmp_path: Path) -> None:
    clock, disk = Clock(), SlowDisk()
    database = TreeDatabase(open_file(tmp_path), disk)
    factory = ZooKeeperFactory(database, clock).restricted(acls.digest("broker:secret"))
    broker = Client(factory.buildProtocol(None))
    broker.connect()
    broker.send(request(AUTH, credentials("broker:secret"), AUTH_XID))
    broker.send(request(CREATE, creation("/e", EPHEMERAL)))
    assert broker.answers() == []
    disk.work()
    assert broker.answers() == [(AUTH_XID, 0, b""), (7, 0, text("/e"))]
    factory.stop()
    closing = Deferred.fromCoroutine(database.close())
    disk.work()
    assert closing.called


def test_sessions_that_anybody_may_begin_are_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_OF_HOST_MAX", 3)
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 5)
    clients = [client_from(server.factory, "10.0.0.1") for _ in range(3)]
    with logged_lines() as lines:
        first, *_ = [client.connect() for client in clients]
        for _ in range(1000):  # sessions outlive their connections
            rejected = client_from(server.factory, "10.0.0.1")
            rejected.send(connect_frame())
            assert (rejected.frames(), rejected.transport.disconnecting) == ([], True)
            rejected.protocol.connectionLost()
        others = [client_from(server.factory, f"10.0.1.{number}") for number in range(3)]
        for other in others:
            other.send(connect_frame())
        assert [other.transport.disconnecting for other in others] == [False, False, True]
    assert 1 <= len(lines) <= 11 + 1
    assert len(server.sessions) == 5
    broker = Client(server.factory.restricted(acls.digest("broker:secret")).buildProtocol(None))
    broker.connect()
    assert broker.ask(AUTH, credentials("broker:secret"), AUTH_XID) == [(AUTH_XID, 0, b"")]
    clients[0].protocol.connectionLost()
    again = client_from(server.factory, "10.0.0.1")
    assert again.connect(session=first[1], password=first[2])[1] == first[1], "it goes on"
    assert again.ask(CLOSE) == [(7, 0, b"")]
    assert client_from(server.factory, "10.0.0.1").connect()[1]
    server.clock.advance(60)
    assert server.sessions == []
    assert all(client_from(server.factory, "10.0.0.1").connect()[1] for _ in range(3))


def test_lines_about_bad_requests_are_bounded(server: Server) -> None:
    connect = connect_frame()
    bad = [b"", struct.pack(">iii", 1, GET_DATA, 1000), connect_frame(seen=1 << 40)]
    frames = [struct.pack(">i", len(frame)) + frame for frame in bad]
    guess = request(AUTH, credentials("broker:guess"), AUTH_XID)
    restricted = server.factory.restricted(acls.digest("broker:secret"))
    with logged_lines() as lines:
        for _ in range(100):
            for data in (*frames, b"\x7f\xff\xff\xff"):
                send_and_lose(server.factory, "10.0.0.1", data)
            login = b"".join(struct.pack(">i", len(frame)) + frame for frame in (connect, guess))
            send_and_lose(restricted, "10.0.0.1", login)
        assert len(lines) == LINES_PER_MINUTE_MAX
        send_and_lose(server.factory, "10.0.0.2", frames[0])
        assert len(lines) == LINES_PER_MINUTE_MAX + 1
        server.clock.advance(60)
    assert "closed 490 more connections to the tree from 10.0.0.1" in lines[-1]


def send_and_lose(factory: ZooKeeperFactory, host: str, data: bytes) -> None:
    client = client_from(factory, host)
    client.protocol.dataReceived(data)
    assert client.transport.disconnecting
    client.protocol.connectionLost()


def test_lines_about_expired_sessions_are_bounded(server: Server) -> None:
    for _ in range(100):
        client_from(server.factory, "10.0.0.1").connect()
    broker = Client(server.factory.restricted(acls.digest("broker:secret")).buildProtocol(None))
    broker.connect()
    assert broker.ask(AUTH, credentials("broker:secret"), AUTH_XID) == [(AUTH_XID, 0, b"")]
    with logged_lines() as lines:
        server.clock.advance(20)
        assert server.sessions == []
        assert len(lines) == LINES_PER_MINUTE_MAX + 1
        server.clock.advance(60)
    assert "90 more sessions from 10.0.0.1 have expired" in lines[-1]


def test_connections_that_send_nothing_end_soon(server: Server) -> None:
    """They keep nobody out where no login is required, either."""
    known = server.client()
    silent = [server.accept() for _ in range(LOGINS_MAX)]
    with logged_lines() as lines:
        more = [server.accept() for _ in range(10)]
    assert len(lines) == 1
    assert [each.transport.disconnected for each in silent] == [True] * 10 + [False] * (LOGINS_MAX - 10)
    assert more[0].connect(10_000)[1]
    known.ask(PING, xid=-2)
    server.clock.advance(LOGIN_SECONDS - 5)
    for each in (known, more[0]):
        each.ask(PING, xid=-2)
    server.clock.advance(5.1)
    assert all(each.transport.disconnected for each in (*silent, *more[1:]))
    assert not any(each.transport.disconnected or each.transport.disconnecting for each in (known, more[0]))


def test_a_login_that_waits_to_be_read_after_a_pause_is_in_time(server: Server) -> None:
    restricted = RestrictedServer.of(server)
    broker = restricted.accept()
    assert broker is not None
    broker.connect(10_000)
    server.clock.callLater(LOGIN_SECONDS, restricted.log_in, broker)  # after the timer, as the reactor reads then
    server.clock.advance(30)
    assert not broker.transport.disconnected


def test_all_in_one_write(server: Server) -> None:
    """Clients need not wait for the session before they log in, nor for the login before they ask."""
    for factory in (server.factory, server.factory.restricted(acls.digest("broker:secret"))):
        client = Client(factory.buildProtocol(None))
        login = request(AUTH, credentials("broker:secret"), AUTH_XID)
        asked = [request(CREATE, creation("/e", EPHEMERAL)), request(EXISTS, text("/e") + b"\0"), request(CLOSE)]
        frames = [connect_frame(), login, *asked]
        client.protocol.dataReceived(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
        connected, *answers = client.frames()
        assert struct.unpack_from(">iiq", connected)[2]
        assert [struct.unpack_from(">iqi", each)[::2] for each in answers] == [(AUTH_XID, 0), *[(7, 0)] * 3]
        assert client.transport.disconnecting
        assert list(server.database.nodes) == ["/"]


@pytest.mark.parametrize(("flag", "said"), [(b"", b""), (b"\0", b"\0"), (b"\1", b"\0")])
def test_the_flag_of_read_only_clients(server: Server, flag: bytes, said: bytes) -> None:
    """Old clients do not send it, and cannot read it; this server always takes changes."""
    for factory in (server.factory, server.factory.restricted(acls.digest("broker:secret"))):
        client = Client(factory.buildProtocol(None))
        client.send(connect_frame()[:-1] + flag)
        [answer] = client.frames()
        assert answer[36:] == said


def test_the_watches_of_a_connection_are_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WATCHES_MAX", 3)
    restricted = RestrictedServer.of(server)
    client, other, broker = server.client(), server.client(), restricted.accept()
    assert broker is not None
    broker.connect()
    restricted.log_in(broker)
    for number in range(4):
        assert [client.read(EXISTS, path, watch=True) for path in ("/a", "/b", "/c")] == [NO_NODE] * 3
        assert broker.read(EXISTS, f"/{number}", watch=True) == NO_NODE
    assert other.read(EXISTS, "/a", watch=True) == NO_NODE
    assert client.ask(EXISTS, text("/d") + b"\1") == []
    assert (client.transport.disconnecting, other.transport.disconnecting) == (True, False)
    broker.create("/a")
    assert (client.frames(), other.answers()) == ([], [event(CREATED, "/a")])


def test_the_logins_of_a_connection_are_bounded(server: Server) -> None:
    client = server.client()
    for number in range(IDENTITIES_MAX):
        assert client.ask(AUTH, credentials(f"user:{number}"), AUTH_XID) == [(AUTH_XID, 0, b"")]
    client.send(request(AUTH, credentials("user:more"), AUTH_XID))
    assert client.transport.disconnecting
