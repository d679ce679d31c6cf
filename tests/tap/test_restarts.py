"""A broker's data and error messages when something goes wrong: in processes."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.line_process import LineProcess
from tests.tap.test_process import (
    ANY_PORT,
    LISTENING,
    ROOT,
    TWISTD,
    api_versions,
    ask_api_versions,
    create_topic,
    port_of,
    rejected,
)

ENVIRONMENT = {"PYTHONPATH": str(ROOT)}
RUN = "from twisted.scripts.twistd import run; run()"
FULL_DISK = f"""
from pylogbroker.metadata import registration
from pylogbroker.interfaces import Unavailable
async def register(*arguments):
    raise Unavailable("the disk is full")
registration.register = register
{RUN}
"""
CLEAN = ".kafka_cleanshutdown"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with a topic in it, of broker 1001, cleanly stopped."""
    directory = tmp_path / "data"
    with LineProcess(
        [*TWISTD, "-d", directory, ANY_PORT], cwd=tmp_path, environment=ENVIRONMENT, forked=True
    ) as process:
        assert leader_of_topic(port_of(process)) == 1001
        process.terminate()
    assert (directory / CLEAN).exists()
    return directory


def leader_of_topic(port: int) -> int:
    """Ask for the topic `t`, which is created by that; the broker that leads it."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        return create_topic(connection)


def check(done: subprocess.CompletedProcess[str], error_line: str) -> None:
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("pylogbroker: ")
    assert error_line in line


class TestTopics:
    """Topics stay with their broker."""

    def test_a_directory_put_in_front_hides_none(self, data: Path, tmp_path: Path) -> None:
        done = rejected(ANY_PORT, "-o", f"log.dirs={tmp_path / 'new'},{data}", cwd=tmp_path)
        check(done, f"set metadata.log.dir={data}")
        assert not (tmp_path / "new").exists()
        assert (data / CLEAN).exists()

    def test_the_number_is_that_of_the_topics(self, data: Path, tmp_path: Path) -> None:
        (data / "meta.properties").unlink()
        done = rejected(ANY_PORT, "-d", data, "-o", "broker.id=7")
        check(done, "the topics here belong to broker 1001, this is broker 7: remove broker.id from the settings")
        assert (data / CLEAN).exists()
        with LineProcess(
            [*TWISTD, "-d", data, ANY_PORT], cwd=tmp_path, environment=ENVIRONMENT, forked=True
        ) as process:
            assert leader_of_topic(port_of(process)) == 1001

    def test_a_number_that_nobody_has_topics_of(self, data: Path) -> None:
        meta = data / "meta.properties"
        meta.write_text(meta.read_text().replace("1001", "1002"))
        check(rejected(ANY_PORT, "-d", data), "belong to broker 1001, this is broker 1002: remove meta.properties")


class TestReasons:
    """The reason of a failed start is logged, whenever and wherever it failed."""

    def test_a_failure_after_the_ports_were_opened(self, data: Path) -> None:
        command = [sys.executable, "-c", FULL_DISK, "-n", "pylogbroker", "-d", str(data), ANY_PORT]
        environment = os.environ | ENVIRONMENT
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=data.parent)
        check(done, "the disk is full")
        assert (data / CLEAN).exists()

    def test_in_the_background_it_is_in_the_log(self, tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "meta.properties").write_text("version=1\nnode.id=1\n")
        twistd = [sys.executable, "-c", RUN, "--logfile=log", "--pidfile=pid"]
        command = [*twistd, "pylogbroker", "-d", "data", ANY_PORT]
        done = subprocess.run(command, capture_output=True, timeout=120, env=os.environ | ENVIRONMENT, cwd=tmp_path)
        assert done.returncode == 1
        error_line = f"#critical] the broker cannot start: {tmp_path}/data is formatted for a cluster of KRaft"
        assert error_line in (tmp_path / "log").read_text()

    def test_one_directory_of_several(self, tmp_path: Path) -> None:
        (tmp_path / "broken").touch()
        command = [*TWISTD, ANY_PORT, "-o", "log.dirs=good,broken", "-o", "default.replication.factor=2"]
        with LineProcess(command, cwd=tmp_path, environment=ENVIRONMENT, forked=True) as process:
            process.expect("default.replication.factor is 2, but there is one broker")
            process.expect(rf"a log directory is offline: {tmp_path}/broken/meta.properties: Not a directory$")
            process.expect(LISTENING)
            assert [line[-4:] for line in process.lines if " data in " in line] == ["good"]


class TestSignals:
    """A broker ends once and cleanly, with any signal."""

    @pytest.mark.parametrize(
        "signals",
        [[signal.SIGTERM, signal.SIGINT], [signal.SIGINT, signal.SIGHUP, signal.SIGTERM]],
        ids=["two", "three"],
    )
    def test_a_broker_ends_once(self, tmp_path: Path, signals: list[signal.Signals]) -> None:
        with LineProcess([*TWISTD, ANY_PORT], cwd=tmp_path, environment=ENVIRONMENT, forked=True) as process:
            with socket.create_connection(("127.0.0.1", port_of(process)), timeout=60) as connection:
                ask_api_versions(connection)
                for number in signals:
                    process.signal(number)
            assert -process.wait() in signals
            assert (tmp_path / "data" / CLEAN).exists()
            assert not [line for line in process.lines if "Traceback" in line or "Error" in line]

    def test_a_broker_outlives_hangups(self, tmp_path: Path) -> None:
        with LineProcess([*TWISTD, ANY_PORT], cwd=tmp_path, environment=ENVIRONMENT, forked=True) as process:
            with socket.create_connection(("127.0.0.1", port_of(process)), timeout=60) as connection:
                ask_api_versions(connection)
                process.signal(signal.SIGHUP)
                process.expect("no settings to reload: the broker was started without --config")
                assert ask_api_versions(connection)
            assert -process.terminate() == signal.SIGTERM

    def test_signals_during_the_start_have_to_wait(self, tmp_path: Path) -> None:
        with LineProcess([*TWISTD, ANY_PORT], cwd=tmp_path, environment=ENVIRONMENT, forked=True) as process:
            process.expect("twistd .* starting up")
            process.signal(signal.SIGUSR1)
            process.signal(signal.SIGHUP)
            process.expect(LISTENING)
            process.expect("no settings to reload")

    @pytest.mark.parametrize("ignored", [False, True], ids=["attended", "nohup"])
    def test_a_terminal_goes_away(self, tmp_path: Path, ignored: bool) -> None:
        """A broker in the foreground ends with its terminal, unless nohup was to keep it."""
        ours, its = pty.openpty()
        ignoring = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN);" if ignored else ""
        leading = f"import fcntl, termios; fcntl.ioctl(1, termios.TIOCSCTTY, 0); {ignoring} {RUN}"
        command = [sys.executable, "-c", leading, "-n", "pylogbroker", ANY_PORT]
        child = subprocess.Popen(
            command, stdin=its, stdout=its, stderr=its, cwd=tmp_path, env=os.environ | ENVIRONMENT,
            start_new_session=True,
        )  # fmt: skip
        try:
            os.close(its)
            with open(ours, "rb", buffering=0) as terminal:
                output = b""
                while not (listening := re.search(LISTENING.encode(), output)):
                    output += terminal.read(1000)
            if ignored:
                assert api_versions(int(listening[1]))
                child.send_signal(signal.SIGTERM)
            assert -child.wait(120) == (signal.SIGTERM if ignored else signal.SIGHUP)
        finally:
            child.kill()
        assert (tmp_path / "data" / CLEAN).exists()


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A directory that every user can write to."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o777)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_as_another_user(open_to_all: Path) -> None:
    twistd = [sys.executable, "-c", RUN, "-n", "-u", "65534", "-g", "65534"]
    command = [*twistd, "pylogbroker", ANY_PORT, "-o", f"log.dirs={open_to_all}/a,{open_to_all}/b"]
    with LineProcess(command, cwd=open_to_all, environment=ENVIRONMENT, forked=True) as process:
        assert leader_of_topic(port_of(process)) == 1001
        process.terminate()
    assert (open_to_all / "a" / CLEAN).exists()
    made = [path for path in open_to_all.rglob("*") if path.name != "twistd.pid"]
    assert {path.stat().st_uid for path in made} == {65534}
