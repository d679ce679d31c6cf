"""The log of a broker's process: levels, rotation, and reading the settings again."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from twisted.logger import LogEvent, Logger, LogLevel, LogPublisher

from pylogbroker.client.sync import ConsumerConnector, Producer
from pylogbroker.config.log_levels import parse_log_levels
from pylogbroker.tap.process_log import LogFile, ProcessLog
from tests.support.broker_process import BrokerProcess
from tests.support.line_process import LineProcess
from tests.support.reactor_run import run, wait_for
from tests.tap.test_process import ANY_PORT, LISTENING, ROOT, api_versions

ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
RUN = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()"]
ROTATED = "/var/log/pylogbroker/broker.log"
PID_FILE = "/run/pylogbroker/broker.pid"


events: list[str] = []


def observer_of_the_user() -> Callable[[LogEvent], None]:
    """A factory as twistd's option --logger takes it."""
    return lambda event: events.append(event["log_namespace"])


class TestLevels:
    """Which events are let through."""

    @pytest.mark.parametrize(
        ("text", "levels"),
        [
            ("", {"": "info"}),
            ("Debug", {"": "debug"}),
            ("a.b=warn", {"": "info", "a.b": "warn"}),
            ("error, a=debug ,a.b=critical", {"": "error", "a": "debug", "a.b": "critical"}),
            ("warn,error", {"": "error"}),
        ],
    )
    def test_texts(self, text: str, levels: dict[str, str]) -> None:
        assert parse_log_levels(text) == levels

    @pytest.mark.parametrize("text", ["loud", "a=", "=info", "a=b=c"])
    def test_invalid_levels_are_rejected(self, text: str) -> None:
        with pytest.raises(ValueError, match="not a level"):
            parse_log_levels(text)

    def test_events(self) -> None:
        twistd = {"logger": f"{__name__}.observer_of_the_user"}
        log = ProcessLog()
        log.take_over(twistd)
        log.set_levels("warn,a.b=debug")
        publisher = LogPublisher(log.observer())
        assert twistd["logger"] == "pylogbroker.tap.process_log.PROCESS_LOG.observer"

        def let_through() -> list[str]:
            events.clear()
            for level in (LogLevel.debug, LogLevel.info, LogLevel.warn):
                for name in ("a", "a.b", "a.b.c"):
                    Logger(name, observer=publisher).emit(level, "x")
            return events

        assert let_through() == ["a.b", "a.b.c", "a.b", "a.b.c", "a", "a.b", "a.b.c"]
        log.set_levels("critical")
        assert let_through() == []


class TestFile:
    """A file that is opened again."""

    def test_renamed(self, tmp_path: Path) -> None:
        path = tmp_path / "log"
        path.write_text("before\n")
        path.chmod(0o640)
        file = LogFile(str(path))
        file.write("one\n")
        file.flush()
        path.rename(tmp_path / "log.1")
        file.write("two\n")
        file.reopen()
        file.write("three é \udcff\n")
        file.flush()
        assert (tmp_path / "log.1").read_text() == "before\none\ntwo\n"
        assert path.read_text() == "three é \\udcff\n"
        assert path.stat().st_mode & 0o777 == 0o640

    def test_a_failed_reopen_keeps_the_old_file(self, tmp_path: Path) -> None:
        directory = tmp_path / "logs"
        directory.mkdir()
        file = LogFile(str(directory / "log"))
        directory.rename(tmp_path / "moved")
        with pytest.raises(FileNotFoundError):
            file.reopen()
        file.write("still there\n")
        file.flush()
        assert (tmp_path / "moved" / "log").read_text() == "still there\n"


