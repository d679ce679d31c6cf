"""Scenarios with a tree behind a proxy, and another tree that observes."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from pylogbroker.interfaces import Changed, ITree, SessionEvent, SessionState, Unavailable
from tests.support.reactor_run import run
from tests.tree.trees import connect, fresh_chroot
from tests.tree.zookeeper_proxy import ZooKeeperProxy

Scenario = Callable[[ITree, ZooKeeperProxy, ITree], Awaitable[None]]
CONNECTED, SUSPENDED, EXPIRED = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED


def play(address: str, scenario: Scenario, timeout: float = 120, **options: Any) -> None:
    """Run a scenario with a tree behind a proxy, and another tree that observes; no thread may be left."""
    before = threading.enumerate()

    async def work() -> None:
        chroot = fresh_chroot()
        proxy = await ZooKeeperProxy.listen(address)
        tree = await connect(proxy.address + chroot, **options)
        observer = await connect(address + chroot)
        try:
            await scenario(tree, proxy, observer)
        finally:
            await tree.close()
            await observer.close()
            await proxy.close()

    run(work, timeout)
    assert_no_new_thread(before)


def assert_no_new_thread(before: list[threading.Thread]) -> None:
    assert [each for each in threading.enumerate() if each not in before] == []


def listen(tree: ITree) -> list[SessionEvent]:
    events: list[SessionEvent] = []
    tree.watch_session(events.append)
    return events


async def appears(tree: ITree, path: str) -> None:
    """Wait until the node exists."""
    created: Deferred[Changed] = Deferred()
    if await tree.exists(path, created.callback) is None:
        await created


async def fails(call: Deferred[object], error: type[Exception] = Unavailable) -> None:
    with pytest.raises(error):
        await call
