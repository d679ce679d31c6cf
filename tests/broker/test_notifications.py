"""Notifications whose reading fails: none is missed for longer than the connection is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import attrs
import pytest
from twisted.internet.defer import DeferredLock
from twisted.internet.task import Clock

from pylogbroker.broker.metadata.notifications import NOTIFICATION_MS_MAX, Notifications
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.interfaces import Create, ITree, Unavailable
from pylogbroker.metadata import zk_paths
from tests.broker.membership.harness import BreakableTree
from tests.broker.nodes import Threads
from tests.broker.trees import now, opened_tree

PATH = zk_paths.CONFIG_CHANGES


@attrs.define
class Follower:
    tree: BreakableTree
    clock: Clock = attrs.field(factory=Clock)
    lock: DeferredLock = attrs.field(factory=DeferredLock)
    acted: list[bytes | None] = attrs.field(factory=list)
    failures: int = 0
    notifications: Notifications = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        runtime = Runtime.on(self.clock, Threads(), Threads())
        self.notifications = Notifications(cast(ITree, self.tree), runtime, PATH, "settings", self.act, self.lock)
        now(self.notifications.start())

    async def act(self, data: Sequence[bytes | None]) -> None:
        if self.failures:
            self.failures -= 1
            raise Unavailable(PATH)
        self.acted += data

    def notify(self, data: bytes) -> None:
        now(self.tree.tree.commit([Create(f"{PATH}/config_change_", data, sequence=True)]))


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    with opened_tree(str(tmp_path)) as tree:
        yield Follower(BreakableTree(tree))


def test_a_connection_that_is_lost_before_the_next_watch_is_set(follower: Follower) -> None:
    follower.tree.is_suspended = True
    follower.notify(b"one")  # the watch is called, and no other one can be set
    follower.clock.advance(1)
    follower.notify(b"two")
    assert follower.acted == []
    follower.tree.is_suspended = False
    follower.clock.advance(1)
    assert follower.acted == [b"one", b"two"]
    follower.notify(b"three")
    assert follower.acted == [b"one", b"two", b"three"]


def test_a_notification_is_handled_again_after_a_failure(follower: Follower) -> None:
    follower.failures = 1
    follower.notify(b"one")
    assert follower.acted == []
    follower.clock.advance(1)
    assert follower.acted == [b"one"]


def test_other_reads_go_on_between_the_attempts(follower: Follower) -> None:
    follower.tree.is_suspended = True
    follower.notify(b"one")
    assert not follower.lock.locked


def test_one_watch_is_set_at_a_time(follower: Follower) -> None:
    follower.failures = 3
    follower.notify(b"one")  # sets the watch, and then fails
    for _ in range(5):
        follower.clock.advance(1)
    before = len(follower.tree.watches)
    follower.notify(b"two")
    assert len(follower.tree.watches) == before + 1
    assert follower.acted == [b"one", b"two"]


def test_the_attempts_end_with_the_session(follower: Follower) -> None:
    follower.tree.is_suspended = True
    follower.notify(b"one")
    follower.tree.expire()
    follower.tree.new_session()
    follower.tree.is_suspended = False
    now(follower.notifications.start())  # its caller reads everything
    follower.clock.advance(1)
    assert follower.acted == []
    follower.notify(b"two")
    assert follower.acted == [b"two"]


def test_the_attempts_end_with_a_stop(follower: Follower) -> None:
    follower.tree.is_suspended = True
    follower.notify(b"one")
    follower.notifications.stop()
    assert not follower.clock.getDelayedCalls()


def test_old_notifications_are_deleted(follower: Follower) -> None:
    follower.notify(b"one")
    stored = now(follower.tree.tree.children_with_data(PATH))
    [created_ms] = [node.stat.created_ms for node in stored.values()]
    follower.clock.advance((created_ms + NOTIFICATION_MS_MAX) / 1000 + 1)
    follower.notify(b"two")
    left = now(follower.tree.tree.children_with_data(PATH))
    assert follower.acted == [b"one", b"two"]
    assert b"one" not in [node.data for node in left.values()]
