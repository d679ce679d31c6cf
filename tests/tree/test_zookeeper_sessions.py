"""Sessions with a real ZooKeeper: expiry, new sessions, registration after them, logins and ACLs."""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Collection, Mapping
from functools import partial

import attrs
import pytest
from kazoo.client import KazooClient
from twisted.internet.defer import Deferred, ensureDeferred

from pylogbroker.client.consumer.registry import GroupRegistry
from pylogbroker.client.sources import TreeBrokers
from pylogbroker.errors import StartupError
from pylogbroker.interfaces import (
    OPEN_ACL,
    Acl,
    Changed,
    Create,
    Delete,
    ITree,
    NotPermitted,
    Permission,
    SessionExpired,
    SetData,
)
from pylogbroker.metadata import registration, zk_paths, zk_schema
from pylogbroker.metadata.zk_acl import secure_acl
from pylogbroker.metadata.zk_schema import BrokerNode, ConsumerNode
from pylogbroker.tree import zookeeper as zookeeper_module
from pylogbroker.tree.deletion import wait_until_deleted
from pylogbroker.tree.zookeeper_options import ZooKeeperLogin
from tests.support.reactor_run import run, wait_for
from tests.tree.trees import connect, fresh_chroot, in_thread
from tests.tree.zookeeper_proxy import ZooKeeperProxy
from tests.tree.zookeeper_scenarios import CONNECTED, EXPIRED, SUSPENDED, appears, fails, listen, play

BROKER = BrokerNode(("PLAINTEXT://a:1",), {"PLAINTEXT": "PLAINTEXT"})


async def expire(tree: ITree, address: str) -> None:
    """End the tree's session on the server: a second connection takes it over, and closes it."""
    client_id = tree._session._client.client_id

    def close() -> None:
        client = KazooClient(address, client_id=client_id)
        client.start(60)
        client.stop()
        client.close()

    await in_thread(close)


