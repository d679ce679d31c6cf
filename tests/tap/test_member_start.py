"""The start of a cluster's member by twistd: when it begins, and what a failure leaves to see."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from pylogbroker.errors import StartupError
from pylogbroker.tap.lifecycle import BrokerStart, _log_start
from pylogbroker.tap.options import Options
from pylogbroker.tap.twistd import TwistdService
from tests.broker.log_lines import logged_lines
from tests.broker.members import opened_members

WHY = "ZooKeeper at zoo:2181: not connected within 18 s: check that it runs, and zookeeper.connect"


class FakeReactor(Clock):
    """A reactor that begins to run when `begin` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Callable[[], None]] = []
        self.triggers: list[tuple[Any, ...]] = []
        self.is_stopped = False

    def callWhenRunning(self, call: Callable[[], None]) -> None:
        self.waiting.append(call)

    def begin(self) -> None:
        for call in self.waiting:
            call()

    def addSystemEventTrigger(self, *trigger: Any) -> None:
        self.triggers.append(trigger)

    def stop(self) -> None:
        self.is_stopped = True


class OneStart:
    """The outcome of a start, which a test decides."""

    def __init__(self) -> None:
        self.begun: list[Deferred[Any]] = []

    async def run(self, start: BrokerStart) -> Any:
        self.begun.append(Deferred())
        return await self.begun[-1]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> OneStart:
    start = OneStart()

    async def run(self: BrokerStart) -> Any:
        return await start.run(self)

    monkeypatch.setattr(BrokerStart, "run", run)
    return start


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", shown)
    return shown


def started(reactor: FakeReactor, start: OneStart, *, logs_elsewhere: bool) -> TwistdService:
    options = Options()
    options.parent = {} if logs_elsewhere else {"nodaemon": True}  # type: ignore[assignment]
    options.parseOptions(["--override", "zookeeper.connect=zoo:2181", "--data-dir", "unused"])
    service = TwistdService(reactor, options)
    service.startService()
    assert start.begun == []
    reactor.begin()
    return service


@pytest.mark.parametrize(
    ("settings", "is_short"),
    [([], False), (["zookeeper.connect=zoo:2181"], True), (["remote.log.storage.system.enable=true"], True)],
)
def test_threads_share_the_interpreter_in_a_cluster_and_with_an_archive(
    start: OneStart, monkeypatch: pytest.MonkeyPatch, settings: list[str], is_short: bool
) -> None:
    intervals: list[float] = []
    monkeypatch.setattr(sys, "setswitchinterval", intervals.append)
    options = Options()
    options.parent = {"nodaemon": True}  # type: ignore[assignment]
    options.parseOptions(["--data-dir", "unused", *(f"--override={setting}" for setting in settings)])
    reactor = FakeReactor()
    with suppress(StartupError):  # a broker that is alone expects a whole start
        TwistdService(reactor, options).startService()
    assert [interval < sys.getswitchinterval() for interval in intervals] == [True] * is_short


def ends_with_status_1(reactor: FakeReactor) -> bool:
    reactor.advance(0)
    return reactor.is_stopped and reactor.triggers == [("after", "shutdown", os._exit, 1)]


@pytest.mark.parametrize("logs_elsewhere", [False, True])
def test_a_failed_start_is_one_line_in_each_place(start: OneStart, terminal: io.StringIO, logs_elsewhere: bool) -> None:
    reactor = FakeReactor()
    with logged_lines() as lines:
        started(reactor, start, logs_elsewhere=logs_elsewhere)
        start.begun[0].errback(StartupError(WHY))
    assert terminal.getvalue() == f"pylogbroker: {WHY}\n"
    assert lines == ([f"the broker cannot start: {WHY}"] if logs_elsewhere else [])
    assert ends_with_status_1(reactor)


@pytest.mark.parametrize("logs_elsewhere", [False, True])
def test_a_failed_start_for_another_reason_is_logged_once(
    start: OneStart, terminal: io.StringIO, logs_elsewhere: bool
) -> None:
    reactor = FakeReactor()
    with logged_lines() as lines:
        started(reactor, start, logs_elsewhere=logs_elsewhere)
        start.begun[0].errback(ZeroDivisionError("a bug"))
    assert [line.splitlines()[0] for line in lines] == ["the broker cannot start"]
    assert ends_with_status_1(reactor)


def test_a_start_that_is_stopped_shows_nothing(start: OneStart, terminal: io.StringIO) -> None:
    reactor = FakeReactor()
    with logged_lines() as lines:
        service = started(reactor, start, logs_elsewhere=True)
        service.stopService()
        start.begun[0].errback(StartupError("it was stopped before it had started"))
    assert (terminal.getvalue(), lines, reactor.triggers) == ("", [], [])


def test_the_log_counts_followed_replicas_too(tmp_path: Path) -> None:
    directories = [str(tmp_path / name) for name in ("one", "two")]
    for each in directories:
        os.mkdir(each)
    with opened_members(directories, {}) as cluster:
        cluster.create("t", [1, 2], replicas=[1, 2])
        cluster[2].produce("t", 1, 5)
        cluster.run()
        size = cluster[2].broker.partitions.find("t", 1).log.size
        with logged_lines() as lines:
            _log_start(cluster[1].broker, 0.5)
    expected = f"1 topic with 2 replicas here, 0 consumer groups and {size} bytes of records; started in 0.50 s"
    assert lines[-1] == expected
