"""The options: their settings, and their errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from twisted.python.usage import Options as ParentOptions
from twisted.python.usage import UsageError

from pylogbroker import __version__
from pylogbroker.config import SETTINGS, BrokerConfig
from pylogbroker.tap.options import Options


def parse(*arguments: str) -> BrokerConfig:
    options = Options()
    options.parseOptions(list(arguments))
    return BrokerConfig(options.settings)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nlog.dirs=/from/file\nlisteners=PLAINTEXT://:1\nlog.segment.bytes=100\n")
    return str(path)


def test_no_options_are_the_defaults() -> None:
    assert parse().integer("num.partitions") == 1


def test_without_a_listener_only_this_machine_reaches_the_broker() -> None:
    assert [(listener.host, listener.port) for listener in parse().listeners] == [("127.0.0.1", 9092)]


def test_options_override_the_settings_file(file: str) -> None:
    config = parse(
        "--config", file, "--data-dir=/d", "--listener=PLAINTEXT://127.0.0.1:0", "--override=num.partitions=3",
        "--override", "num.partitions=4",
    )  # fmt: skip
    assert config.log_dirs == ("/d",)
    assert [(listener.host, listener.port) for listener in config.listeners] == [("127.0.0.1", 0)]
    assert config.integer("num.partitions") == 4
    assert config.integer("log.segment.bytes") == 100


def test_the_short_options(file: str) -> None:
    config = parse("-c", file, "-d", "/d", "-l", "PLAINTEXT://:5", "-o", "num.partitions=3")
    assert (config.log_dirs, config.listeners[0].port, config.integer("num.partitions")) == (("/d",), 5, 3)


def test_several_listeners() -> None:
    names = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
    config = parse("--listener=A://:1", "--listener", "B://:2", "-o", names)
    assert [(listener.name, listener.port) for listener in config.listeners] == [("A", 1), ("B", 2)]


@pytest.mark.parametrize(
    ("arguments", "error_line"),
    [
        (["-o", "num.partitions=none"], "num.partitions: 'none' is not accepted; expected a whole number from 1"),
        (
            ["-o", "num.partitons=2", "-l", "9092"],
            "listeners: '9092' is not accepted; expected NAME://host:port, separated by commas, each name and port"
            " once; num.partitons is not a setting, ignored; did you mean num.partitions?",
        ),
        (["-o", "num.partitions"], "override 'num.partitions' is not accepted; expected name=value"),
        (["-l", "9092"], "listeners: '9092' is not accepted; expected NAME://host:port"),
        (["-c", "/nonexistent/file"], "/nonexistent/file: No such file or directory"),
        (["-c", ""], "config: '' is not accepted; expected a path"),
        (["-d", ""], "data-dir: '' is not accepted; expected a path"),
        (["-d", "c,d"], "data-dir: 'c,d' is not accepted; expected one directory: log.dirs takes several"),
        (["-d", "c", "-d", "d"], "data-dir: 'c,d' is not accepted; expected one directory: log.dirs takes several"),
    ],
)
def test_errors_are_one_line(arguments: list[str], error_line: str) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(*arguments)
    message = str(caught.value.code)
    assert message.startswith(f"pylogbroker: {error_line}")
    assert "\n" not in message


def test_a_bad_value_of_the_file_is_reported_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=many\n")
    with pytest.raises(SystemExit) as caught:
        parse("-c", str(file))
    assert str(caught.value.code).startswith(f"pylogbroker: {file}: num.partitions: 'many' is not accepted; ")
    with pytest.raises(SystemExit) as caught:
        parse("-c", str(file), "-o", "num.partitions=none")
    assert str(caught.value.code).startswith("pylogbroker: num.partitions: 'none' is not accepted; ")


def test_an_unknown_option_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="option --nonsense not recognized"):
        parse("--nonsense")


def test_describe_config_prints_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse("--describe-config")
    assert caught.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert {setting.name for setting in SETTINGS} <= set(lines)


def test_describe_config_prints_named_settings_in_the_given_format(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse("--describe-config", "retention.ms", "log.retention.*", "--format", "json")
    assert caught.value.code == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert "retention.ms" in names
    assert "log.retention.bytes" in names
    assert len(names) < 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--describe-config", "retention.mss"), "there is no setting 'retention.mss'; did you mean retention.ms?"),
        (
            ("--describe-config", "--format", "yaml"),
            "format: 'yaml' is not accepted; expected text, json, markdown",
        ),
        (("start",), "unexpected argument 'start'; options begin with --, see --help"),
    ],
)
def test_wrong_arguments_end_with_one_line(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(*arguments)
    assert caught.value.code == f"pylogbroker: {message}"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse("--version")
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"pylogbroker {__version__}\n"


@pytest.mark.parametrize(
    "name", ["--config", "--data-dir", "--listener", "--override", "--describe-config", "--format"]
)
def test_help_explains_each_option(name: str) -> None:
    lines = str(Options()).splitlines()
    start = next(number for number, line in enumerate(lines) if f"{name}=" in line or f"{name} " in line)
    assert len(" ".join(lines[start : start + 2]).split()) > 6


def test_help_says_where_it_listens_and_where_the_data_goes() -> None:
    words = " ".join(str(Options()).split())
    assert "it listens on 127.0.0.1:9092, for clients on this machine only, and keeps its data in ./data." in words


@pytest.mark.parametrize(
    ("nodaemon", "given", "used"),
    [(1, "twistd.pid", ""), (1, "/run/broker.pid", "/run/broker.pid"), (0, "twistd.pid", "twistd.pid")],
)
def test_in_the_foreground_there_is_no_pid_file_unless_asked_for(nodaemon: int, given: str, used: str) -> None:
    twistd = ParentOptions()
    twistd.update({"nodaemon": nodaemon, "pidfile": given})
    options = Options()
    options.parent = twistd
    options.parseOptions([])
    assert twistd["pidfile"] == used


@pytest.mark.parametrize(
    ("twistd", "elsewhere"),
    [
        ({"nodaemon": 1}, False),
        ({"nodaemon": 1, "logfile": "-"}, False),
        ({"nodaemon": 1, "logfile": "broker.log"}, True),
        ({"nodaemon": 1, "syslog": 1}, True),
        ({"nodaemon": 0}, True),
    ],
)
def test_log_destination_is_recognized(twistd: dict[str, object], elsewhere: bool) -> None:
    options = Options()
    options.parent = ParentOptions()
    options.parent.update({"pidfile": "twistd.pid", "logfile": None, "syslog": 0} | twistd)
    options.parseOptions([])
    assert options.logs_elsewhere is elsewhere


@pytest.mark.parametrize(
    ("twistd", "changes"),
    [({}, False), ({"chroot": "/srv/jail"}, True), ({"uid": 0}, True), ({"gid": 1000}, True)],
)
def test_another_root_or_user_is_recognized(twistd: dict[str, object], changes: bool) -> None:
    options = Options()
    assert not options.changes_root_or_user  # without twistd
    options.parent = ParentOptions()
    options.parent.update({"chroot": None, "uid": None, "gid": None} | twistd)
    assert options.changes_root_or_user is changes
