"""The `pylogbroker` command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from pylogbroker.cli import main
from pylogbroker.cli.load import _mapping
from pylogbroker.spark.loading.mapping import JsonValue, LogLine
from tests.spark.load_here import load_here, rows
from tests.spark.topics import Rec, Topics
from tests.support.brokers import Broker

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def in_a_process(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pylogbroker.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)


def test_it_is_installed_by_its_name() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert setup["options.entry_points"]["console_scripts"].strip() == "pylogbroker = pylogbroker.cli:main"


@pytest.mark.parametrize("command", [[], ["load"], ["loaded"]])
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


def test_an_extra_that_is_missing() -> None:
    script = (
        "import sys; sys.modules['pyspark'] = None\nfrom pylogbroker.cli import main; main(prog_name='pylogbroker')"
    )
    arguments = [sys.executable, "-c", script, "load", "a", "-b", "127.0.0.1:1", "-t", "x"]
    found = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (found.returncode, found.stderr) == (1, "Error: pyspark is missing: pip install 'pylogbroker[spark]'\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-b", "a:1", "-t", "x"], "give topics' names, or --pattern"),
        (["-b", "a:1", "-t", "x", "a", "--pattern", "b"], "give topics' names, or --pattern"),
        (["-t", "x", "a"], "Missing option '-b'"),
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
def test_wrong_arguments(arguments: list[str], told: str) -> None:
    found = run("load", *arguments)
    assert found.exit_code != 0
    assert told in " ".join(found.output.split())


def test_mappings() -> None:
    json = _mapping(None, "n:long, at : time", None)
    assert json == JsonValue(pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))]))
    assert _mapping(None, None, "(?P<a>x)") == LogLine("(?P<a>x)")
    assert _mapping("json:loads", None, None) is __import__("json").loads
    assert _mapping(None, None, None) is None


def test_a_load(new_broker: Callable[..., Broker], fresh_name: Callable[[], str], tmp_path: Path) -> None:
    broker = new_broker()
    broker.start()
    target = tmp_path / "target"
    with Topics(broker.bootstrap, fresh_name) as topics:
        topic = topics.make(2, retention_ms="-1")
        topics.fill(topic, [Rec(b'{"n": %d}' % n, partition=n % 2, timestamp=1_000 + n) for n in range(20)])
        spark = ("--master", "local[1]", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.memory=512m")
        common = ("load", topic, "-b", broker.bootstrap, "-t", target, "--json", "n:long", *spark)
        found = in_a_process(*common, "--until", "1010")
        assert found.returncode == 0, found.stderr
        assert found.stdout.startswith("10 records in 2 files, ")
        assert found.stdout.endswith(" lag 10\n")
        assert sorted(rows(target, "n")) == [(n,) for n in range(10)]
        topics.trim(topic, 0, 7)
        failed = in_a_process(*common, "--quiet")
        assert failed.returncode == 1
        assert "Error: some data may have been lost: " in failed.stderr
        assert "Traceback" not in failed.stderr


def test_what_has_been_loaded(new_broker: Callable[..., Broker], fresh_name: Callable[[], str], tmp_path: Path) -> None:
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
