"""The background's reactor: waits, timeouts, Ctrl-C, threads, forks, and the end of a program."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.threads import deferToThreadPool

from pylogbroker.client.sync.background import Background, Pending, TimedOut, WrongThread, running
from pylogbroker.errors import PylogbrokerError


@pytest.fixture
def background() -> Background:
    return running()


class Waiting:
    """Work that nobody does, and whether it was cancelled."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.cancelled = threading.Event()

    def __call__(self) -> Deferred[None]:
        self.began.set()
        return Deferred(lambda _: self.cancelled.set())


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


def interrupt(when: Callable[[], object]) -> None:
    """Ctrl-C, as soon as the condition is true."""

    def press() -> None:
        while not when():
            threading.Event().wait(0.001)
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


def test_results_and_errors(background: Background) -> None:
    assert background.call(lambda: succeed(3), 10, "three") == 3
    with pytest.raises(LookupError, match="so"):
        background.call(lambda: fail(LookupError("so")), 10, "failure")


def test_an_error_before_there_is_a_deferred(background: Background) -> None:
    with pytest.raises(ZeroDivisionError):
        background.call(lambda: succeed(1 // 0), 10, "division")


def test_a_call_that_times_out_is_cancelled(background: Background, waiting: Waiting) -> None:
    with pytest.raises(TimedOut, match=r"the wait: not done within 0\.01 s; it was cancelled") as caught:
        background.call(waiting, 0.01, "the wait")
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, PylogbrokerError)
    assert waiting.cancelled.wait(120)


def test_a_kept_call_goes_on_after_its_timeout(background: Background, waiting: Waiting) -> None:
    with pytest.raises(TimedOut, match="it goes on"):
        background.call(waiting, 0.01, "the wait", keep=True)
    assert background.call(lambda: succeed(1), 10, "one") == 1
    assert not waiting.cancelled.is_set()


def test_a_timeout_of_the_work_itself_is_raised_as_it_is(background: Background) -> None:
    with pytest.raises(TimeoutError, match="its own") as caught:
        background.call(lambda: fail(TimeoutError("its own")), 10, "work")
    assert not isinstance(caught.value, TimedOut)


def test_ctrl_c_ends_the_wait_alone(background: Background, waiting: Waiting) -> None:
    interrupt(waiting.began.is_set)
    with pytest.raises(KeyboardInterrupt):
        background.call(waiting, 120, "the wait")
    assert waiting.cancelled.wait(120)
    assert background.call(lambda: succeed(1), 10, "one") == 1


def test_ctrl_c_between_start_and_wait_cancels(
    background: Background, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = background.start

    def interrupted(pending: Pending[None], work: Waiting) -> None:
        start(pending, work)
        assert waiting.began.wait(120)
        raise KeyboardInterrupt

    monkeypatch.setattr(background, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        background.call(waiting, 120, "the wait")
    assert waiting.cancelled.wait(120)


def test_threads_wait_side_by_side(background: Background) -> None:
    waiting: dict[int, Deferred[int]] = {}

    def begin(number: int) -> Deferred[int]:
        waiting[number] = Deferred()
        if len(waiting) == 8:
            background.reactor.callLater(0, answer)
        return waiting[number]

    def answer() -> None:
        for number, each in waiting.items():
            each.callback(number)

    def meet(number: int) -> int:
        return background.call(lambda: begin(number), 60, "number")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(meet, range(8))) == list(range(8))


def test_the_reactors_own_thread_may_not_wait(background: Background) -> None:
    async def wait() -> None:
        background.call(lambda: succeed(1), 10, "one")

    with pytest.raises(WrongThread, match=r"^one: "):
        background.call(wait, 10, "outer")


def test_background_runs_one_reactor_of_its_own(background: Background) -> None:
    from twisted.internet import reactor

    assert background.reactor is not reactor
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: running(), range(8))) == {background}


def test_work_in_the_reactors_thread_pool(background: Background) -> None:
    def work() -> Deferred[str]:
        reactor = background.reactor
        return deferToThreadPool(reactor, reactor.getThreadPool(), lambda: threading.current_thread().name)

    assert background.call(work, 10, "name") not in (threading.main_thread().name, "pylogbroker reactor")


@pytest.fixture
def script() -> Callable[[str], list[str]]:
    """Runs a program of its own to its end; the words that it has printed."""

    def run(text: str) -> list[str]:
        program = "import os, sys, threading\nfrom twisted.internet.defer import succeed\n" + text
        command = [sys.executable, "-W", "ignore:.*fork:DeprecationWarning", "-c", program]  # newer Pythons warn of it
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    return run


FORK = """
from pylogbroker.client.sync.background import OtherProcess, running
before = running()
if (child := os.fork()) == 0:
    try:
        before.call(lambda: succeed(1), 10, "one")
    except OtherProcess as error:
        print("refused", flush=True)
    print(running().call(lambda: succeed("anew"), 10, "word"), flush=True)
    sys.exit()
os.waitpid(child, 0)
print(before.call(lambda: succeed("still"), 10, "word"))
"""


def test_a_child_has_a_reactor_of_its_own(script: Callable[[str], list[str]]) -> None:
    assert script(FORK) == ["refused", "anew", "still"]


POOL = """
import multiprocessing
from pylogbroker.client.sync.background import running

def work(number):
    return running().call(lambda: succeed(number * number), 10, "square")

if __name__ == "__main__":
    running()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(*pool.map(work, range(5)))
"""


def test_forked_pools(script: Callable[[str], list[str]]) -> None:
    assert script(POOL) == ["0", "1", "4", "9", "16"]


WORKER = """
import multiprocessing
from pylogbroker.client.sync.background import running

def work():
    background, owner = running(), object()

    async def close():
        print("closed", flush=True)
        background.forget(owner)

    async def open_it():
        background.at_exit(owner, close)

    background.call(open_it, 10, "open")

if __name__ == "__main__":
    running()
    worker = multiprocessing.get_context("fork").Process(target=work)
    worker.start()
    worker.join()
    print(worker.exitcode)
"""


def test_multiprocessing_workers_close_open_clients(script: Callable[[str], list[str]]) -> None:
    assert script(WORKER) == ["closed", "0"]


def test_the_end_comes_once() -> None:
    background, closed = Background(), []

    async def close() -> None:
        closed.append(1)

    async def open_it() -> None:
        background.at_exit(background, close)

    background.begin(open_it).future.result(60)
    background.stop()
    seconds = []
    for _ in range(5):  # the machine may stand still, but not each time
        begun = time.monotonic()
        background.stop()
        seconds.append(time.monotonic() - begun)
    assert min(seconds) < 5  # with nobody there to close anything, it would wait for longer
    assert closed == [1]


END = """
from pylogbroker.client.sync.background import running
from twisted.internet.threads import deferToThreadPool

background, owner = running(), object()
reactor = background.reactor
background.call(lambda: deferToThreadPool(reactor, reactor.getThreadPool(), os.getpid), 10, "pool")

async def close():
    print("closed")

async def open_it():
    background.at_exit(owner, close)

background.call(open_it, 10, "open")

def outlive():
    threading.main_thread().join()
    print(background.call(lambda: succeed("late"), 10, "word"))

threading.Thread(target=outlive).start()
"""


def test_a_program_ends_after_its_threads_and_closes_open_clients(script: Callable[[str], list[str]]) -> None:
    assert script(END) == ["late", "closed"]
