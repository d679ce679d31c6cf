"""States of the tree in ZooKeeper, beside a session that does what the test says, and a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
from kazoo.exceptions import ConnectionLoss, MarshallingError, NodeExistsError, NoNodeError, RolledBackError
from kazoo.protocol.states import ZnodeStat
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

from pylogbroker.errors import StartupError
from pylogbroker.interfaces import Create, Delete, Node, NotEmpty, SessionExpired, SessionState, Unavailable
from pylogbroker.tree import zookeeper
from pylogbroker.tree.kazoo_values import stat_of
from pylogbroker.tree.zookeeper import ZooKeeperTree
from pylogbroker.tree.zookeeper_options import ZooKeeperOptions, parse_connect
from tests.tree.conftest import result_of

EXISTS_STAT = ZnodeStat(*[0] * len(ZnodeStat._fields))
UNREACHABLE = (
    "ZooKeeper at zk1:2181,zk2:2182 is unreachable: Connection refused; trying again. "
    "Check that it runs, and zookeeper.connect"
)
SERVERS = parse_connect("zk1:2181,zk2:2182")


@attrs.define(eq=False)
class FakeSession:
    """A session whose answers and events the test gives."""

    owner: ZooKeeperTree
    last_problem: str = "Connection refused"
    sent: list[Callable[[Any, Exception | None], object]] = attrs.field(factory=list)
    is_stopped: bool = False

    def start(self) -> None:
        """Wait for the test."""

    def submit(self, submission: object, answer: Callable[[Any, Exception | None], object]) -> None:
        self.sent.append(answer)

    async def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[FakeSession]:
    made: list[FakeSession] = []

    def make(servers: object, options: object, reactor: object, in_thread: object, owner: ZooKeeperTree) -> FakeSession:
        made.append(FakeSession(owner))
        return made[-1]

    monkeypatch.setattr(zookeeper, "KazooSession", make)
    return made


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock()
    yield clock
    assert clock.getDelayedCalls() == []


def connecting(clock: Clock, **options: Any) -> Deferred[ZooKeeperTree]:
    chosen = ZooKeeperOptions(**{"session_timeout": 18.0, **options})
    return ensureDeferred(ZooKeeperTree.connect(SERVERS, chosen, clock, lambda work: Deferred()))


@pytest.fixture
def tree(clock: Clock, sessions: list[FakeSession]) -> Iterator[ZooKeeperTree]:
    started = connecting(clock)
    sessions[0].owner.connected(7)
    sessions[0].sent.pop()(EXISTS_STAT, None)
    tree = result_of(started)
    yield tree
    result_of(ensureDeferred(tree.close()))


def texts(events: list[Any]) -> list[str]:
    return [formatEvent(event) for event in events]


def test_an_unreachable_zookeeper_is_reported_now_and_then(clock: Clock, sessions: list[FakeSession]) -> None:
    started = connecting(clock, connection_timeout=100)
    with capturedLogs() as events:
        clock.pump([1.0] * 99)
    assert texts(events) == [UNREACHABLE] * 4  # after 3, 33, 63 and 93 s
    assert not started.called
    clock.advance(1)
    with pytest.raises(StartupError, match=r"not connected within 100 s \(Connection refused\): check that it runs"):
        result_of(started)
    assert sessions[0].is_stopped


def test_lost_connections_are_reported_now_and_then(tree: ZooKeeperTree, clock: Clock) -> None:
    with capturedLogs() as events:
        for _ in range(100):
            tree.suspended()
            tree.connected(7)
            clock.advance(0.5)
    lines = texts(events)
    assert lines.count("lost the connection to ZooKeeper at zk1:2181,zk2:2182: trying again") == 2
    assert len(lines) == 4


def test_a_rejected_login(clock: Clock, sessions: list[FakeSession]) -> None:
    started = connecting(clock)
    sessions[0].owner.connected(7)  # kazoo logs in behind that
    sessions[0].owner.ended(is_rejected=True)
    with pytest.raises(StartupError, match="ZooKeeper at zk1:2181,zk2:2182: the login was rejected: check user name"):
        result_of(started)


def test_a_start_is_cancelled(clock: Clock, sessions: list[FakeSession]) -> None:
    started = connecting(clock)
    started.cancel()
    with pytest.raises(CancelledError):
        result_of(started)
    assert sessions[0].is_stopped


def test_calls_that_were_sent_have_an_unknown_outcome(tree: ZooKeeperTree, sessions: list[FakeSession]) -> None:
    sent = ensureDeferred(tree.commit([Create("/sent")]))
    sessions[0].sent.pop()(None, ConnectionLoss())
    with pytest.raises(Unavailable, match="/sent"):
        result_of(sent)
    waiting = ensureDeferred(tree.commit([Create("/waiting")]))
    assert sessions[0].sent == []  # kazoo would fail it
    tree.suspended()  # reported late
    tree.connected(7)
    sessions[0].sent.pop()(["/waiting"], None)
    assert [result.path for result in result_of(waiting)] == ["/waiting"]


def test_a_lost_call_of_an_earlier_connection_is_no_news(tree: ZooKeeperTree, sessions: list[FakeSession]) -> None:
    lost = ensureDeferred(tree.children("/"))
    tree.suspended()
    tree.connected(7)
    sessions[0].sent.pop()(None, ConnectionLoss())
    with pytest.raises(Unavailable):
        result_of(lost)
    call = ensureDeferred(tree.children("/"))
    sessions[0].sent.pop()(["a"], None)
    assert result_of(call) == ["a"]


def test_an_answer_after_the_session_is_ignored(tree: ZooKeeperTree, sessions: list[FakeSession]) -> None:
    call = ensureDeferred(tree.children("/"))
    tree.ended(is_rejected=False)
    with pytest.raises(SessionExpired):
        result_of(call)
    sessions[0].sent.pop()(["late"], None)
    assert sessions[0].is_stopped


def test_a_cancelled_call_does_not_disturb_others(tree: ZooKeeperTree, sessions: list[FakeSession]) -> None:
    cancelled, other = ensureDeferred(tree.children("/")), ensureDeferred(tree.children("/"))
    cancelled.cancel()
    with pytest.raises(CancelledError):
        result_of(cancelled)
    for answer in sessions[0].sent:
        answer(["name"], None)
    assert result_of(other) == ["name"]


def test_a_new_session_that_fails_may_be_tried_again(
    tree: ZooKeeperTree, clock: Clock, sessions: list[FakeSession]
) -> None:
    heard: list[object] = []
    tree.watch_session(lambda event: heard.append((event.state, event.session_id)))
    tree.ended(is_rejected=False)
    first = ensureDeferred(tree.new_session())
    clock.advance(18)
    with pytest.raises(Unavailable, match="not connected within 18 s"):
        result_of(first)
    second = ensureDeferred(tree.new_session())
    with pytest.raises(SessionExpired):
        result_of(ensureDeferred(tree.get("/")))
    sessions[2].owner.connected(8)
    result_of(second)
    assert heard == [(SessionState.EXPIRED, 7), (SessionState.CONNECTED, 8)]
    assert (tree.session_id, tree.earlier_sessions) == (8, [7])
    assert [session.is_stopped for session in sessions] == [True, True, False]


def test_a_listener_starts_a_new_session_at_once(tree: ZooKeeperTree, sessions: list[FakeSession]) -> None:
    tree.watch_session(lambda event: ensureDeferred(tree.new_session()))
    call = ensureDeferred(tree.get("/"))
    tree.ended(is_rejected=False)
    with pytest.raises(SessionExpired):
        result_of(call)
    sessions[1].owner.connected(8)
    assert [session.is_stopped for session in sessions] == [True, False]
    assert tree.session_id == 8


def test_a_close_while_the_last_session_is_stopped(
    tree: ZooKeeperTree, sessions: list[FakeSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: Deferred[None] = Deferred()
    monkeypatch.setattr(FakeSession, "stop", lambda session: stopped)
    tree._state = zookeeper._State.EXPIRED
    starting = ensureDeferred(tree.new_session())
    closing = ensureDeferred(tree.close())
    stopped.callback(None)
    result_of(starting)
    assert len(sessions) == 1
    result_of(closing)


def test_a_close_ends_a_start_of_a_session(tree: ZooKeeperTree, sessions: list[FakeSession]) -> None:
    tree.ended(is_rejected=False)
    starting = ensureDeferred(tree.new_session())
    result_of(ensureDeferred(tree.close()))
    with pytest.raises(Unavailable):
        result_of(starting)
    assert sessions[1].is_stopped


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ((None, MarshallingError()), r"Unavailable: /a \(MarshallingError\)"),
        (([RolledBackError(), NodeExistsError()], None), "NodeExists: /b"),
    ],
)
def test_errors_are_the_interfaces(
    tree: ZooKeeperTree, sessions: list[FakeSession], answers: tuple[Any, Any], error: str
) -> None:
    call = ensureDeferred(tree.commit([Create("/a"), Create("/b")]))
    sessions[0].sent.pop()(*answers)
    with pytest.raises(Exception, match=f"^{error}$"):
        result_of(call)


def test_calls_that_need_no_answer(tree: ZooKeeperTree, sessions: list[FakeSession]) -> None:
    assert result_of(ensureDeferred(tree.commit([]))) == []
    with pytest.raises(NotEmpty):
        result_of(ensureDeferred(tree.commit([Delete("/")])))
    assert sessions[0].sent == []


def test_many_reads_end_with_the_last_answer(tree: ZooKeeperTree, sessions: list[FakeSession]) -> None:
    reading = ensureDeferred(tree.get_many(["/a", "/missing", "/c"]))
    first, second, third = sessions[0].sent
    third((b"c", EXISTS_STAT), None)
    second(None, NoNodeError())
    assert not reading.called
    first((b"a", EXISTS_STAT), None)
    found = result_of(reading)
    assert [each and each.data for each in found] == [b"a", None, b"c"]
    assert found[2] == Node(b"c", stat_of(EXISTS_STAT))


def test_many_reads_fail_with_one_of_them(tree: ZooKeeperTree, sessions: list[FakeSession]) -> None:
    reading = ensureDeferred(tree.get_many(["/a", "/b", "/c"]))
    first, second, third = sessions[0].sent
    second(None, MarshallingError())
    with pytest.raises(Unavailable, match="/b"):
        result_of(reading)
    first((b"a", EXISTS_STAT), None)
    third(None, MarshallingError())
