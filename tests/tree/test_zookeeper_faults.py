"""Writers and watches while connections, answers, requests and sessions are lost at random.

A writer counts up in a node of its own, each time at the version that it knows. After an unknown outcome it reads again
and compares, as every caller of `commit` must. So each number is written once, and the node's version is the count.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import attrs
from twisted.internet.defer import ensureDeferred, gatherResults

from pylogbroker.interfaces import Changed, Create, ITree, Node, SessionEvent, SetData, Unavailable
from tests.support.budget import Budget
from tests.support.reactor_run import wait_for
from tests.tree.test_zookeeper_sessions import expire
from tests.tree.zookeeper_proxy import ZooKeeperProxy
from tests.tree.zookeeper_scenarios import CONNECTED, EXPIRED, play

WRITERS = 3
WRITES_BETWEEN_MAX = 20  # faults


@attrs.define
class Life:
    """The tree's session, writers and watches."""

    tree: ITree
    is_connected: bool = True
    is_over: bool = False
    sessions: int = 1
    written: dict[str, int] = attrs.field(factory=dict)
    seen: dict[str, bytes | None] = attrs.field(factory=dict)
    unknown_outcomes: int = 0

    def session_changed(self, event: SessionEvent) -> None:
        if event.state is EXPIRED:
            ensureDeferred(self.tree.new_session())
        self.is_connected = event.state is CONNECTED
        if self.is_connected and self.sessions == len(self.tree.earlier_sessions):
            self.sessions += 1
            for path in self.written:
                self.follow(path)

    async def again(self, call: Callable[[], Awaitable[Node]]) -> Node:
        """Repeat a read until it succeeds."""
        while True:
            try:
                return await call()
            except Unavailable:
                await wait_for(lambda: self.is_connected)

    async def write(self, path: str) -> None:
        while not self.is_over:
            number = self.written[path] + 1
            data = b"%d" % number
            try:
                await self.tree.commit([SetData(path, data, version=number - 1)])
            except Unavailable:
                self.unknown_outcomes += 1
                if (await self.again(lambda: self.tree.get(path))).data != data:
                    continue
            self.written[path] = number

    def follow(self, path: str) -> None:
        ensureDeferred(self._follow(path))

    async def _follow(self, path: str) -> None:
        def changed(change: Changed) -> None:
            self.follow(path)

        self.seen[path] = (await self.again(lambda: self.tree.get(path, changed))).data

    @property
    def total(self) -> int:
        return sum(self.written.values())


async def break_at_random(life: Life, proxy: ZooKeeperProxy, address: str, chance: random.Random) -> None:
    fault = chance.choice(["cut", "close", "drop answers", "drop requests", "hold", "expire"])
    if fault == "expire":
        sessions = life.sessions
        await expire(life.tree, address)
        await wait_for(lambda: life.sessions > sessions)
    elif fault == "hold":
        proxy.hold_answers()
        await an_answer(proxy, chance)
        proxy.release_answers()
    elif fault == "close":
        proxy.close_to_new()
        await wait_for(lambda: not life.is_connected)
        proxy.open_to_new()
    else:
        if fault != "cut":
            (proxy.drop_answers if fault == "drop answers" else proxy.drop_requests)()
        if fault == "drop answers":
            await an_answer(proxy, chance)
        proxy.cut()
        await wait_for(lambda: not life.is_connected)


async def an_answer(proxy: ZooKeeperProxy, chance: random.Random) -> None:
    """Wait, or not, until ZooKeeper has answered something that is held or dropped."""
    wanted = proxy.answers + chance.randint(0, 1)
    await wait_for(lambda: proxy.answers >= wanted)


def test_faults_repeat_no_write_and_hide_no_change(zookeeper: str, budget: Budget) -> None:
    chance = budget.chance("faults of ZooKeeper")

    async def scenario(tree: ITree, proxy: ZooKeeperProxy, observer: ITree) -> None:
        life = Life(tree)
        paths = [f"/{number}" for number in range(WRITERS)]
        await tree.commit([Create(path, b"0") for path in paths])
        life.written = dict.fromkeys(paths, 0)
        tree.watch_session(life.session_changed)
        writers = [ensureDeferred(life.write(path)) for path in paths]
        for path in paths:
            life.follow(path)
        for _ in range(budget.of(15, 300)):
            wanted = life.total + chance.randint(1, WRITES_BETWEEN_MAX)
            await wait_for(lambda wanted=wanted: life.total >= wanted)
            await break_at_random(life, proxy, zookeeper, chance)
        life.is_over = True
        await gatherResults(writers)
        for path in paths:
            node = await observer.get(path)
            assert (node.data, node.stat.version) == (b"%d" % life.written[path], life.written[path])
        await wait_for(lambda: life.seen == {path: b"%d" % count for path, count in life.written.items()})
        assert life.unknown_outcomes > 0

    play(zookeeper, scenario, timeout=budget.of(240, 1200))
