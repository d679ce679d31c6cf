"""Streams as plain iterators, over a stream that gives what the test has put into it."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import pytest
from twisted.internet.defer import Deferred, succeed

from pylogbroker.client.messages import Messages
from pylogbroker.client.sync import streams
from pylogbroker.client.sync.background import Background, running
from pylogbroker.client.sync.streams import Stream
from tests.client.test_sync_background import interrupt


class Item(NamedTuple):
    """Fields of a message that a stream needs."""

    offset: int
    topic: str = "t"
    partition: int = 0


class Source:
    """Answers `get_many` from what was put in, at once or when there is something."""

    timeout: float | None = None

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.counts: list[int] = []
        self.waiting: tuple[int, Deferred[Messages]] | None = None
        self.asked = threading.Event()

    def get_many(self, count: int) -> Deferred[Messages]:
        self.counts.append(count)
        self.asked.set()
        if self.items:
            return succeed(self._taken(count))
        self.waiting = count, Deferred()
        return self.waiting[1]

    def put(self, *items: Item) -> None:
        self.items.extend(items)
        if self.waiting is not None:
            (count, deferred), self.waiting = self.waiting, None
            deferred.callback(self._taken(count))

    def fail(self, error: Exception) -> None:
        assert self.waiting is not None
        (_, deferred), self.waiting = self.waiting, None
        deferred.errback(error)

    def _taken(self, count: int) -> Messages:
        items = [self.items.popleft() for _ in range(min(count, len(self.items)))]
        return Messages([list(run) for _, run in groupby(items, attrgetter("partition"))])  # type: ignore[arg-type]


@pytest.fixture
def background() -> Background:
    return running()


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def stream(background: Background, source: Source) -> Stream:
    return Stream(background, source)  # type: ignore[arg-type]


def put(background: Background, source: Source, *items: Item) -> None:
    background.call(lambda: succeed(source.put(*items)), 10, "put")


def once_asked(background: Background, source: Source, act: Callable[[], None]) -> None:
    """Act on the reactor's thread as soon as the stream waits for more."""
    source.asked.clear()
    threading.Thread(target=lambda: source.asked.wait(120) and background.reactor.callFromThread(act)).start()


ITEMS = tuple(Item(offset) for offset in range(10_000))
ITEMS_READ = tuple(Item(offset) for offset in range(200_000))


def test_messages_come_in_order_and_are_counted(background: Background, source: Source, stream: Stream) -> None:
    put(background, source, *ITEMS)
    assert [stream.get(10) for _ in ITEMS] == list(ITEMS)
    assert stream.count == len(ITEMS)


def test_a_quick_reader_gets_more_at_a_time_and_a_slow_one_fewer(
    background: Background, source: Source, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(background, source, *ITEMS)
    now = 0.0
    monkeypatch.setattr(streams.time, "monotonic", lambda: now)
    for _ in range(100):
        stream.get(10)
    assert source.counts == [2, 4, 8, 16, 32, 64]
    quick = len(source.counts)
    for _ in range(200):
        now += 0.1
        stream.get(10)
    assert source.counts[quick : quick + 3] == [32, 16, 8]
    assert source.counts[-1] == 1


def test_the_end(background: Background, source: Source, stream: Stream) -> None:
    put(background, source, Item(1))
    assert stream.get(10) == Item(1)
    once_asked(background, source, source.put)
    assert list(stream) == []


def test_idle_streams_end_an_iteration_and_go_on(background: Background, source: Source, stream: Stream) -> None:
    source.timeout = 0.01
    assert list(stream) == []
    put(background, source, Item(1), Item(2))
    assert list(stream) == [Item(1), Item(2)]


def test_ctrl_c_while_waiting_loses_no_message(background: Background, source: Source, stream: Stream) -> None:
    interrupt(source.asked.is_set)
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    put(background, source, Item(1), Item(2))
    assert stream.unread() == {("t", 0): 1}
    assert [next(stream), next(stream)] == [Item(1), Item(2)]


@pytest.mark.parametrize("is_scheduled", [True, False])
def test_ctrl_c_while_starting_loses_no_message(
    background: Background, source: Source, stream: Stream, monkeypatch: pytest.MonkeyPatch, is_scheduled: bool
) -> None:
    schedule = background.reactor.callFromThread
    source.timeout = 10

    def press(*call: object) -> None:
        if is_scheduled:
            schedule(*call)
        raise KeyboardInterrupt

    with monkeypatch.context() as patches:
        patches.setattr(background.reactor, "callFromThread", press)
        with pytest.raises(KeyboardInterrupt):
            next(stream)
    put(background, source, Item(1), Item(2))
    assert [next(stream), next(stream)] == [Item(1), Item(2)]


def test_threads_share_a_stream(background: Background, source: Source, stream: Stream) -> None:
    source.timeout = 1.0
    put(background, source, *ITEMS)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda _: [stream.get(10) for _ in range(2500)], range(4)))
    assert sorted(item.offset for part in parts for item in part if item) == list(range(10_000))


def test_many_at_once(background: Background, source: Source, stream: Stream) -> None:
    put(background, source, *ITEMS[:700])
    assert stream.get_many(500) == list(ITEMS[:500])
    assert stream.get_many(500, timeout=10) == list(ITEMS[500:700])
    assert stream.get_many(500, timeout=0.01) == []
    assert stream.count == 700


