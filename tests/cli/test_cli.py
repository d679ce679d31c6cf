"""The `pylogbroker` command."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path
from unittest.mock import Mock

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from pylogbroker.cli import main, other_tools
from pylogbroker.cli.cluster_options import Connection
from pylogbroker.cli.load import _mapping
from pylogbroker.spark import sessions
from pylogbroker.spark.loading.mappings import JsonValue, LogLine
from tests.peers.spark import java_options
from tests.spark.local_load import load_here, rows, stray_files
from tests.spark.topics import Rec, Topics
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


def spark_options() -> list[str]:
    options = ("spark.ui.enabled=false", "spark.driver.memory=512m")
    java = f"spark.driver.extraJavaOptions={' '.join(java_options())}"
    return [text for option in (*options, java) for text in ("--conf", option)]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def in_a_process(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pylogbroker.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=600)


def test_command_is_installed_as_pylogbroker() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert setup["options.entry_points"]["console_scripts"].strip() == "pylogbroker = pylogbroker.cli:main"


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["load"],
        ["loaded"],
        ["backup"],
        ["coordination"],
        ["migrate", "kafka07"],
        ["topic", "list"],
        ["group", "reset"],
    ],
)
def test_help_needs_nothing_heavy(command: list[str]) -> None:
    script = (
        "import sys\nfrom pylogbroker.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    print(sorted({'pyspark', 'pyarrow', 'numpy', 'rich', 'twisted'} & set(sys.modules)))"
    )
    arguments = [sys.executable, "-c", script, *command, "--help"]
    found = subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.startswith("Usage: ")
    assert found.stdout.endswith("[]\n")


def test_a_command_on_a_cluster_imports_only_what_it_needs(broker: Broker) -> None:
    unneeded = (
        "OpenSSL",
        "cryptography",
        "fastavro",
        "jsonschema",
        "kazoo",
        "numpy",
        "prometheus_client",
        "pyarrow",
        "pyspark",
        "rich",
        "tomllib",
        "twisted.web",
        "yaml",
        "pylogbroker.broker",
        "pylogbroker.config.table",
        "pylogbroker.client.admin.groups",
        "pylogbroker.client.consumer",
        "pylogbroker.client.producer",
        "pylogbroker.metadata.zk_schema",
        "pylogbroker.security.sasl.client",
    )
    script = (  # Twisted imports OpenSSL if it can
        "import sys\nfor name in ('OpenSSL', 'cryptography'): sys.modules[name] = None"
        "\nfrom pylogbroker.cli import main\ntry:\n    main()\nfinally:\n"
        f"    print([name for name in {unneeded} if sys.modules.get(name)], file=sys.stderr)"
    )
    arguments = [sys.executable, "-c", script, "topic", "list", "-b", broker.bootstrap, "--internal"]
    environment = {**os.environ, "PYLOGBROKER_CONFIG": "/nonexistent"}
    found = subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    assert found.stderr.removeprefix("(none)\n") == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["-b", "a:1", "-t", "x"], "give topic names, or --pattern"),
        (["-b", "a:1", "-t", "x", "a", "--pattern", "b"], "give topic names, or --pattern"),
        (["-b", "", "-t", "x", "a"], "--bootstrap-server is empty"),
        (["-b", "a:1", "-t", "x", "a", "--json", "n:int", "--log-line", "b"], "only one of --mapping, --json"),
        (["-b", "a:1", "-t", "x", "a", "--json", "n:integer"], "'n:integer': expected NAME:TYPE"),
        (["-b", "a:1", "-t", "x", "a", "--mapping", "json:nothing"], "expected MODULE:NAME of a function"),
        (["-b", "a:1", "-t", "x", "a", "--mapping", "json:__name__"], "is not a function"),
        (["-b", "a:1", "-t", "x", "a", "--option", "failOnDataLoss"], "expected NAME=VALUE"),
        (["-b", "a:1", "-t", "x", "a", "--file-size", "much"], "expected a size such as 64MB"),
        (["-b", "a:1", "-t", "x", "a", "--keep-replaced", "long"], "expected a time such as 12h or 7d"),
        (["-b", "a:1", "-t", "x", "--pattern", "("], "is not a regular expression"),
        (["-b", "a:1", "-t", "x", "a", "--log-line", "x"], "Error: 'x' has no named groups"),
    ],
)
def test_wrong_arguments(arguments: list[str], reported: str) -> None:
    found = run("load", *arguments)
    assert found.exit_code != 0
    assert reported in " ".join(found.output.split())


def test_mappings() -> None:
    json = _mapping(None, "n:long, at : time", None)
    assert json == JsonValue(pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))]))
    assert _mapping(None, None, "(?P<a>x)") == LogLine("(?P<a>x)")
    assert _mapping("json:loads", None, None) is __import__("json").loads
    assert _mapping(None, None, None) is None


def test_settings_of_the_client_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A password need not be on the command line, where others see it; an option there counts more."""
    loaded = Mock(return_value=Mock(seconds=1.0, gaps=[]))
    monkeypatch.setattr("pylogbroker.spark.loading.load.load", loaded)
    monkeypatch.setattr(sessions, "new_session", Mock())
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.password=secret\n")
    options = ["--command-config", str(file), "--option", "kafka.sasl.mechanism=SCRAM-SHA-512"]
    found = run("load", "a", "-b", "127.0.0.1:1", "-t", "x", *options)
    assert (found.exit_code, found.exception) == (0, None)
    assert loaded.call_args.kwargs["options"] == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.password": "secret",
    }
    monkeypatch.setenv("PYLOGBROKER_BOOTSTRAP_SERVER", "127.0.0.1:2")
    assert run("load", "a", "-t", "x", "-X", "client.id=me").exit_code == 0
    assert loaded.call_args.args[1] == "127.0.0.1:2"
    assert loaded.call_args.kwargs["options"] == {"kafka.client.id": "me"}
    missing = run("load", "a", "-b", "127.0.0.1:1", "-t", "x", "--command-config", str(tmp_path / "none"))
    assert missing.exit_code == 1
    assert "none: No such file or directory" in missing.output