@pytest.fixture
def start_daemon(tmp_path: Path) -> Iterator[Callable[..., int]]:
    """Starts a broker in the background, logging to a file, and returns its process id."""
    pid_file = tmp_path / "pid"

    def start(*arguments: str) -> int:
        command = [*RUN, "--logfile=log", f"--pidfile={pid_file}", "pylogbroker", "-d", "data", ANY_PORT, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=os.environ | ENVIRONMENT, timeout=120, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return int(pid_file.read_text())

    yield start
    if pid_file.exists():
        os.kill(int(pid_file.read_text()), signal.SIGKILL)


def wait_for_line(file: Path, pattern: str) -> re.Match[str]:
    """The first line of a log file that matches, as soon as it is there."""

    def found() -> re.Match[str] | None:
        return re.search(pattern, file.read_text(), re.MULTILINE) if file.exists() else None

    run(lambda: wait_for(found))
    match = found()
    assert match is not None
    return match


def rotate_like_logrotate(text: str, directory: Path) -> None:
    """Rotate once by a configuration of logrotate; without that program, do what this configuration has it do."""
    if program := shutil.which("logrotate"):
        configuration = directory / "logrotate.conf"
        configuration.write_text(text)
        configuration.chmod(0o644)
        command = [program, "--force", "--state", str(directory / "state"), str(configuration)]
        subprocess.run(command, check=True, timeout=120)
        return
    assert "copytruncate" not in text
    (directory / "log").rename(directory / "log.1")
    script = re.search(r"postrotate\n(.*)endscript", text, re.DOTALL)
    assert script is not None
    subprocess.run(["sh", "-ec", script[1]], check=True, timeout=120)


def test_a_daemon_outlives_the_terminal_that_started_it(tmp_path: Path) -> None:
    ours, its = pty.openpty()
    command = [*RUN, "--logfile=log", "--pidfile=pid", "pylogbroker", "-d", "data", ANY_PORT]
    try:
        subprocess.run(
            command, cwd=tmp_path, env=os.environ | ENVIRONMENT, stdout=its, stderr=its, timeout=120, check=True
        )
    finally:
        os.close(its)
        os.close(ours)
    pid = int((tmp_path / "pid").read_text())
    try:
        wait_for_line(tmp_path / "log", LISTENING)
        os.kill(pid, signal.SIGHUP)
        wait_for_line(tmp_path / "log", "no settings to reload")
    finally:
        os.kill(pid, signal.SIGKILL)


class TestRotation:
    """The log of a broker in the background, rotated by the configuration that comes with it."""

    def test_rotation_loses_and_adds_no_lines(self, start_daemon: Callable[..., int], tmp_path: Path) -> None:
        start_daemon()
        port = int(wait_for_line(tmp_path / "log", LISTENING)[1])
        text = (ROOT / "etc" / "pylogbroker.logrotate").read_text()
        assert ROTATED in text
        assert PID_FILE in text
        rotate_like_logrotate(
            text.replace(ROTATED, str(tmp_path / "log")).replace(PID_FILE, str(tmp_path / "pid")), tmp_path
        )
        former = (tmp_path / "log.1").read_bytes()
        assert api_versions(port)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
        wait_for_line(tmp_path / "log", r"Server Shut Down\.")
        assert b"\0" not in (tmp_path / "log").read_bytes()
        assert b"Server Shut Down" not in former
        assert (tmp_path / "log.1").read_bytes() == former
        assert sorted(path.name for path in tmp_path.glob("log*") if not path.name.endswith(".conf")) == [
            "log",
            "log.1",
        ]

    def test_the_log_is_appended_to(self, start_daemon: Callable[..., int], tmp_path: Path) -> None:
        """A program that truncates it finds no NUL bytes in front of later lines."""
        start_daemon()
        wait_for_line(tmp_path / "log", LISTENING)
        os.truncate(tmp_path / "log", 0)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
        wait_for_line(tmp_path / "log", r"Server Shut Down\.")
        assert b"\0" not in (tmp_path / "log").read_bytes()

    def test_a_log_that_cannot_be_opened(self, tmp_path: Path) -> None:
        command = [*RUN, "-n", f"--logfile={tmp_path}/none/log", "pylogbroker", ANY_PORT]
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ | ENVIRONMENT, timeout=120, capture_output=True, text=True
        )
        assert done.returncode == 1
        assert done.stderr == f"pylogbroker: the log {tmp_path}/none/log: No such file or directory\n"


