"""The tree in a real ZooKeeper while connections are lost, answers are missing and servers stop."""

from __future__ import annotations

import threading
from pathlib import Path

import attrs
import pytest
from twisted.internet.defer import CancelledError, ensureDeferred

from pylogbroker.errors import StartupError
from pylogbroker.interfaces import (
    Changed,
    Create,
    Delete,
    ITree,
    NodeExists,
    SessionEvent,
    SetData,
)
from pylogbroker.tree import kazoo_session
from tests.peers.processes import free_ports
from tests.peers.zookeeper import SESSION_SECONDS_MAX, ZooKeeper
from tests.support.reactor_run import run, wait_for
from tests.tree.trees import connect, fresh_chroot, in_thread
from tests.tree.zookeeper_proxy import ZooKeeperProxy
from tests.tree.zookeeper_scenarios import (
    CONNECTED,
    EXPIRED,
    SUSPENDED,
    appears,
    assert_no_new_thread,
    fails,
    listen,
    play,
)


def test_a_lost_connection_does_not_end_the_session(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        events = listen(tree)
        await tree.commit([Create("/e", ephemeral=True)])
        proxy.cut()
        await wait_for(lambda: len(events) == 2)
        assert events == [SessionEvent(SUSPENDED, tree.session_id), SessionEvent(CONNECTED, tree.session_id)]
        stat = await observer.exists("/e")
        assert stat is not None
        assert stat.owner == tree.session_id
        assert tree.earlier_sessions == []

    play(zookeeper, scenario)


def test_calls_wait_for_the_connection(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        events = listen(tree)
        proxy.close_to_new()
        await wait_for(lambda: events)
        calls = [ensureDeferred(tree.commit([Create("/a", b"x")])), ensureDeferred(tree.get("/a"))]
        proxy.open_to_new()
        _, node = [await call for call in calls]
        assert node.data == b"x"

    play(zookeeper, scenario)


def test_calls_do_not_wait_longer_than_the_connection_timeout(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        events = listen(tree)
        tree._options = attrs.evolve(tree._options, connection_timeout=0.2)  # the first connection may take longer
        proxy.close_to_new()
        await wait_for(lambda: events)
        await fails(ensureDeferred(tree.get_many(["/a", "/b"])))
        late = ensureDeferred(tree.commit([Create("/a")]))
        assert late.called  # at once
        await fails(late)
        proxy.open_to_new()
        await wait_for(lambda: events[-1].state is CONNECTED)
        assert await tree.get_many(["/a"]) == [None]

    play(zookeeper, scenario)


def test_a_commit_without_an_answer_has_an_unknown_outcome(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        proxy.drop_answers()
        commit = ensureDeferred(tree.commit([Create("/done", ephemeral=True), SetData("/done", b"mine")]))
        await appears(observer, "/done")
        proxy.cut()
        await fails(commit)
        node = await tree.get("/done")  # so its caller reads again, and compares
        assert (node.data, node.stat.owner) == (b"mine", tree.session_id)
        await fails(ensureDeferred(tree.commit([Create("/done")])), NodeExists)

    play(zookeeper, scenario)


def test_a_commit_that_was_lost_on_the_way_raises_the_same(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        proxy.drop_requests()
        commit = ensureDeferred(tree.commit([Create("/lost")]))
        read = ensureDeferred(tree.get_many(["/a", "/b"]))
        proxy.cut()
        await fails(commit)
        await fails(read)
        assert await tree.exists("/lost") is None

    play(zookeeper, scenario)


def test_a_server_that_does_not_answer_is_noticed(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        events = listen(tree)
        proxy.drop_answers()
        await fails(ensureDeferred(tree.get("/")))
        assert [event.state for event in events] in ([], [SUSPENDED], [SUSPENDED, EXPIRED])
        proxy.cut()
        await wait_for(lambda: events and events[-1].state in (CONNECTED, EXPIRED))  # if it was noticed too late

    play(zookeeper, scenario, session_timeout=3.0)


def test_a_connection_that_is_never_answered_does_not_cost_the_session(
    zookeeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kazoo_session, "_HANDSHAKE_SECONDS_MAX", 0.5)  # and tried again

    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        events, first = listen(tree), tree.session_id
        proxy.ignore_next()
        proxy.cut()
        await wait_for(lambda: events and events[-1].state in (CONNECTED, EXPIRED))
        assert [event.state for event in events] == [SUSPENDED, CONNECTED]
        assert tree.session_id == first

    play(zookeeper, scenario, session_timeout=SESSION_SECONDS_MAX)


def test_watches_are_called_after_a_reconnection(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        events, heard = listen(tree), list[str]()
        await tree.commit([Create("/a")])
        await tree.get("/a", lambda change: heard.append("get"))
        await tree.exists("/b", lambda change: heard.append("exists"))
        await tree.children("/", lambda change: heard.append("children"))
        proxy.close_to_new()
        await wait_for(lambda: events)
        await observer.commit([SetData("/a", b"changed"), Create("/b")])
        assert heard == []  # there is nobody to hear it
        proxy.open_to_new()
        await wait_for(lambda: len(events) == 2)
        assert heard == ["get", "exists", "children"]
        await tree.commit([SetData("/a", b"again"), Delete("/b")])
        proxy.cut()
        await wait_for(lambda: len(events) == 4)
        assert len(heard) == 3  # each once

    play(zookeeper, scenario)


def test_a_watch_hears_of_other_sessions_changes(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        heard: list[Changed] = []
        await tree.exists("/a", heard.append)
        await observer.commit([Create("/a")])
        await observer.commit([SetData("/a", b"x")])
        await tree.get("/")  # behind the events
        assert heard == [Changed("/a")]

    play(zookeeper, scenario)


def test_a_bounded_number_of_calls_is_in_flight(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        paths = [f"/{number}" for number in range(50)]
        await tree.commit([Create(path, path.encode()) for path in paths])
        proxy.hold_answers()
        before = proxy.request_count
        found = ensureDeferred(tree.get_many(paths))
        await wait_for(lambda: proxy.request_count > before + 2)
        assert proxy.request_count < before + 10  # three, and perhaps some pings
        proxy.release_answers()
        assert [node.data for node in await found] == [path.encode() for path in paths]

    play(zookeeper, scenario, in_flight_max=3)


def test_a_close_waits_for_commits_and_deletes_ephemerals(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        other = await connect(proxy.address + tree._servers.chroot)
        proxy.hold_answers()
        commit = ensureDeferred(other.commit([Create("/kept"), Create("/e", ephemeral=True)]))
        closed = ensureDeferred(other.close())
        await appears(observer, "/kept")
        assert not closed.called
        proxy.release_answers()
        await commit
        await closed
        assert await observer.children("/") == ["kept"]
        await fails(ensureDeferred(other.get("/")))

    play(zookeeper, scenario)


def test_a_close_that_waits_for_calls_ends_with_the_connection(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        other = await connect(proxy.address + tree._servers.chroot, in_flight_max=1, connection_timeout=100)
        proxy.hold_answers()
        calls = [ensureDeferred(other.get("/")) for _ in range(3)]
        closed = ensureDeferred(other.close())
        proxy.close_to_new()
        for call in calls:
            await fails(call)
        await closed

    play(zookeeper, scenario)


def test_a_close_does_not_wait_for_a_lost_connection(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        events = listen(tree)
        proxy.close_to_new()
        await wait_for(lambda: events)
        call = ensureDeferred(tree.get("/"))
        closing = ensureDeferred(tree.close())
        await fails(call)
        await closing

    play(zookeeper, scenario)


def test_start_waits_for_zookeeper(zookeeper: str) -> None:
    async def work() -> None:
        proxy = await ZooKeeperProxy.listen(zookeeper)
        proxy.close_to_new()
        connecting = ensureDeferred(connect(proxy.address + fresh_chroot()))
        await wait_for(lambda: proxy.rejections)
        assert not connecting.called
        proxy.open_to_new()
        tree = await connecting
        assert await tree.children("/") == []
        await tree.close()
        await proxy.close()

    run(work)


def test_start_does_not_wait_for_ever(zookeeper: str) -> None:
    before = threading.enumerate()
    [port] = free_ports(1)
    expected = rf"^ZooKeeper at 127.0.0.1:{port}/x: not connected within 2 s \(.*refused.*\): .*zookeeper\.connect$"
    with pytest.raises(StartupError, match=expected):
        run(lambda: connect(f"127.0.0.1:{port}/x", connection_timeout=2))
    assert_no_new_thread(before)


def test_a_start_may_be_cancelled() -> None:
    before = threading.enumerate()
    [port] = free_ports(1)

    async def work() -> None:
        connecting = ensureDeferred(connect(f"127.0.0.1:{port}"))
        connecting.cancel()
        with pytest.raises(CancelledError):
            await connecting

    run(work)
    assert_no_new_thread(before)


def test_a_start_at_a_server_that_never_answers(zookeeper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kazoo_session, "_CLOSE_SECONDS_MAX", 1000)  # nothing is to be waited for
    before = threading.enumerate()

    async def work() -> None:
        proxy = await ZooKeeperProxy.listen(zookeeper)
        proxy.drop_answers()
        with pytest.raises(StartupError, match=r"not connected within 0\.3 s"):
            await connect(proxy.address, session_timeout=100, connection_timeout=0.3)
        await proxy.close()

    run(work)
    assert_no_new_thread(before)


def test_a_close_does_not_wait_long_for_an_answer(zookeeper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kazoo_session, "_CLOSE_SECONDS_MAX", 0.1)

    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        proxy.drop_answers()

    play(zookeeper, scenario, session_timeout=100)


@pytest.mark.usefixtures("zookeeper")
def test_a_server_is_stopped_and_started(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path) as server:

        async def work() -> None:
            tree = await connect(server.address + "/kafka/one", session_timeout=SESSION_SECONDS_MAX)
            events = listen(tree)
            await tree.commit([Create("/a", b"data"), Create("/e", ephemeral=True)])
            await in_thread(server.stop)
            await wait_for(lambda: events)
            call = ensureDeferred(tree.children("/"))
            await in_thread(server.start)
            assert await call == ["a", "e"]
            assert [event.state for event in events] == [SUSPENDED, CONNECTED]
            await tree.close()

        run(work)