def test_a_load(
    new_broker: Callable[..., Broker],
    fresh_name: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = new_broker()
    broker.start()
    target = tmp_path / "target"
    with Topics(broker.bootstrap, fresh_name) as topics:
        topic = topics.make(2, retention_ms="-1")
        topics.fill(topic, [Rec(b'{"n": %d}' % n, partition=n % 2, timestamp=1_000 + n) for n in range(20)])
        spark = ("--master", "local[1]", *spark_options())
        common = ("load", topic, "-b", broker.bootstrap, "-t", target, "--json", "n:long", *spark)
        found = in_a_process(*common, "--until", "1010")
        assert found.returncode == 0, found.stderr
        assert found.stdout.startswith("10 records in 2 files, ")
        assert found.stdout.endswith(" lag 10\n")
        assert found.stderr.splitlines()[-1].split()[-3:-1] == ["lag", "10"]  # no terminal: the bar as it was at last
        assert sorted(rows(target, "n")) == [(n,) for n in range(10)]
        topics.trim(topic, 0, 7)
        monkeypatch.setattr(sessions, "new_session", lambda *_: Mock())  # not used before that is found out
        failed = run(*map(str, common), "--quiet")
        assert failed.exit_code == 1
        assert failed.output.startswith("Error: some data may have been lost: ")
        assert isinstance(failed.exception, SystemExit)


def test_ctrl_c(new_broker: Callable[..., Broker], fresh_name: Callable[[], str], tmp_path: Path) -> None:
    broker = new_broker()
    broker.start()
    target = tmp_path / "target"
    (tmp_path / "slow.py").write_text(
        "import time\n\ndef mapping(rows):\n    time.sleep(0.5 if rows.num_rows else 0)\n    return rows\n"
    )
    spark = ("--master", "local[2]", *spark_options())
    small = ("--option", "kafka.max.partition.fetch.bytes=200", "--file-size", "1", "--mapping", "slow:mapping")
    with Topics(broker.bootstrap, fresh_name) as topics:
        topic = topics.make(2, retention_ms="-1")
        for first in range(0, 300, 3):
            topics.fill(topic, [Rec(b"%d" % n, partition=n % 2) for n in range(first, first + 3)])
        arguments = ["load", topic, "-b", broker.bootstrap, "-t", target, *small, *spark]
        command = [sys.executable, "-m", "pylogbroker.cli", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            wait_until(lambda: len(list(target.rglob("*.parquet"))) >= 4 or process.poll() is not None)
            assert process.poll() is None, process.communicate()
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=300)
        finally:
            process.kill()
        reported = "Interrupted: completed files are kept. Run the same command again to continue."
        assert (process.returncode, output, errors.splitlines()[-1]) == (130, "", reported)
        assert "Traceback" not in errors
        before = len(list(target.rglob("*.parquet")))
        assert before < 200
        load_here(broker.bootstrap, topic, target)
        assert sorted(int(value) for (value,) in rows(target, "value")) == list(range(300))
        assert len(list(target.rglob("*.parquet"))) <= before + 4
        assert stray_files(target) == [".lock", "manifest.json"]


def test_ctrl_c_of_other_verbs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "admin", Mock(side_effect=KeyboardInterrupt))
    found = CliRunner().invoke(main, ["topic", "list", "-b", "127.0.0.1:1"])
    assert (found.exit_code, found.stdout, found.stderr) == (130, "", "Interrupted.\n")