class TestReload:
    """SIGHUP."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        file = tmp_path / "my.properties"
        file.write_text("log.retention.ms=1000\nnum.partitions=1\n")
        return file

    @pytest.fixture
    def process(self, file: Path, tmp_path: Path) -> Iterator[LineProcess]:
        command = [*RUN, "-n", "pylogbroker", "-c", str(file), ANY_PORT]
        with LineProcess(command, cwd=tmp_path, environment=ENVIRONMENT, forked=True) as process:
            process.expect(LISTENING)
            yield process

    def test_dynamic_settings_are_reloaded(self, process: LineProcess, file: Path) -> None:
        file.write_text("log.retention.ms=2000\nnum.partitions=2\nmax.connections=5\nnum.partition=1\n")
        process.signal(signal.SIGHUP)
        process.expect(r"num\.partition is not a setting, ignored")
        process.expect(rf"reloaded {file}: log\.retention\.ms=2000 \(was 1000\), max\.connections=5 \(was \d+\)$")
        process.expect(rf"these settings of {file} take effect after a restart: num\.partitions$")
        process.signal(signal.SIGHUP)
        process.expect(rf"reloaded {file}: nothing changes$")
        process.expect(r"after a restart: num\.partitions$")

    def test_a_bad_file_changes_nothing(self, process: LineProcess, file: Path) -> None:
        file.write_text("log.retention.ms=2000\nmax.connections=many\n")
        process.signal(signal.SIGHUP)
        process.expect(
            rf"cannot reload the settings, none is changed: {file}: max\.connections: 'many' is not accepted"
        )
        file.unlink()
        process.signal(signal.SIGHUP)
        process.expect(rf"cannot reload the settings, none is changed: {file}: No such file or directory")
        file.write_text("log.retention.ms=3000\nnum.partitions=1\n")
        process.signal(signal.SIGHUP)
        process.expect(r"log\.retention\.ms=3000 \(was 1000\)$")

    def test_the_levels_of_the_log(self, process: LineProcess, file: Path) -> None:
        levels = "error,pylogbroker.tap.twistd=info"
        file.write_text(f"log.retention.ms=1000\nnum.partitions=1\nlogger.levels={levels}\n")
        process.signal(signal.SIGHUP)
        process.expect(rf"reloaded {file}: logger\.levels={levels} \(was info\)$")
        process.terminate()
        assert "reloaded" in process.lines[-1]  # nothing is said of the end


def test_the_option_sets_levels(tmp_path: Path) -> None:
    command = [
        *RUN,
        "-n",
        "pylogbroker",
        ANY_PORT,
        "--log-level=critical",
        "--log-level",
        "pylogbroker.tap.lifecycle=info",
    ]
    with LineProcess(command, cwd=tmp_path, environment=ENVIRONMENT, forked=True) as process:
        process.expect(LISTENING)
        process.terminate()
        assert all("[pylogbroker.tap.lifecycle#info]" in line for line in process.lines)


def test_the_start_is_summed_up(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, {"num.partitions": "3"})
    broker.start()
    try:
        assert [
            line for line in broker.process.lines if "0 topics with 0 partitions, 0 consumer groups and 0 by" in line
        ]
        with Producer(broker.bootstrap) as producer:
            producer.send("t", b"x" * 1000)
        with ConsumerConnector(broker.bootstrap, group="g", auto_offset_reset="earliest") as consumer:
            assert next(iter(consumer.stream("t"))).value == b"x" * 1000
            broker.process.expect(r"group g: generation 1 has 1 member, assignment by ")
        broker.stop()
        broker.start()
        (line,) = [line for line in broker.process.lines if "started in" in line]
    finally:
        broker.kill()
    # t has 3 partitions, __consumer_offsets has 5
    found = re.search(r"2 topics with 8 partitions, 1 consumer group and (\d+) bytes of records; started in \d", line)
    assert found is not None, line
    in_files = sum(path.stat().st_size for path in (tmp_path / "data").rglob("*.kafka"))
    assert 1000 < int(found[1]) <= in_files


def test_a_plugin_cache_that_cannot_be_written_is_not_logged(tmp_path: Path) -> None:
    """Root installs it and another user runs it: directories stand in for missing permission, which root has."""
    plugins = tmp_path / "others" / "twisted" / "plugins"
    (plugins / "dropin.cache" / "in the way").mkdir(parents=True)
    (plugins / "other_plugin.py").write_text("")
    environment = ENVIRONMENT | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path / 'others'}"}
    with LineProcess([*RUN, "-n", "pylogbroker", ANY_PORT], cwd=tmp_path, environment=environment) as process:
        process.expect(LISTENING)
        process.terminate()
    assert (plugins / "dropin.cache").is_dir()
    assert not [line for line in process.lines if "plugin cache" in line]
