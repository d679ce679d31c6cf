"""The broker as a service of a program of one's own: asynchronous, repeatable, and without a trace when it fails."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.threads import deferToThread
from twisted.logger import globalLogPublisher

from pylogbroker.broker.runtime.resources import PeriodicCall
from pylogbroker.client.sync import ConsumerConnector, Producer
from pylogbroker.config import Listener
from pylogbroker.errors import ConfigError, StartupError, StorageFailure
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.storage import Origin, load_logs
from pylogbroker.tap import lifecycle
from pylogbroker.tap.service import BrokerService
from tests.broker.log_lines import logged_lines
from tests.legacy07.message_sets import ONE
from tests.support.reactor_run import run, wait_for
from tests.tap import embedding_programs
from tests.tap.embedding_programs import ask, open_files, settings

ROOT = Path(__file__).parents[2]
NO_ERROR = bytes.fromhex("0000002a0000")


def run_program(name: str, directory: Path) -> Any:
    command = [sys.executable, "-m", "tests.tap.embedding_programs", name, str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("program", [embedding_programs.twisted_program, embedding_programs.asyncio_program])
def test_a_broker_in_a_running_program_leaves_the_process_alone(program: Any, tmp_path: Path) -> None:
    assert run_program(program.__name__, tmp_path) == {
        "answers": [NO_ERROR.hex()] * 2,
        "changed": [],
        "poller": True,
        "pool": True,
        "timers": [],
        "open": [],
    }


def test_a_reactor_of_its_own_in_a_thread(tmp_path: Path) -> None:
    found = run_program("own_reactor_in_a_thread", tmp_path)
    assert found == {"answer": NO_ERROR.hex(), "open": [], "threads": 1, "other reactor": False}


def test_a_program_may_end_without_stopping_it(tmp_path: Path) -> None:
    assert run_program("not_stopped", tmp_path) == 1


async def port_of(service: BrokerService) -> int:
    service.startService()
    (listener,) = await service.listening
    return listener.port


@contextmanager
def nothing_left(directory: Path) -> Iterator[None]:
    """No file of the directory is open afterwards, no thread and no timer is more than before.

    The reactor's own pool of threads may grow meanwhile: tests use it.
    """
    threads = set(threading.enumerate())
    yield
    assert open_files() == []
    assert [each for each in set(threading.enumerate()) - threads if each not in reactor.getThreadPool().threads] == []


class TestStart:
    """The start while the reactor runs, and before."""

    def test_a_caller_that_waits_gets_the_real_port(self, tmp_path: Path) -> None:
        service = BrokerService(reactor, settings(tmp_path / "data"))

        async def work() -> None:
            before = service.listening
            service.startService()
            assert not before.called  # nothing of it was done on the reactor's thread at once
            during = service.listening
            (listener,) = await before
            assert (await during) == (await service.listening) == (listener,)
            assert isinstance(listener, Listener)
            assert await deferToThread(ask, listener.port) == NO_ERROR
            await service.stopService()

        with nothing_left(tmp_path):
            run(work)

    def test_a_start_before_the_reactor_runs_is_complete_on_return(self, tmp_path: Path) -> None:
        service = BrokerService(reactor, settings(tmp_path / "data"))
        known: list[tuple[Listener, ...]] = []
        service.startService()
        service.listening.addCallback(known.append)
        port = known[0][0].port

        async def work() -> None:
            assert await deferToThread(ask, port) == NO_ERROR
            await service.stopService()

        with nothing_left(tmp_path):
            run(work)

    def test_logs_are_recovered_in_a_worker_thread(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        threads: list[threading.Thread] = []

        def loading(*arguments: Any) -> Any:
            threads.append(threading.current_thread())
            return load_logs(*arguments)

        monkeypatch.setattr(lifecycle, "load_logs", loading)

        async def work() -> None:
            service = BrokerService(reactor, settings(tmp_path / "data"))
            await port_of(service)
            await service.stopService()

        run(work)
        assert threads != [threading.main_thread()]

    def test_no_iteration_of_the_reactor_is_long(self, tmp_path: Path) -> None:
        """Topics are read and led in slices."""
        service = BrokerService(reactor, settings(tmp_path / "data"))
        steps: list[float] = []

        def tick() -> None:
            steps.append(time.thread_time())

        async def work() -> None:
            await port_of(service)
            broker = service._serving.broker  # type: ignore[union-attr]
            for number in range(150):
                await broker.controller.create_topic(NewTopic(f"t{number}", 10, 1))  # type: ignore[union-attr]
            await service.stopService()
            ticking = PeriodicCall(reactor, tick)  # type: ignore[arg-type]
            gc.disable()  # it would look through all that the tests have made
            ticking.start(0.0005)
            await port_of(service)
            ticking.stop()
            gc.enable()
            await service.stopService()

        run(work, timeout=120)
        found = [after - before for before, after in pairwise(steps)]
        assert max(found) < sum(found) / 4  # in one piece, topics take half of the start's time

    def test_two_brokers_in_a_process(self, tmp_path: Path) -> None:
        async def work() -> None:
            services = [BrokerService(reactor, settings(tmp_path / "data" / name)) for name in "ab"]
            ports = [await port_of(service) for service in services]
            assert len(set(ports)) == 2
            await services[0].stopService()
            assert await deferToThread(ask, ports[1]) == NO_ERROR
            await services[1].stopService()

        with nothing_left(tmp_path):
            run(work)

    def test_bad_settings_are_rejected_by_the_constructor(self) -> None:
        with pytest.raises(ConfigError, match=r"log\.segment\.bytes: 'big' is not accepted"):
            BrokerService(reactor, {"log.segment.bytes": "big"})


class TestFailure:
    """A start that fails leaves nothing behind, and may be tried again."""

    @pytest.fixture(params=["running", "before"])
    def started(self, request: pytest.FixtureRequest) -> Any:
        """Starts a service, while the reactor runs or before; gives the error."""

        def failed(service: BrokerService) -> Exception:
            async def work() -> object:
                service.startService()
                return await service.listening

            if request.param == "running":
                with pytest.raises(StartupError) as caught:
                    run(work)
                return caught.value
            outcome: list[Any] = []
            service.startService()
            service.listening.addErrback(outcome.append)
            return outcome[0].value  # type: ignore[no-any-return]

        return failed

    def check_retry(self, service: BrokerService) -> None:
        async def work() -> None:
            assert await deferToThread(ask, await port_of(service)) == NO_ERROR
            await service.stopService()

        run(work)

    def test_a_port_in_use(self, started: Any, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            service = BrokerService(reactor, settings(tmp_path / "data", listeners=f"PLAINTEXT://127.0.0.1:{port}"))
            with nothing_left(tmp_path):
                assert f"127.0.0.1:{port}: Address already in use" in str(started(service))
            assert not service.running
            assert not (tmp_path / "data").exists()
        self.check_retry(service)

    def test_data_in_two_directories(self, started: Any, tmp_path: Path) -> None:
        """The logs cannot be opened: locks are held by then."""
        paths = [tmp_path / "data" / name for name in "ab"]
        service = BrokerService(reactor, settings(tmp_path, log_dirs=",".join(map(str, paths))))
        self.check_retry(service)
        for path in paths:
            (path / "t_0").mkdir()
            (path / "t_0" / "00000000000000000000.kafka").touch()
        with nothing_left(tmp_path):
            assert "t_0" in str(started(service))
        (paths[1] / "t_0" / "00000000000000000000.kafka").unlink()
        (paths[1] / "t_0").rmdir()
        self.check_retry(service)

    def test_a_failure_after_the_port_was_opened(
        self, started: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        service = BrokerService(reactor, settings(tmp_path / "data", listeners=f"PLAINTEXT://127.0.0.1:{port}"))
        with monkeypatch.context() as patched, nothing_left(tmp_path):

            async def register(*arguments: object) -> None:
                raise StartupError("the tree is full")

            patched.setattr("pylogbroker.metadata.registration.register", register)
            assert str(started(service)) == "the tree is full"
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))
        self.check_retry(service)

    def test_a_failed_start_is_logged(self, started: Any, tmp_path: Path) -> None:
        lines: list[str] = []
        observer = lambda event: lines.append(f"{event['log_level'].name} {event.get('reason')}")  # noqa: E731
        (tmp_path / "data").touch()
        globalLogPublisher.addObserver(observer)
        try:
            error = started(BrokerService(reactor, settings(tmp_path / "data")))
        finally:
            globalLogPublisher.removeObserver(observer)
        assert f"critical {error}" in lines


class TestStop:
    """Stops at any time."""

    def test_a_broker_that_was_used_leaves_no_timer(self, tmp_path: Path) -> None:
        """A group, and segments that are still to be removed; `run` fails if a timer or a socket is left."""
        small = {"log_retention_check_interval_ms": "100", "log_segment_bytes": "1000", "log_retention_bytes": "1000"}
        quick = {"num_partitions": "1", "group_initial_rebalance_delay_ms": "0"}
        service = BrokerService(reactor, settings(tmp_path / "data", **small, **quick))

        def use(port: int) -> None:
            bootstrap = f"127.0.0.1:{port}"
            with Producer(bootstrap) as producer:
                for _ in range(10):
                    producer.send("t", b"x" * 600)
            with ConsumerConnector(bootstrap, group="g", auto_offset_reset="earliest") as consumer:
                assert next(iter(consumer.stream("t"))).value == b"x" * 600

        async def work() -> None:
            await deferToThread(use, await port_of(service))
            await wait_for(lambda: list((tmp_path / "data" / "t_0").glob("*.deleted")))
            await service.stopService()

        run(work)
        assert open_files() == []

    def test_stop_and_start_again_at_once(self, tmp_path: Path) -> None:
        service = BrokerService(reactor, settings(tmp_path / "data"))

        async def work() -> None:
            first = await port_of(service)
            stopped = service.stopService()
            second = await port_of(service)
            assert stopped.called
            assert await deferToThread(ask, second) == NO_ERROR
            with pytest.raises(ConnectionRefusedError):
                await deferToThread(ask, first)
            await service.stopService()
            await service.stopService()

        with nothing_left(tmp_path):
            run(work)

    def test_a_stop_during_the_start(self, tmp_path: Path) -> None:
        service = BrokerService(reactor, settings(tmp_path / "data"))

        async def work() -> None:
            service.startService()
            waiting = service.listening
            await service.stopService()
            with pytest.raises(StartupError, match="stopped"):
                await waiting
            assert await deferToThread(ask, await port_of(service)) == NO_ERROR
            await service.stopService()

        with nothing_left(tmp_path):
            run(work)

    def test_a_stop_and_a_start_during_the_start(self, tmp_path: Path) -> None:
        service = BrokerService(reactor, settings(tmp_path / "data"))

        async def work() -> None:
            service.startService()
            waiting = service.listening
            stopped = service.stopService()
            port = await port_of(service)
            await gatherResults([stopped, waiting])
            assert await deferToThread(ask, port) == NO_ERROR
            await service.stopService()

        with nothing_left(tmp_path):
            run(work)

    def test_a_caller_that_waits_for_a_stopped_service_gets_an_error(self, tmp_path: Path) -> None:
        service = BrokerService(reactor, settings(tmp_path / "data"))

        async def work() -> None:
            waiting: Deferred[Any] = service.listening
            await service.stopService()
            with pytest.raises(StartupError, match="the broker was stopped"):
                await waiting

        run(work)
        assert not os.path.exists(tmp_path / "data")


def test_a_0_7_topic_without_its_format_file_stays_offline(tmp_path: Path) -> None:
    """The settings of topics are known before their logs are opened, and so before recovery could cut one."""
    data, topic = tmp_path / "data", NewTopic("old", 1, 1, settings={"message.format.version": "0.7"})
    service = BrokerService(reactor, settings(data))

    async def append() -> None:
        await port_of(service)
        broker = service._serving.broker  # type: ignore[union-attr]
        await broker.controller.create_topic(topic)
        broker.partitions.find("old", 0).append(ONE, broker.runtime.now_ms(), origin=Origin.NATIVE)
        await service.stopService()

    run(append)
    (data / "old_0" / "message-format").unlink()
    (data / ".kafka_cleanshutdown").unlink()

    async def start() -> None:
        await port_of(service)
        with pytest.raises(StorageFailure):
            service._serving.broker.partitions.find("old", 0)  # type: ignore[union-attr]
        await service.stopService()

    with logged_lines() as lines:
        run(start)
    assert "message-format is missing" in "\n".join(lines)
    assert (data / "old_0" / f"{0:020}.kafka").read_bytes() == ONE
