"""Registration of a broker: sessions that end, attempts that fail, and the end of all attempts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs, formatEvent
from twisted.python.failure import Failure

from pylogbroker.broker.membership.member import ClusterMember
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import StartupError
from pylogbroker.interfaces import Create, Delete, SetData, Unavailable
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.zk_schema import BrokerNode, PartitionNode
from tests.broker.membership.harness import BreakableTree, begin, error_of
from tests.broker.nodes import Threads
from tests.broker.trees import now, opened_tree

SESSION_SECONDS = 6.0
NODE = BrokerNode(("PLAINTEXT://b1:9092",), {"PLAINTEXT": "PLAINTEXT"}, host="b1", port=9092)
PATH = zk_paths.broker(1)


@attrs.define(eq=False)
class RenewableTree(BreakableTree):
    """Starts a new session when asked, unless `is_unreachable`."""

    earlier_sessions: tuple[int, ...] = ()
    is_unreachable: bool = False
    attempts: int = 0

    def expire(self) -> None:
        if now(self.tree.exists(PATH)) is not None:
            now(self.tree.commit([Delete(PATH)]))
        super().expire()

    async def new_session(self) -> None:  # type: ignore[override]
        self.attempts += 1
        if self.is_unreachable:
            raise Unavailable("/")
        super().new_session()


@attrs.define(eq=False)
class Registered:
    tree: RenewableTree
    clock: Clock
    member: ClusterMember
    epochs: list[int]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Registered]:
    with opened_tree(str(tmp_path)) as embedded:
        tree, clock, threads = RenewableTree(embedded), Clock(), Threads()
        any_tree: Any = tree
        member = ClusterMember(1, any_tree, Runtime.on(clock, threads, threads), SESSION_SECONDS)
        epochs: list[int] = []
        member.on_registered.append(epochs.append)
        yield Registered(tree, clock, member, epochs)


def another_session_registers(broker: Registered) -> None:
    now(broker.tree.commit([Create(PATH, zk_schema.encode_broker(NODE, 1), ephemeral=True)]))
    broker.tree.session_id += 1


def store_isr(broker: Registered, number: int, *isr: int) -> None:
    path = zk_paths.partition_state("t", number)
    data = zk_schema.encode_partition(PartitionNode(isr[0], 0, isr))
    if now(broker.tree.exists(path)) is not None:
        now(broker.tree.commit([SetData(path, data)]))
        return
    parents = [f"{zk_paths.TOPICS}/t", f"{zk_paths.TOPICS}/t/partitions", path.removesuffix("/state")]
    missing = [Create(parent) for parent in parents if now(broker.tree.exists(parent)) is None]
    now(broker.tree.commit([*missing, Create(path, data)]))


def test_a_broker_registers_again_after_its_session(broker: Registered) -> None:
    now(broker.member.register(NODE))
    assert broker.member.is_registered
    broker.tree.expire()
    assert now(broker.tree.exists(PATH)) is not None
    assert len(broker.epochs) == 2
    assert broker.epochs[1] > broker.epochs[0]
    assert broker.member.epoch == broker.epochs[1]


def test_attempts_are_repeated_and_end_with_the_broker(broker: Registered) -> None:
    now(broker.member.register(NODE))
    broker.tree.is_unreachable = True
    broker.tree.expire()
    broker.clock.pump([0.5] * 4)
    assert broker.tree.attempts == 3
    broker.tree.is_unreachable = False
    broker.clock.advance(1)
    assert len(broker.epochs) == 2

    broker.tree.is_unreachable = True
    broker.tree.expire()
    broker.member.close()
    assert broker.clock.getDelayedCalls() == []
    broker.tree.expire()
    assert broker.tree.attempts == 5


def test_a_session_that_ends_during_an_attempt_ends_the_attempt(broker: Registered) -> None:
    now(broker.member.register(NODE))
    held: list[Deferred[None]] = []

    def read_settings() -> Deferred[None]:
        held.append(Deferred())
        return held[-1]

    broker.member.on_new_session.append(read_settings)
    broker.tree.expire()
    broker.tree.expire()
    assert (len(held), broker.tree.attempts) == (2, 2)
    for each in held:
        if not each.called:
            each.callback(None)
    assert len(broker.epochs) == 2
    assert broker.clock.getDelayedCalls() == []


def test_a_broker_that_stops_waits_for_no_other_session(broker: Registered) -> None:
    another_session_registers(broker)
    outcome: list[Any] = []
    begin(broker.member.register(NODE)).addBoth(outcome.append)
    broker.clock.advance(SESSION_SECONDS)
    assert not outcome
    broker.member.close()
    [failure] = outcome
    assert isinstance(failure, Failure)
    assert failure.check(CancelledError)
    assert broker.clock.getDelayedCalls() == []
    assert not broker.member.is_registered


def test_after_a_crash_a_broker_leaves_the_isrs_before_it_registers(broker: Registered) -> None:
    """Otherwise a controller that is elected just then would let it lead, with a log that may be cut."""
    store_isr(broker, 0, 1, 2)
    store_isr(broker, 1, 1, 3)  # broker 3 is down, too
    store_isr(broker, 2, 2)
    store_isr(broker, 4, 1, 2)
    now(broker.tree.commit([Create(zk_paths.broker(2), b"{}")]))
    another_session_registers(broker)
    departed: list[bool] = []
    broker.member.on_departed.append(lambda: departed.append(broker.member.is_registered))
    registered = begin(broker.member.register(NODE, [("t", number) for number in range(5)]))
    broker.clock.advance(1)
    assert not registered.called
    now(broker.tree.commit([Delete(PATH)]))
    read = len(broker.tree.reads)
    broker.clock.pump([0.1] * 5)
    assert len(broker.tree.reads) == read  # there may be thousands to read
    assert not departed
    store_isr(broker, 4, 2)
    assert not broker.member.is_registered
    store_isr(broker, 0, 2)
    assert broker.member.is_registered
    assert departed == [False]
    assert broker.clock.getDelayedCalls() == []
    broker.tree.expire()  # the process lives on, and has lost nothing
    assert len(broker.epochs) == 2


def test_after_a_crash_a_broker_does_not_register_before_it_has_left(broker: Registered) -> None:
    """Its id stays registered for long, as that session has a longer timeout; all orders would be rejected then."""
    another_session_registers(broker)
    outcome: list[Any] = []
    begin(broker.member.register(NODE, [("t", 0)])).addBoth(outcome.append)
    broker.clock.advance(2 * SESSION_SECONDS)
    now(broker.tree.commit([Delete(PATH)]))
    assert not broker.member.is_registered
    [failure] = outcome
    assert failure.check(StartupError)
    assert "broker id 1 is registered by another session" in str(failure.value)


def test_a_broker_may_stay_in_the_isr_of_a_broker_that_dies(broker: Registered) -> None:
    store_isr(broker, 0, 1, 2)
    now(broker.tree.commit([Create(zk_paths.broker(2), b"{}")]))
    begin(broker.member.register(NODE, [("t", 0)]))
    assert not broker.member.is_registered
    now(broker.tree.commit([Delete(zk_paths.broker(2))]))
    assert broker.member.is_registered


def test_a_broker_that_does_not_leave_an_isr_registers_in_the_end(broker: Registered) -> None:
    store_isr(broker, 0, 1, 2)
    now(broker.tree.commit([Create(zk_paths.broker(2), b"{}")]))
    registered = begin(broker.member.register(NODE, [("t", 0)]))
    with capturedLogs() as events:
        broker.clock.pump([0.5] * 24)
        assert registered.called
    [line] = [formatEvent(event) for event in events if event["log_level"] is LogLevel.warn]
    assert line.startswith("after a crash, t-0 and 0 more still count this broker as in sync")


def test_an_id_that_stays_registered_is_an_error_with_its_remedy(broker: Registered) -> None:
    another_session_registers(broker)
    outcome: list[Any] = []
    begin(broker.member.register(NODE)).addBoth(outcome.append)
    broker.clock.advance(2 * SESSION_SECONDS)
    [failure] = outcome
    assert failure.check(StartupError)
    assert "broker id 1 is registered by another session" in str(failure.value)
    assert "set another broker.id" in str(failure.value)


def test_an_expired_session_during_start_is_an_error_with_its_remedy(broker: Registered) -> None:
    broker.tree.has_expired = True
    error = error_of(broker.member.register(NODE))
    assert isinstance(error, StartupError)
    assert str(error).startswith("ZooKeeper was lost while broker 1 registered")