def test_undelivered_messages_are_unread(background: Background, source: Source, stream: Stream) -> None:
    mixed = [Item(5), Item(6), Item(1, partition=1), Item(7), Item(2, partition=1)]
    put(background, source, *mixed)
    stream._prefetch_messages = 8
    assert stream.get(10) == Item(5)
    assert stream.unread() == {("t", 0): 6, ("t", 1): 1}
    stream.forget("t", 1)
    assert stream.unread() == {("t", 0): 6}
    assert [stream.get(10), stream.get(10)] == [Item(6), Item(7)]
    assert stream.unread() == {}


def test_messages_that_came_too_late_can_be_forgotten(background: Background, source: Source, stream: Stream) -> None:
    stream._prefetch_messages = 8
    assert stream.get(0.01) is None
    put(background, source, Item(1), Item(2, partition=1))
    stream.forget("t", 0)
    assert stream.get(10) == Item(2, partition=1)


def test_an_error_is_reported_once(background: Background, source: Source, stream: Stream) -> None:
    once_asked(background, source, lambda: source.fail(LookupError("so")))
    with pytest.raises(LookupError, match="so"):
        next(stream)
    put(background, source, Item(1))
    assert next(stream) == Item(1)


@pytest.mark.parametrize("many", [False, True])
def test_ctrl_c_at_any_moment_loses_no_message(background: Background, many: bool) -> None:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        outcomes = [interrupted(background, many, 0.001 + 0.00003 * step) for step in range(100)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert {given == next_one for given, next_one in outcomes} == {True}


def interrupted(background: Background, many: bool, seconds: float) -> tuple[int, int]:
    """Read until Ctrl-C, so many seconds later; how many messages were given, and the offset of the next one."""
    stream = Stream(background, Source())  # type: ignore[arg-type]
    stream._messages.extend(ITEMS_READ)
    given = 0
    with suppress(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while many:
            given = stream.get_many(7)[-1].offset + 1
        for message in stream:
            given = message.offset + 1
    return given, stream._messages[0].offset


MIXED = (Item(5), Item(6), Item(1, partition=1), Item(7), Item(2, partition=1))


def test_runs_are_unread_until_they_are_marked(background: Background, source: Source, stream: Stream) -> None:
    put(background, source, *MIXED)
    stream._prefetch_messages = 16
    assert (stream.next_run(), stream.next_run()) == ([Item(5), Item(6)], [Item(5), Item(6)])
    assert (stream.unread(), stream.count) == ({("t", 0): 5, ("t", 1): 1}, 0)
    stream.mark_read(1)
    assert (stream.next_run(), stream.unread()) == ([Item(6)], {("t", 0): 6, ("t", 1): 1})
    stream.mark_read(1)
    assert (stream.next_run(), stream.unread()) == ([Item(1, partition=1)], {("t", 0): 7, ("t", 1): 1})
    assert stream.count == 2


def test_runs_and_single_messages_alternate(background: Background, source: Source, stream: Stream) -> None:
    put(background, source, *MIXED)
    stream._prefetch_messages = 16
    assert stream.get(10) == Item(5)
    assert stream.next_run() == [Item(6)]
    stream.mark_read(1)
    assert stream.next_run() == [Item(1, partition=1)]
    assert stream.get(10) == Item(1, partition=1)
    assert stream.next_run() == [Item(7)]
    stream.mark_read(1)
    assert (stream.unread(), stream.count) == ({("t", 1): 2}, 4)


def test_runs_that_are_dropped_are_passed_over(background: Background, source: Source, stream: Stream) -> None:
    put(background, source, *MIXED)
    stream._prefetch_messages = 16
    assert stream.next_run() == [Item(5), Item(6)]
    stream.forget("t", 0)
    assert stream.next_run() == [Item(1, partition=1)]
    stream.mark_read(1)
    assert stream.next_run() == [Item(2, partition=1)]
    assert stream.count == 1


def test_runs_grow_for_a_quick_reader_and_end_when_idle(
    background: Background, source: Source, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.timeout = 0.01
    monkeypatch.setattr(streams.time, "monotonic", lambda: 0.0)
    put(background, source, *ITEMS)
    read = 0
    while run := stream.next_run():
        read += len(run)
        stream.mark_read(len(run))
    assert read == len(ITEMS)
    assert source.counts == [1 << power for power in range(1, 15)]
    put(background, source, Item(7))
    assert stream.next_run() == [Item(7)]


def test_ctrl_c_at_any_moment_loses_nothing_of_runs(background: Background) -> None:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        outcomes = [interrupted_in_runs(background, 0.0005 + 0.00003 * step) for step in range(100)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert {printed - first_unread in (0, 7) for printed, first_unread in outcomes} == {True}


def interrupted_in_runs(background: Background, seconds: float) -> tuple[int, int]:
    """Read until Ctrl-C; return the offset after the last run that was printed, and the first unread one."""
    stream = Stream(background, Source())  # type: ignore[arg-type]
    stream._runs.append(ITEMS_READ)  # type: ignore[arg-type]
    printed = 0
    with suppress(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while True:
            run = stream.next_run()[:7]
            printed = run[-1].offset + 1
            stream.mark_read(7)
    return printed, stream.unread()["t", 0]
