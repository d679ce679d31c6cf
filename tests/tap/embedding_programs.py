"""Programs that embed brokers.

Tests run them in processes of their own: `python -m tests.tap.embedding_programs NAME DIRECTORY`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred

ANY_PORT = "PLAINTEXT://127.0.0.1:0"
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
API_VERSIONS = bytes.fromhex("0000000a 0012 0000 0000002a ffff".replace(" ", ""))


def settings(directory: Path, **others: str) -> dict[str, str]:
    return {"log.dirs": str(directory), "listeners": ANY_PORT} | {
        name.replace("_", "."): text for name, text in others.items()
    }


def ask(port: int) -> bytes:
    """The beginning of a broker's answer to ApiVersions.  Blocks."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(API_VERSIONS)
        return connection.recv(10)[4:]


def process_state() -> dict[str, object]:
    """Describe what of a process belongs to the program, and not to a broker in it."""
    return {
        "excepthook": sys.excepthook is sys.__excepthook__,
        "garbage": (gc.get_threshold(), gc.get_freeze_count(), gc.isenabled()),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "signals": [str(signal.getsignal(number)) for number in SIGNALS],
        "threads": sorted(thread.name for thread in threading.enumerate()),
    }


def open_files() -> list[str]:
    """The files and listening sockets that the process holds open below a directory or a port."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return sorted(target for target in found if target.startswith("/") and "/data" in target)


async def serve_and_compare(reactor: Any, directory: Path) -> dict[str, object]:
    """Start, ask, stop, and start again; say what of the process is other than before."""
    from twisted.internet.threads import deferToThread

    from pylogbroker.tap.service import BrokerService

    reactor.suggestThreadPoolSize(1)  # a second thread could start while the first is about to become idle
    await deferToThread(int)  # the program's own pool has its thread
    poller = type(getattr(reactor, "_poller", None)).__name__
    before, pool = process_state(), (reactor.getThreadPool().min, reactor.getThreadPool().max)
    service = BrokerService(reactor, settings(directory / "data"))
    answers = []
    for _ in range(2):
        service.startService()
        (listener,) = await service.listening
        answers.append((await deferToThread(ask, listener.port)).hex())
        meanwhile = process_state() | {"threads": before["threads"]}
        await service.stopService()
    after = process_state()
    return {
        "answers": answers,
        "changed": sorted(key for key in before if before[key] != meanwhile[key] or before[key] != after[key]),
        "poller": poller == type(getattr(reactor, "_poller", None)).__name__,
        "pool": pool == (reactor.getThreadPool().min, reactor.getThreadPool().max),
        "timers": [str(timer) for timer in reactor.getDelayedCalls()],
        "open": open_files(),
    }


def _until_done(reactor: Any, work: Callable[[], Awaitable[object]]) -> None:
    """Run the reactor for a piece of work and print what it gives, as JSON."""

    def begin() -> None:
        async def run() -> object:
            return await work()

        done: Deferred[object] = ensureDeferred(run())
        done.addCallbacks(lambda result: print(json.dumps(result)), lambda failure: failure.printTraceback(sys.stdout))
        done.addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(begin)
    reactor.run()


def twisted_program(directory: Path) -> None:
    """A Twisted program whose reactor runs already when it starts a broker."""
    from twisted.internet import reactor

    _until_done(reactor, lambda: serve_and_compare(reactor, directory))


def asyncio_program(directory: Path) -> None:
    """An asyncio program with Twisted's reactor on its loop."""
    from twisted.internet import asyncioreactor

    async def main() -> object:
        asyncioreactor.install(asyncio.get_running_loop())
        from twisted.internet import reactor as installed

        reactor: Any = installed
        reactor.startRunning(installSignalHandlers=False)
        try:
            return await ensureDeferred(serve_and_compare(reactor, directory)).asFuture(asyncio.get_running_loop())
        finally:
            reactor.fireSystemEvent("shutdown")  # ends the reactor's own threads

    print(json.dumps(asyncio.run(main())))


def own_reactor_in_a_thread(directory: Path) -> None:
    """A program without a reactor in its main thread; the broker has one of its own in another thread."""
    from twisted.internet.epollreactor import EPollReactor

    from pylogbroker.tap.service import BrokerService

    reactor: Any = EPollReactor()
    listening: list[Any] = []
    known, stopped = threading.Event(), threading.Event()
    service = BrokerService(reactor, settings(directory / "data"))

    def start() -> None:
        service.startService()
        service.listening.addBoth(listening.append).addBoth(lambda _: known.set())

    def stop() -> None:
        service.stopService().addBoth(lambda _: stopped.set()).addBoth(lambda _: reactor.stop())

    thread = threading.Thread(target=lambda: reactor.run(installSignalHandlers=False))
    thread.start()
    reactor.callFromThread(start)
    known.wait(60)
    answer = ask(listening[0][0].port)
    reactor.callFromThread(stop)
    stopped.wait(60)
    thread.join(60)
    found = {"answer": answer.hex(), "open": open_files(), "threads": threading.active_count()}
    print(json.dumps(found | {"other reactor": "twisted.internet.reactor" in sys.modules}))


def not_stopped(directory: Path) -> None:
    """A program that ends without stopping its broker."""
    from twisted.internet import reactor as installed

    from pylogbroker.tap.service import BrokerService

    reactor: Any = installed
    service = BrokerService(reactor, settings(directory / "data"))

    async def serve() -> object:
        service.startService()
        return len(await service.listening)

    _until_done(reactor, serve)


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
