"""The broker as a process: how it starts, what it logs, how a start fails, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pylogbroker.wire import Request, request_codec, response_codec
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.line_process import LineProcess
from tests.support.waiting import wait_until

TWISTD = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "pylogbroker"]
BROKER_START = [sys.executable, "-m", "pylogbroker.cli", "broker", "start"]
ROOT = Path(__file__).parents[2]
ANY_PORT = "--listener=PLAINTEXT://127.0.0.1:0"
LISTENING = r"listening on PLAINTEXT://127\.0\.0\.1:(\d+)"

Start = Callable[..., LineProcess]


def rejected(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Start a broker that must not start."""
    command = [*TWISTD, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, **options)  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts brokers, in a working directory of the test's own."""
    started: list[LineProcess] = []

    def start_one(*arguments: object, program: Sequence[str] = TWISTD) -> LineProcess:
        command = [*program, *map(str, arguments)]
        started.append(LineProcess(command, cwd=tmp_path, environment={"PYTHONPATH": str(ROOT)}, forked=True))
        return started[-1]

    yield start_one
    for process in started:
        process.kill()


def port_of(process: LineProcess) -> int:
    return int(process.expect(LISTENING)[1])


def api_versions(port: int) -> bytes:
    """Ask a broker for its APIs; its answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        return ask_api_versions(connection)


def ask_api_versions(connection: socket.socket) -> bytes:
    """ApiVersions in version 0, byte by byte as the protocol has it; the answer, without its length."""
    connection.sendall(bytes.fromhex("0000000a 0012 0000 0000002a ffff".replace(" ", "")))
    return receive(connection)


def send(connection: socket.socket, key: int, version: int, request: Request) -> None:
    """Send a request."""
    for chunk in request_codec(key, version).frame(1, None, request):
        connection.sendall(chunk)


def create_topic(connection: socket.socket) -> int:
    """Have the topic `t` created by asking for it; return the broker that leads it."""
    answers: list[Any] = []

    def is_created() -> bool:
        send(connection, 3, 1, MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        answers[:] = response_codec(3, 1).decode(memoryview(receive(connection)), 4).topics
        return not answers[0].error_code

    wait_until(is_created, what=lambda: answers)  # the first request begins the creation
    return int(answers[0].partitions[0].leader_id)


def receive(connection: socket.socket) -> bytes:
    """An answer, without its length; the next one may have come with it."""
    answer = b""
    while len(answer) < 4 or len(answer) - 4 < int.from_bytes(answer[:4], "big"):
        received = connection.recv(65536)
        assert received, "the broker closed the connection"
        answer += received
    return answer[4 : 4 + int.from_bytes(answer[:4], "big")]


class TestStart:
    """A broker that starts."""

    def test_a_start_logs_the_listener_and_the_data_directory(self, start: Start, tmp_path: Path) -> None:
        process = start("--data-dir", tmp_path / "new" / "data", ANY_PORT)
        process.expect(r"pylogbroker \S+: broker 1001 of cluster \S{22}$")
        process.expect(rf"data in {tmp_path}/new/data$")
        answer = api_versions(port_of(process))
        assert answer[:6] == bytes.fromhex("0000002a0000")

    def test_a_relative_directory_is_shown_in_full(self, start: Start, tmp_path: Path) -> None:
        start(ANY_PORT, program=BROKER_START).expect(rf"data in {tmp_path}/data$")

    def test_the_settings_of_the_file(self, start: Start, tmp_path: Path) -> None:
        file = tmp_path / "my.properties"
        file.write_text("broker.id=7\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs=one,two\nnum.partition=3\n")
        process = start("--config", file)
        process.expect(r"num\.partition is not a setting, ignored; did you mean num\.partitions\?")
        process.expect(r"broker 7 of cluster")
        process.expect(rf"data in {tmp_path}/one$")
        process.expect(rf"data in {tmp_path}/two$")
        assert port_of(process) > 0

    def test_a_broker_keeps_its_number_and_its_cluster(self, start: Start, tmp_path: Path) -> None:
        first = start(ANY_PORT)
        who = first.expect(r"broker 1001 of cluster (\S+)$")[1]
        first.terminate()
        start(ANY_PORT).expect(rf"broker 1001 of cluster {who}$")

    def test_brokers_may_share_a_working_directory(self, start: Start, tmp_path: Path) -> None:
        ports = {port_of(start("--data-dir", name, ANY_PORT)) for name in ("a", "b")}
        assert len(ports) == 2
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]

    def test_full_garbage_collections_run(self, tmp_path: Path) -> None:
        program = (
            "from pylogbroker.tap import full_collections, garbage_collection\n"
            "full_collections.CHECK_SECONDS, full_collections.IDLE_CPU_MAX = 0.01, 1000\n"
            "garbage_collection.FROZEN_OBJECTS.may_hold_garbage = True\n"
            "garbage_collection.FrozenObjects.collect = lambda self: print('collected', flush=True)\n"
            "from twisted.scripts.twistd import run; run()"
        )
        with LineProcess([sys.executable, "-c", program, *TWISTD[3:], ANY_PORT], cwd=tmp_path) as process:
            process.expect("collected$")

    def test_several_listeners(self, start: Start) -> None:
        names = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
        process = start("-l", "A://127.0.0.1:0", "-l", "B://127.0.0.1:0", "-o", names)
        for name in "AB":
            assert api_versions(int(process.expect(rf"listening on {name}://127\.0\.0\.1:(\d+)")[1]))


class TestErrors:
    """A broker that cannot start: one line, a status that is not 0, and nothing touched."""

    def check(self, done: subprocess.CompletedProcess[str], error_line: str) -> None:
        assert done.returncode == 1
        lines = done.stderr.splitlines()
        assert len(lines) == 1, done.stderr
        assert lines[0].startswith("pylogbroker: ")
        assert error_line in lines[0]

    def test_a_bad_value(self, tmp_path: Path) -> None:
        done = rejected("--data-dir", tmp_path / "data", "-o", "log.segment.bytes=big")
        self.check(done, "log.segment.bytes: 'big' is not accepted; expected a whole number from 14")
        assert not (tmp_path / "data").exists()

    def test_a_port_in_use(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = rejected("--data-dir", tmp_path / "data", "-l", f"PLAINTEXT://127.0.0.1:{port}")
        cure = "choose another port with --listener NAME://host:port, or with the setting listeners"
        self.check(done, f"cannot listen on PLAINTEXT://127.0.0.1:{port}: Address already in use; {cure}")
        assert not (tmp_path / "data").exists()

    def test_an_address_that_is_not_ours(self, tmp_path: Path) -> None:
        done = rejected("--data-dir", tmp_path / "data", "-l", "PLAINTEXT://192.0.2.1:0")
        cure = "choose a host of this machine with --listener NAME://host:port, or with the setting listeners"
        self.check(done, f"cannot listen on PLAINTEXT://192.0.2.1:0: Cannot assign requested address; {cure}")

    def test_a_directory_in_use(self, start: Start, tmp_path: Path) -> None:
        no_checkpoints = "replica.high.watermark.checkpoint.interval.ms=3600000"
        running = start("--data-dir", tmp_path / "data", ANY_PORT, "-o", no_checkpoints)
        port = port_of(running)
        before = _tree(tmp_path / "data")
        why = f"{tmp_path}/data is in use by another broker: stop it, or choose another directory"
        self.check(rejected("--data-dir", tmp_path / "data", ANY_PORT), why)
        assert _tree(tmp_path / "data") == before
        assert api_versions(port)

    def test_a_directory_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        why = f"{tmp_path}/file/data cannot be used: Not a directory; choose another directory with --data-dir"
        self.check(rejected("--data-dir", tmp_path / "file" / "data", ANY_PORT), why)

    def test_a_directory_that_cannot_be_written(self) -> None:
        self.check(
            rejected("--data-dir", "/sys/pylogbroker", ANY_PORT),
            "/sys/pylogbroker/coordination.lock: Operation not permitted",
        )

    def test_the_data_of_another_broker(self, start: Start, tmp_path: Path) -> None:
        first = start("--data-dir", tmp_path / "data", ANY_PORT)
        port_of(first)
        first.terminate()
        done = rejected("--data-dir", tmp_path / "data", ANY_PORT, "-o", "broker.id=5")
        self.check(done, "holds the data of broker 1001, this is broker 5")
        start("--data-dir", tmp_path / "data", ANY_PORT).expect(LISTENING)


def _tree(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


#: A broker that gives connections with unsent answers more time than tests wait.
PATIENT = [
    sys.executable,
    "-c",
    "from pylogbroker.net import service; service.CLOSING_SECONDS = 1000\n"
    "from twisted.scripts.twistd import run; run()",
    *TWISTD[3:],
]

ENDS_ITSELF = """
import os, signal
from twisted.logger import formatEvent, globalLogPublisher
def end(event):
    if formatEvent(event).startswith("listening on"):
        os.kill(os.getpid(), signal.SIGTERM)