def test_an_expired_session_is_not_replaced_by_itself(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        events, first = listen(tree), tree.session_id
        await tree.commit([Create("/e", ephemeral=True)])
        await expire(tree, zookeeper)
        await wait_for(lambda: events and events[-1].state is EXPIRED)
        connections = proxy.connections
        assert await observer.exists("/e") is None
        for call in (tree.get("/"), tree.commit([Create("/a")]), tree.get_many(["/a"]), tree.acl("/")):
            await fails(ensureDeferred(call), SessionExpired)
        assert (proxy.connections, events[-1].session_id, tree.earlier_sessions) == (connections, first, [first])
        await wait_for(lambda: sum("zk_loop" in thread.name for thread in threading.enumerate()) == 1)  # the observer's

        await tree.new_session()
        assert proxy.connections == connections + 1
        assert tree.session_id not in (0, first)
        assert [event.state for event in events] == [SUSPENDED, EXPIRED, CONNECTED]
        assert events[-1].session_id == tree.session_id
        await tree.commit([Create("/e", ephemeral=True)])
        assert (await observer.get("/e")).stat.owner == tree.session_id
        await tree.new_session()  # does nothing while the session lives
        assert len(events) == 3

    play(zookeeper, scenario)


def test_the_end_is_reported_before_calls_fail(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        order: list[object] = []
        tree.watch_session(lambda event: order.append(event.state))
        proxy.close_to_new()
        await wait_for(lambda: order)
        calls = [ensureDeferred(tree.commit([Create("/a")])), ensureDeferred(tree.get("/"))]
        for call in calls:
            call.addErrback(lambda failure: order.append(failure.type))
        await expire_by_time(tree, observer, proxy)
        await wait_for(lambda: len(order) == 4)
        assert order == [SUSPENDED, EXPIRED, SessionExpired, SessionExpired]
        assert await observer.exists("/a") is None

    async def expire_by_time(tree: ITree, observer: ITree, proxy: ZooKeeperProxy) -> None:
        gone: Deferred[Changed] = Deferred()
        if await observer.exists("/marker", gone.callback) is not None:
            await gone
        proxy.open_to_new()

    async def with_marker(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        await tree.commit([Create("/marker", ephemeral=True)])
        await scenario(tree, proxy, observer)

    play(zookeeper, with_marker, session_timeout=3.0, connection_timeout=60)


def test_a_session_that_ends_drops_its_watches(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        events, heard = listen(tree), list[Changed]()
        await tree.exists("/a", heard.append)
        await expire(tree, zookeeper)
        await wait_for(lambda: events and events[-1].state is EXPIRED)
        await tree.new_session()
        await observer.commit([Create("/a")])
        assert await tree.children("/") == ["a"]
        assert heard == []

    play(zookeeper, scenario)


def test_a_listener_that_fails_does_not_stop_others(zookeeper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[str] = []
    monkeypatch.setattr(zookeeper_module.log, "failure", failures.append)

    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        tree.watch_session(lambda event: 1 / 0)
        events = listen(tree)
        proxy.cut()
        await wait_for(lambda: len(events) == 2)
        assert len(failures) == 2

    play(zookeeper, scenario)


def test_a_broker_registers_again_after_its_session(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        from twisted.internet import reactor

        events = listen(tree)
        await registration.create_permanent_nodes(tree)
        epoch = await registration.register(tree, 5, BROKER, now_ms=1)
        node = await observer.get(zk_paths.broker(5))
        assert (node.stat.created, node.stat.version, node.stat.owner) == (epoch, 1, tree.session_id)
        assert node.data == zk_schema.encode_broker(BROKER, 1)
        with pytest.raises(StartupError, match="broker id 5 is registered by another session"):
            await registration.register(observer, 5, BROKER, now_ms=1)
        wait = partial(wait_until_deleted, observer, clock=reactor, deadline=reactor.seconds() + 100)
        waiting = ensureDeferred(registration.register(observer, 5, BROKER, 2, wait))

        await expire(tree, zookeeper)
        await wait_for(lambda: events and events[-1].state is EXPIRED)
        assert await waiting > epoch
        await tree.new_session()
        await observer.commit([Delete(zk_paths.broker(5))])
        assert await registration.register(tree, 5, BROKER, now_ms=3) > await waiting

    play(zookeeper, scenario)


def test_a_registration_with_an_unknown_outcome_is_repeated(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        await registration.create_permanent_nodes(tree)
        proxy.drop_answers()
        first = ensureDeferred(registration.register(tree, 5, BROKER, now_ms=1))
        await appears(observer, zk_paths.broker(5))
        proxy.cut()
        await fails(first)
        created = (await observer.get(zk_paths.broker(5))).stat.created
        assert await registration.register(tree, 5, BROKER, now_ms=1) == created

    play(zookeeper, scenario)


def test_brokers_get_different_ids_and_one_cluster_id(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        both = (tree, observer)
        await all_of(*map(registration.create_permanent_nodes, both))
        nodes = await tree.get_many(zk_paths.PERSISTENT)
        assert [node.data for node in nodes] == [None] * len(nodes)
        ids = await all_of(*(registration.new_broker_id(each, 1000) for each in both * 3))
        assert sorted(ids) == [1001, 1002, 1003, 1004, 1005, 1006]
        one, other = await all_of(*map(registration.cluster_id, both))
        assert one == other

    play(zookeeper, scenario)


@attrs.define
class Member:
    """A consumer's listener."""

    reads: set[object] = attrs.field(factory=set)
    lost: int = 0

    def assign(self, partitions: Mapping[object, int]) -> None:
        self.reads |= partitions.keys()

    async def revoke(self, partitions: Collection[object]) -> None:
        self.reads -= set(partitions)

    async def lose(self, partitions: Collection[object]) -> None:
        self.lost += 1
        self.reads -= set(partitions)

    def failed(self, error: Exception) -> None:
        raise error


def test_consumers_and_clients_go_on_after_a_session(zookeeper: str) -> None:
    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        from twisted.internet import reactor

        await registration.create_permanent_nodes(tree)
        node = zk_schema.encode_topic(zk_schema.TopicNode(uuid.uuid4(), {0: (1,), 1: (1,)}))
        await tree.commit([Create(zk_paths.topic("t"), node)])
        member, changes = Member(), list[int]()
        registry = GroupRegistry(tree, reactor, "g", ConsumerNode({"t": 1}), member, "c")
        brokers = TreeBrokers(tree)
        brokers.watch(lambda: changes.append(1))
        await registry.start()
        assert member.reads == {("t", 0), ("t", 1)}

        await expire(tree, zookeeper)
        await wait_for(lambda: member.lost)
        assert member.reads == set()
        before = len(changes)
        await tree.new_session()
        await wait_for(lambda: len(member.reads) == 2)
        owner = await observer.get(zk_paths.owner("g", "t", 0))
        assert (owner.data, owner.stat.owner) == (b"c-0", tree.session_id)
        assert len(changes) == before + 1
        await observer.commit([Create(zk_paths.broker(1))])
        await wait_for(lambda: len(changes) == before + 2)
        await registry.stop()

    play(zookeeper, scenario)


async def all_of(*calls: object) -> list[object]:
    started = [ensureDeferred(call) for call in calls]
    return [await each for each in started]


def test_zookeeper_set_acl_lets_only_the_login_write(zookeeper: str) -> None:
    async def work() -> None:
        address = zookeeper + fresh_chroot()
        login = ZooKeeperLogin(f"broker-{uuid.uuid4()}", "secret")
        broker = await connect(address, digest=login, default_acl=secure_acl)
        await registration.create_permanent_nodes(broker)
        await broker.commit([Create("/config/users/alice", b"secret"), Create("/config/topics/t", b"known")])
        other = await connect(address)
        assert (await other.get("/config/topics/t")).data == b"known"
        for forbidden in (
            other.get("/config/users/alice"),
            other.get_many(["/config/users/alice"]),
            other.commit([SetData("/config/topics/t", b"x")]),
            other.commit([Create("/brokers/ids/1", ephemeral=True)]),
        ):
            with pytest.raises(NotPermitted):
                await forbidden
        await other.commit([Create("/consumers/g")])
        [own, world] = await broker.acl("/config/topics/t")
        assert (own.scheme, own.id.partition(":")[0], own.permissions) == ("digest", login.username, Permission.ALL)
        assert world == Acl("world", "anyone", Permission.READ)
        assert len(await broker.acl("/config/users/alice")) == 1
        assert await broker.acl("/consumers") == OPEN_ACL
        await other.close()
        await broker.close()

    run(work)


def test_a_chroot_that_may_not_be_created_is_an_error(zookeeper: str) -> None:
    async def work() -> None:
        address = zookeeper + fresh_chroot()
        broker = await connect(address, digest=ZooKeeperLogin("broker", "secret"), default_acl=secure_acl)
        with pytest.raises(StartupError, match=r"the chroot cannot be created: NotPermitted: /tests-.*/more"):
            await connect(f"{address}/more")
        await broker.close()

    run(work)


def test_sasl_without_its_package_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "puresasl", None)
    with pytest.raises(StartupError, match=r"SASL with ZooKeeper needs pure-sasl, .* 'pure-sasl"):
        run(lambda: connect("127.0.0.1:1", sasl=ZooKeeperLogin("broker", "secret")))