def test_an_unwritable_target_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "new_session", lambda *_: Mock())
    (tmp_path / "file").touch()
    for target, reported in (("file", f"Error: target: file://{tmp_path}/file is a file"), ("file/below", "Error: ")):
        found = run("load", "a", "-b", "127.0.0.1:1", "-t", str(tmp_path / target))
        assert found.exit_code == 1
        assert found.output.startswith(reported)
        assert len(found.output.splitlines()) == 1
        assert isinstance(found.exception, SystemExit)


def test_a_misspelt_command_is_suggested() -> None:
    for name, hint in (("topics", "; did you mean topic?"), ("prodce", "; did you mean produce?"), ("xyzzy", "")):
        found = run(name, "list")
        assert found.exit_code == 2
        assert found.stderr.splitlines()[-1] == f"Error: there is no command '{name}'{hint}"


def test_words_of_other_tools_are_answered_with_those_of_this_command() -> None:
    for words, hint in (
        (["-L"], "topic list"),
        (["help"], "--help"),
        (["topic", "consume", "x"], "consume TOPIC"),
        (["topic", "produce", "x"], "produce TOPIC"),
        (["topic", "create", "--topic", "x"], "topic create TOPIC"),
        (["topic", "alter", "x", "-c", "a=b"], "topic alter TOPIC --set NAME=VALUE"),
        (["group", "seek", "x"], "group reset GROUP"),
        (["consume", "-t", "x"], "consume TOPIC"),
        (["consume", "x", "--brokers", "a"], "consume --bootstrap-server HOST:PORT"),
    ):
        done = run(*words)
        assert done.exit_code == 2
        assert done.stderr.splitlines()[-1].endswith(f"; see `pylogbroker {hint}`"), done.stderr
    assert run("group", "lst").stderr.endswith("there is no command 'lst'; did you mean list?\n")
    assert run("-V").stdout == run("--version").stdout


def test_words_that_stand_for_those_of_other_tools_exist() -> None:
    context = click.Context(main, info_name="pylogbroker")
    for named in {named for words in other_tools._WORDS.values() for named in words.values()}:
        command: click.Command = main
        for word in named.split():
            if word.startswith("--"):
                assert word in {name for parameter in command.get_params(context) for name in parameter.opts}, named
            elif word.islower() and isinstance(command, click.Group):
                following = command.get_command(context, word)
                assert following is not None, named
                command = following


def test_a_failed_start_is_one_line_on_standard_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        found = in_a_process("broker", "start", "-d", tmp_path, "-l", listener, "-o", "num.partiton=3")
    assert found.returncode == 1
    assert "Error" not in found.stdout
    [line] = found.stderr.splitlines()
    assert line.startswith(f"Error: cannot listen on {listener}: Address already in use")
    assert line.endswith("; num.partiton is not a setting, ignored; did you mean num.partitions?")


def test_without_java(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    arguments = [sys.executable, "-m", "pylogbroker.cli", "load", "a", "-b", "127.0.0.1:1", "-t", tmp_path / "x"]
    found = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1].startswith("Error: Spark cannot be started: ")
    assert "Traceback" not in found.stderr


def test_loaded_files_are_listed(
    new_broker: Callable[..., Broker], fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    broker = new_broker()
    broker.start()
    with Topics(broker.bootstrap, fresh_name) as topics:
        topic = topics.make(1, retention_ms="-1")
        topics.fill(topic, [Rec(b"value") for _ in range(20)])
        load_here(broker.bootstrap, topic, tmp_path)
    [path] = tmp_path.rglob("*.parquet")
    assert run("loaded", str(tmp_path), "--files").output == f"{path}\n"
    line = next(line for line in in_a_process("loaded", tmp_path).stdout.splitlines() if topic[:20] in line)
    assert line.split()[1:6] == ["0", "0", "20", "1", "20"]
    missing = run("loaded", str(tmp_path / "nowhere"))
    assert missing.exit_code == 1
    assert "Error: " in missing.output
    assert "nothing has been loaded there" in missing.output