globalLogPublisher.addObserver(end)
from twisted.scripts.twistd import run
run()
"""


class TestEnd:
    """A broker that gets a signal to stop."""

    def test_a_signal_with_the_line_that_says_that_it_listens(self, tmp_path: Path) -> None:
        with LineProcess([sys.executable, "-c", ENDS_ITSELF, *TWISTD[3:], ANY_PORT], cwd=tmp_path) as process:
            process.expect(r"Server Shut Down\.")
            assert process.wait() == -signal.SIGTERM
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_stops_the_broker_cleanly(self, start: Start, tmp_path: Path, number: signal.Signals) -> None:
        """An idle connection is not waited for."""
        process = start("--data-dir", tmp_path / "data", ANY_PORT, program=PATIENT)
        with socket.create_connection(("127.0.0.1", port_of(process)), timeout=60) as idle:
            ask_api_versions(idle)
            process.signal(number)
            assert process.wait() in (0, -number)
            assert idle.recv(1) == b""
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
        assert not any("Traceback" in line or "Unhandled" in line for line in process.lines)

    def test_a_fetch_that_waits_is_answered(self, start: Start, tmp_path: Path) -> None:
        process = start("--data-dir", tmp_path / "data", ANY_PORT)
        port = port_of(process)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            create_topic(connection)
            partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            fetch = FetchRequest(
                max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[partition])]
            )
            send(connection, 1, 4, fetch)
            send(connection, 3, 0, MetadataRequest(topics=[]))
            process.signal(signal.SIGTERM)
            answer = receive(connection)
            response = response_codec(1, 4).decode(memoryview(answer), 4)
            assert response.responses[0].partitions[0].error_code == 0
            assert not response.responses[0].partitions[0].records
            assert process.wait() in (0, -signal.SIGTERM)
